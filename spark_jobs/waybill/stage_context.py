"""What every stage is handed beside the migration."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from waybill.lake import Lake
    from waybill.lake.decisions import RequestedDecision
    from waybill.spec.migration import Migration

_log = logging.getLogger("waybill")


@dataclass(frozen=True, slots=True)
class Options:
    """How a run differs from the ordinary one.

    Attributes:
        mode: `incremental` goes on where the cursor stands; with `full` the snapshot reads the
            source again from its beginning; `replay` reads nothing new and takes what was refused
            once more; `reload` reads nothing new and takes some tables once more, from the archive
            and from dumps that are new under `full`.
        drop_held: whether a merge drops the branches that a failed gate left, instead of waiting;
            what was refused since the gate last let something through is decoded again for it.
        until_time: take no message from the first one on that is as new as this; where the
            migration names an end of its own, the earlier of the two counts.
        decision: what a person decides about the batch, for the gate.
    """

    mode: str = "incremental"
    drop_held: bool = False
    until_time: datetime | None = None
    decision: RequestedDecision | None = None
    tables: tuple[str, ...] = ()
    """Names or patterns of the tables that `reload` takes, as the lake has them."""
    keys: str = "all"
    """Which keys of them: `all`, or `differing` for those that the newest verification of each
    table found to differ."""

    @property
    def reads_source(self) -> bool:
        """Whether the snapshot looks for messages."""
        return self.mode not in ("replay", "reload")


class KeysToReload(NamedTuple):
    """The keys that a reload takes where it does not take whole tables.

    Attributes:
        keys: key images as the lake has them (`_waybill_key`), by the table's qualified name.
        warnings: what a person should know about them.
        unsettled: SQL of rows of `changes` that are of a transaction which is open for the merge,
            or was rolled back; empty where it knows of none.
    """

    keys: Mapping[str, frozenset[str]]
    warnings: tuple[str, ...] = ()
    unsettled: str = ""


@dataclass(frozen=True, slots=True)
class StageContext:
    """One stage of one batch.

    Attributes:
        spark: the session whose catalog `lake` is the migration's (`lake.session`).
        lake: the migration's lake.
        spec: the migration.
        batch: id of the batch.
        options: how the run differs from the ordinary one.
        progress: says one line about the work, for a person who watches.
        keys: finds the keys that a reload takes; None where it takes whole tables.
    """

    spark: SparkSession
    lake: Lake
    spec: Migration
    batch: str
    options: Options = field(default_factory=Options)
    progress: Callable[..., Any] = _log.info
    keys: Callable[[], KeysToReload] | None = None
