"""A lake as an earlier version of Waybill left it, kept as an archive beside this file.

Iceberg keeps absolute paths, so the lake is always unpacked at the place where it was written.
`PYTHONPATH=spark_jobs:. python -m tests.spark.stored_lake FILE.tar.xz`, run with the code of the
version that is to be kept, writes another one.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stack.archives import unpack

PLACE = Path("/tmp/waybill-stored-lake")
STORED = Path(__file__).with_name("stored_lake.tar.xz")

COLUMNS = {"id": "bigint", "total": "decimal(12,2)", "made": "timestamptz", "note": "string"}


def message(
    sequence: int, kind: str, before: dict | None, after: dict | None, table: str = "orders"
) -> bytes:
    """A message of OMS' default format."""
    about = {
        "record_primary_key": "id",
        "storeDataSequence": sequence,
        "table_name": table,
        "db": "shop",
        "dbType": "OB_MYSQL",
        "timestamp": str(1_700_000_000 + sequence),
    }
    row = {"prevStruct": before, "postStruct": after, "allMetaData": about, "recordType": kind}
    return json.dumps(row).encode()


def order(number: int, total: float = 1.5, note: str | None = None) -> dict[str, Any]:
    """A row of the table of orders."""
    return {"id": number, "total": total, "made": "1709251199.123456", "note": note}


def migration() -> dict[str, Any]:
    """What the lake is of: two tables, two targets, both of files."""
    targets = ("canal", "datahub-blob")
    return {
        "name": "stored",
        "source": {
            "files": {"path": str(PLACE / "in"), "topic": "shop"},
            "envelope": "oms-default",
        },
        "publish": [
            {"envelope": name, "files": {"path": str(PLACE / "out" / name)}} for name in targets
        ],
        "quality": {"max_refused_share": 0.9},
        "tables": {
            "shop.orders": {"key": ["id"], "columns": COLUMNS},
            "shop.people": {"key": ["id"], "columns": {"id": "bigint", "name": "string"}},
        },
        "lake": {"warehouse": str(PLACE / "lake")},
        "spark": {"spark.sql.shuffle.partitions": "1"},
    }


FIRST = [
    message(1, "INSERT", None, order(1)),
    message(2, "INSERT", None, order(2, 20.25, "two")),
    message(3, "INSERT", None, order(3, -0.01, "")),
    message(4, "INSERT", None, {"id": 1, "name": "Ann"}, "people"),
    # Refused: no number.
    message(5, "INSERT", None, order(5) | {"id": "five"}),
]
SECOND = [
    message(6, "UPDATE", order(1), order(1, 2.5, "changed")),
    message(7, "UPDATE", order(2, 20.25, "two"), order(20, 20.25, "two")),
    message(8, "DELETE", order(3, -0.01, ""), None),
    message(9, "UPDATE", {"id": 1, "name": "Ann"}, {"id": 1, "name": "Änne"}, "people"),
]


def feed(name: str, messages: list[bytes]) -> None:
    """Put messages into a new file of the source."""
    (PLACE / "in").mkdir(parents=True, exist_ok=True)
    (PLACE / "in" / f"{name}.jsonl").write_bytes(b"\n".join(messages) + b"\n")


@contextmanager
def unpacked() -> Iterator[Path]:
    """The lake at its place, which nobody else uses meanwhile."""
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        with tarfile.open(STORED) as archive:
            unpack(archive, PLACE.parent)
        try:
            yield PLACE
        finally:
            shutil.rmtree(PLACE)


def write(archive: Path) -> None:
    """Make the lake anew with the code that is running, in two batches, and pack it."""
    from waybill import jobs
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    shutil.rmtree(PLACE, ignore_errors=True)
    spec = Migration.model_validate(migration())
    spark = start_session(spec, "stored")
    for batch, messages in (("b1", FIRST), ("b2", SECOND)):
        feed(batch, messages)
        jobs.run_migration(spec, batch=batch, mode="incremental", spark=spark)
    spark.stop()
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(PLACE, PLACE.name)
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
