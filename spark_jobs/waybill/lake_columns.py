"""The columns of the lake's tables, as Arrow schemas, and the names they live under.

Namespace `<migration>_log` holds `archive`, `changes`, `outbox`, `merges`, `published`, `runs`, and
`schemas` where a schema registry is asked, and `verifications` where the tables were compared with
their database; namespace `<migration>` holds the merged tables.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

TIMESTAMP: Any = pa.timestamp("us", tz="UTC")
HEADERS: Any = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

MESSAGE_PLACE = ("topic", "partition", "offset")
"""Columns that say where a message stands; no two messages of a topic have the same."""

CHANGE_PLACE = (*MESSAGE_PLACE, "index")
"""Where a change came from: its message, and which change of it it is."""

TABLE_PARTS = ("database", "schema", "table")
"""Columns with the parts of a table's name; a dump and messages may split it at other dots."""

BOOTSTRAP = "bootstrap"
"""What a target begins with: the outcome of such rows of `changes`, and the stage of what is
committed with them there and in the outbox."""
BEFORE_BATCH = "-bootstrap"
"""How ids of batches end that hold what targets begin with before another batch."""
BATCHES = "batches"
"""In the cursor of a commit of the outbox that holds several of these: their ids, in order."""


REBUILT = "rebuilt"
"""The outcome of rows of `changes` that say what a reload has brought once more, and the detail of
a conversion's report that says which tables reloads have rebuilt (`waybill.lake.rebuilt_rows`)."""
REBUILT_KEYS = "rebuilt_keys"
"""The detail of a conversion's report that says of which tables reloads have rebuilt some keys."""


def _columns(fields: list[tuple[str, Any]]) -> pa.Schema:
    return pa.schema(fields)


ARCHIVE = _columns(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestamp_type", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("batch", pa.string()),
    ]
)
"""One row per message, bytes untouched. `timestamp_type` says who gave the timestamp: `create` the
producer, `logappend` the broker; null where nobody tells."""

