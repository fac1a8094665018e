"""New branches for runs of stages."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from waybill.lake.branches import branches, doomed, whole
from waybill.lake.commit import Branch
from waybill.lake.names import branch_prefix, split

if TYPE_CHECKING:
    from waybill.lake.catalog import Catalog


def start_branch(
    catalog: Catalog, table: str, stage: str, batch: str, at_once: bool = True
) -> Branch:
    """A new branch from main; branches left over by the same stage and batch are dropped.

    So are those of other batches of the stage that main has left behind: nothing could make them
    visible any more. A merge's branches stay, they are what the gate judged.

    Args:
        catalog: the catalog.
        table: full name.
        stage: that writes.
        batch: that is written.
        at_once: whether it is to be there before anything is written to it, so that a second run
            of the batch takes it away.
    """
    namespace, name = split(table)
    metadata = catalog.metadata(namespace, name)
    prefix = branch_prefix(stage, batch)
    leftovers = [ref for ref in branches(metadata) if ref.startswith(prefix)]
    if stage != "merge":
        leftovers += [
            ref
            for ref in branches(metadata)
            if ref.startswith(f"{stage}_") and ref not in leftovers and doomed(metadata, ref)
        ]
    catalog.remove_refs(namespace, name, leftovers)
    branch = Branch(catalog, table, prefix + secrets.token_hex(4), whole(metadata), None)
    if at_once:
        branch.begin()
    return branch
