"""`waybill quarantine list` and `waybill quarantine show`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.lake_session import needed, open_lake
from waybill.cli.output import console, print_json, print_table, printable
from waybill.errors import ConfigurationError
from waybill.inprocess.quarantine import text_or_base64
from waybill.spec_file import load_migration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake import Lake

_POSITION = re.compile(r"(.+)/(\d+)/(\d+)(?:/(\d+))?")


def list_command(
    migration: Path, batch: str | None, kind: str | None, limit: int, as_json: bool
) -> None:
    """List refused messages: by convert, by a target's encoder, by the merge."""
    from pyspark.sql import functions as F

    spec = load_migration(migration)
    with open_lake(spec) as lake:
        rows = refused(lake)
        if batch is not None:
            rows = rows.where(F.col("batch") == batch)
        if kind is not None:
            rows = rows.where(F.col("kind") == kind)
        ordered = rows.orderBy("topic", "partition", "offset", "index", "by").limit(limit + 1)
        found = [row.asDict() for row in ordered.collect()]
    shown = found[:limit]
    if as_json:
        print_json(shown)
        return
    print_table(
        ["message", "row", "refused by", "kind", "reason", "table", "batch"],
        [
            [
                f"{row['topic']}/{row['partition']}/{row['offset']}",
                row["index"],
                row["by"],
                row["kind"],
                row["reason"],
                row["table"],
                row["batch"],
            ]
            for row in shown
        ],
    )
    if len(found) > limit:
        sys.stderr.write(f"only the first {limit}; --limit shows more\n")


def refused(lake: Lake) -> DataFrame:
    """Everything that was refused, by whom, why; also by a merge that the gate holds."""
    from pyspark.sql import functions as F

    from waybill.merge.ledger import with_held

    place = ("batch", "topic", "partition", "offset", "index")
    why = (F.col("reason_kind").alias("kind"), "reason")
    name = F.concat_ws(".", "database", "schema", "table").alias("table")
    changes = lake.read(needed(lake, "changes")).where("outcome = 'refused'")
    rows = changes.select(*place, F.lit("convert").alias("by"), *why, name)
    if lake.exists(lake.log("outbox")):
        outbox = lake.read(lake.log("outbox")).where("outcome = 'refused'")
        rows = rows.unionByName(outbox.select(*place, F.col("target").alias("by"), *why, "table"))
    if lake.exists(lake.log("merges")):
        merges = with_held(lake).where("kind = 'refused'")
        rows = rows.unionByName(merges.select(*place, F.lit("merge").alias("by"), *why, "table"))
    return rows


def show_command(migration: Path, position: str, raw: bool, as_json: bool) -> None:
    """Show a refused message with its bytes."""
    match = _POSITION.fullmatch(position)
    if match is None:
        message = f"{position!r} is no position: write topic/partition/offset, e.g. shop/0/42"
        raise ConfigurationError(message)
    spec = load_migration(migration)
    with open_lake(spec) as lake:
        found = _at(refused(lake), match)
        if not found:
            message = f"no message at {position} was refused; waybill quarantine list shows which"
            raise ConfigurationError(message)
        key, value = _bytes(lake, match)
    if raw:
        sys.stdout.buffer.write(value or b"")
        return
    content = {**text_or_base64("key", key), **text_or_base64("value", value)}
    if as_json:
        print_json({**row, **content} for row in found)
        return
    out = console()
    for row in found:
        out.print(f"{row['kind']}: {printable(row['reason'] or '')}", style="bold", markup=False)
        told = f"{position}, row {row['index']}, refused by {row['by']} in batch {row['batch']}"
        out.print(printable(told), markup=False)
    for name, text in content.items():
        out.print(f"{name}:", style="dim")
        out.print("null" if text is None else printable(text), markup=False, soft_wrap=True)


def _at(rows: DataFrame, match: re.Match[str]) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    topic, partition, offset, index = match.groups()
    rows = rows.where(
        (F.col("topic") == topic)
        & (F.col("partition") == int(partition))
        & (F.col("offset") == int(offset))
    )
    if index is not None:
        rows = rows.where(F.col("index") == int(index))
    return [row.asDict() for row in rows.orderBy("index", "by").collect()]


def _bytes(lake: Lake, match: re.Match[str]) -> tuple[bytes | None, bytes | None]:
    """The message as the archive has it."""
    from pyspark.sql import functions as F

    topic, partition, offset, _index = match.groups()
    rows = lake.read(needed(lake, "archive")).where(
        (F.col("topic") == topic)
        & (F.col("partition") == int(partition))
        & (F.col("offset") == int(offset))
    )
    row = rows.select("key", "value").first()
    if row is None:
        return None, None
    return (
        None if row.key is None else bytes(row.key),
        None if row.value is None else bytes(row.value),
    )
