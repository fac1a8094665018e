"""Which runs have failed, as the index has it: noted when a stage stops, gone when one goes on.

Airflow knows that of its own runs. Of those from the command line nobody else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from waybill.overview.ends import source_and_targets
from waybill.overview.files import INDEX
from waybill.overview.schema import UNDER_WAY, VERSION, FailedStage, Index, decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine, StageFailure
    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store


def note_failure(spec: Migration, store: Store, failure: StageFailure) -> None:
    """Say in the index of a migration that a stage has failed.

    A migration whose first stage fails gets an index without batches. One that this version cannot
    read stays as it is.

    Args:
        spec: the migration.
        store: the folder of its reports.
        failure: what has happened.
    """
    content = store.read(INDEX)
    if content is None:
        source, targets = source_and_targets(spec)
        index: Index | None = Index(VERSION, spec.name, failure.at, source, targets, [])
    else:
        index = decoded(content, Index)
    if index is None:
        return
    noted = msgspec.structs.replace(
        index,
        stopped=FailedStage(failure.batch, failure.stage, failure.at),
        failed=failed_batches(index, index.batches),
    )
    with store.write(INDEX) as stream:
        stream.write(encoded(noted))


def failed_batches(before: Index | None, lines: Sequence[BatchLine]) -> dict[str, str]:
    """By batch that is under way the stage in which its run has failed.

    Args:
        before: the index that has it.
        lines: what became of the batches since.
    """
    known = {} if before is None else before.failures
    return {
        line.batch: known[line.batch]
        for line in lines
        if line.state == UNDER_WAY and line.batch in known
    }
