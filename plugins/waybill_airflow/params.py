"""The trigger form of a migration's DAG, and the batch id that a run stands for."""

from __future__ import annotations

import hashlib
from datetime import UTC
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from waybill.report import STAGES

if TYPE_CHECKING:
    from datetime import datetime

MODES = {
    "incremental": "New messages since the last batch",
    "full": "The whole source, from its beginning",
    "replay": "No new messages: replay the refused ones",
    "reload": "No new messages: reload some tables from the archive",
}
"""How the snapshot reads the source."""

KEYS = {
    "all": "All rows",
    "differing": "The rows that the last verification found to differ",
}
"""Which rows of the tables a reload rebuilds."""

BATCH_ID = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""What a batch id may look like: it names branches, folders and files."""

BATCH_PATTERN = rf"^{BATCH_ID}\Z"
r"""The whole of a text that is a batch id. In Python `$` would let a line feed follow."""

_DAY = (
    "(?:"
    "[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
    ")"
)
"""A day of the calendar; the 29th of February in leap years only."""

TIME_PATTERN = (
    rf"^(?!0000){_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{{1,6}})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?\Z"
)
"""A point in time that there is, in UTC where it names no zone.

The form can check a value by nothing but a pattern, so the pattern knows the calendar.
"""


def trigger_form() -> dict[str, Param]:
    """The fields of the form, each checked by Airflow before a run starts."""
    return {
        "mode": Param(
            "incremental",
            type="string",
            title="Mode",
            enum=list(MODES),
            values_display=MODES,
            description_md="What the snapshot reads.",
        ),
        "tables": Param(
            None,
            type=["null", "string"],
            title="Tables",
            description_md="With a reload: names of the tables in the lake, or patterns, separated "
            "by commas, e.g. `shop.orders, shop.item_*`.",
        ),
        "keys": Param(
            "all",
            type="string",
            title="Keys",
            enum=list(KEYS),
            values_display=KEYS,
            description_md="With a reload: which rows of the tables.",
        ),
        "until": Param(
            STAGES[-1],
            type="string",
            title="Stop after",
            enum=list(STAGES),
            description_md="Later stages are skipped; the next batch takes over from there.",
        ),
        "until_time": Param(
            None,
            type=["null", "string"],
            format="date-time",  # gives the form a calendar; nobody checks it, unlike the pattern
            pattern=TIME_PATTERN,
            title="Read up to",
            description_md="The next batch reads messages of this time or later. Only for Kafka "
            "topics; if empty, this batch reads every message.",
        ),
        "drop_held": Param(
            False,
            type="boolean",
            title="Drop the held batch",
            description_md="Drop the batch that failed the gate; this batch merges its changes "
            "again, together with the new ones, and tries its refused messages again.",
        ),
        "batch": Param(
            None,
            type=["null", "string"],
            title="Batch id",
            pattern=BATCH_PATTERN,
            description_md="If empty, it is derived from the run. The id of a finished batch "
            "changes nothing and shows its report.",
        ),
    }


def batch_of(dag_run: Any) -> str:
    """The batch id of a run: its time, so that ids sort, and a mark that keeps runs apart.

    It depends on nothing but the run, so every task of it, and every try of a task, names the same
    batch. Runs of two DAGs on one schedule have the same id and time; their batches differ.
    """
    moment: datetime = dag_run.run_after
    mark = hashlib.sha256(f"{dag_run.dag_id}/{dag_run.run_id}".encode()).hexdigest()[:6]
    moment = moment.astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}-{mark}"