CHANGES = _columns(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("batch", pa.string()),
        ("operation", pa.string()),
        ("database", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("old_key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("order_key", pa.string()),
        ("source_time", TIMESTAMP),
        ("transaction", pa.string()),
        ("ddl_text", pa.string()),
        ("schema_id", pa.string()),
        ("extra", pa.string()),
        ("half", pa.string()),
        ("outcome", pa.string()),
        ("reason_kind", pa.string()),
        ("reason", pa.string()),
        ("raw_key", pa.binary()),
        ("raw", pa.binary()),
    ]
)
"""One row per change. `outcome` is the partition column:

- `ok`: a change that the merge and the encoders read;
- `refused`: with reason and the message's exact bytes (`raw_key`, `raw`);
- `replayed`: was refused, and taken once more since;
- `skipped`: a message that is not a change, or a change that the migration leaves out
  (`reason_kind` says why);
- `waiting`: half of an update (`half`), until the other half comes;
- `bootstrap`: a row of a merged table that a new target begins with, at a place of its own; the
  topic names the target;
- `rebuilt`: no change; what `batch` brought of a table, or of one `key` of it, counts no more, as
  the reload that `reason` names has brought all of it once more;
- `schema`: `schema_id` and, in `extra`, the schema itself; one or more per batch and schema.
"""

OUTBOX = _columns(
    [
        ("target", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("message", pa.int32()),
        ("batch", pa.string()),
        ("table", pa.string()),
        ("order_key", pa.string()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("losses", pa.list_(pa.string())),
        ("outcome", pa.string()),
        ("reason_kind", pa.string()),
        ("reason", pa.string()),
    ]
)
"""One row per message to publish, in the target's envelope.

`topic, partition, offset, index` name the change it was made from, `message` counts the messages
of one change, `table` is qualified. `losses` says what was given up, and how an id was made
(`waybill.made_ids`). `outcome` is `ok`, `skipped` (the target has no word for the change),
`refused` (writing it would have changed a value) or `replayed` (was refused, and taken once more
since).
"""


MERGES = _columns(
    [
        ("batch", pa.string()),
        ("kind", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("order_key", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("reason_kind", pa.string()),
        ("reason", pa.string()),
        ("body", pa.string()),
    ]
)
"""What the merge did, batch by batch. `kind` is the partition column:

- `state`: one row per batch, what the merge remembers after it (`body`, JSON);
- `refused`: a change that its table cannot hold, with its place, its reason and its image (`body`);
- `replayed`: one that was refused, and taken once more since.
"""

MERGE_STATE = "state"
"""What `kind` is in the row that holds what the merge remembers."""

REGISTRY_SCHEMAS = _columns(
    [
        ("registry", pa.string()),
        ("id", pa.string()),
        ("schema", pa.string()),
        ("references", pa.list_(pa.string())),
        ("batch", pa.string()),
    ]
)
"""One row per schema that a schema registry sent: its id or GUID, and the schemas that it uses."""


PUBLISHED = _columns(
    [
        ("batch", pa.string()),
        ("target", pa.string()),
        ("part", pa.int32()),
        ("place", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
        ("first", pa.string()),
        ("last", pa.string()),
        ("manifest", pa.string()),
    ]
)
"""One row per part that was sent. `place` is the file (or topic partition and offsets), `first` and
`last` name the changes of its first and last message (topic/partition/offset/index)."""

RUNS = _columns(
    [
        ("batch", pa.string()),
        ("stage", pa.string()),
        ("outcome", pa.string()),
        ("time", TIMESTAMP),
        ("report", pa.string()),
        ("result", pa.string()),
    ]
)
"""One row per judgement of a batch by the gate, one per decision of a person about one, and one per
change of a column that a judgement made visible.

Of a judgement `stage` is `validate`; `outcome` is `passed`, `reported` (failures were let through
by `on_failure: report`), `approved` (a person has let them through) or `failed`; `result` is the
gate's JSON. A snapshot stamped `validate` stands for a batch that may be published, one stamped
`validate-failed` for one that may not.

Of a decision `stage` is `decide`, `outcome` is `approved` or `dropped`, and `result` says who,
when, why and about which rules (`waybill.lake.decisions`).

Of a change of a column `stage` is `SCHEMA_EVENT`, `batch` the one that brought it, `outcome` its
class (`waybill.spec.decisions.CLASSES`), and `result` the table, the column, what it was before and
is after, the statement and the effect; there is no `report`.
"""

SCHEMA_EVENT = "schema"
"""What `stage` is in the rows of `runs` that are changes of columns."""

VERIFICATIONS = _columns(
    [
        ("verification", pa.string()),
        ("time", TIMESTAMP),
        ("kind", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("what", pa.string()),
        ("body", pa.string()),
    ]
)
"""What verifications found. `kind` is the partition column:

- `table`: one row per verification and table, its figures in `body` (JSON);
- `difference`: a row that differs (`what` says how), with its columns that do in `body`;
- `undecided`: one that differed and may have changed meanwhile, with what the next verification
  needs to decide about it.
"""


def columns_of(table: pa.Schema, *names: str) -> pa.Schema:
    """Some columns of a table."""
    return pa.schema([table.field(name) for name in names])


SCHEMA_COLUMNS = columns_of(CHANGES, "schema_id", "extra")
"""What a row of `changes` tells of a schema."""


def dotted_name(names: Iterable[str | None]) -> str:
    """A table's name of database, schema and table; those that are there and empty count."""
    return ".".join(name for name in names if name is not None)


def log_namespace(migration: str) -> str:
    """Namespace of the batch tables of a migration."""
    return f"{migration}_log"


RESERVED = frozenset(
    {
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_change_type"),
        *("_change_ordinal", "_commit_snapshot_id", "_row_id", "_last_updated_sequence_number"),
    }
)
"""Names that Iceberg keeps for itself."""


def lake_name(name: str, taken: Iterable[str]) -> str:
    """The column name in the lake for a source column.

    The source's own name, except where it differs from one that is `taken` only in case, is one of
    Waybill's or Iceberg's own, is empty, or holds a dot, a brace, a back quote or a control
    character: then its letters, digits and underscores with a hash of the exact name.
    """
    lowered = name.lower()
    plain = (
        re.fullmatch(r"[^.`{}\x00-\x1f\x7f]+", name) is not None
        and not lowered.startswith("_waybill_")
        and lowered not in RESERVED
        and lowered not in {other.lower() for other in taken}
    )
    if plain:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^0-9A-Za-z_]', '_', name).strip('_') or 'column'}_{digest}"
