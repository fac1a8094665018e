"""Messages of published batches go when they are old; nothing that is needed goes with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.lake import Branch, Lake
from waybill.lake.table_properties import KEPT_SINCE
from waybill.lake.upkeep import BUSY
from waybill.upkeep import retention
from waybill.upkeep.run import Upkept, run_upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waybill.spec.migration import Migration

pytestmark = pytest.mark.spark

BROKEN = b'{"no": '


class Line:
    """A migration with batches of a message or a few each."""

    def __init__(self, spark: SparkSession, spec: Migration, folder: Path) -> None:
        self.spark, self.spec, self.folder = spark, spec, folder
        self.lake = Lake.open(spark, spec)

    def batch(self, name: str, *messages: bytes, **named: Any) -> None:
        if messages:
            (self.folder / "in" / f"{name}.jsonl").write_bytes(b"\n".join(messages) + b"\n")
        jobs.run_migration(self.spec, batch=name, spark=self.spark, **named)

    def upkeep(self, spec: Migration | None = None) -> dict[str, Upkept]:
        time.sleep(0.1)
        done = run_upkeep(spec or self.spec, self.lake)
        return {one.table.rsplit(".", 1)[1]: one for one in done}

    def batches(self, name: str) -> dict[str, int]:
        """How many messages of each batch are there."""
        rows = self.lake.read(self.lake.log(name)).groupBy("batch").count().collect()
        return {row["batch"]: row["count"] for row in rows}

    def images(self) -> list[dict[str, Any]]:
        table = self.lake.read(self.lake.merged("shop.orders"))
        return sorted((row.asDict() for row in table.select("id", "title").collect()), key=str)


@pytest.fixture
def line(spark: SparkSession, migration: Callable[..., Migration], tmp_path: Path) -> Line:
    target = {"envelope": "maxwell", "files": {"path": str(tmp_path / "out")}}
    spec = migration(
        publish=[target],
        retention={"archive": "0s", "outbox": "0s"},
        quality={"max_refused_share": 1},
        order={"ambiguous": "partition"},
    )
    return Line(spark, spec, tmp_path)


def order(id_: int, title: str, kind: str = "INSERT") -> bytes:
    old = [{"title": "?"}] if kind == "UPDATE" else None
    return canal(kind, {"id": str(id_), "title": title}, old=old)


def archived(line: Line) -> list[bytes]:
    return [bytes(row["value"]) for row in line.lake.read(line.lake.log("archive")).collect()]


def test_nothing_goes_that_nobody_asked_for(line: Line, migration: Any) -> None:
    line.batch("b1", order(1, "a"))
    done = line.upkeep(line.spec.model_copy(update={"retention": migration().retention}))
    assert {one.messages for one in done.values()} == {0}
    young = migration(retention={"archive": "1h", "outbox": "1h"}).retention
    done = line.upkeep(line.spec.model_copy(update={"retention": young}))
    assert {one.messages for one in done.values()} == {0}
    assert line.batches("archive") == {"b1": 1}
    assert KEPT_SINCE not in line.lake.properties(line.lake.log("archive"))


def test_what_is_published_goes_and_the_line_goes_on(line: Line) -> None:
    line.batch("b1", order(1, "a"), order(2, "b"))
    line.batch("b2", order(3, "c"))
    before = line.images()
    done = line.upkeep()
    assert (done["archive"].messages, done["outbox"].messages) == (3, 3)
    assert line.batches("archive") == line.batches("outbox") == {}
    assert line.images() == before
    assert sum(line.batches("changes").values()) > 0
    line.batch("b3", order(2, "later", "UPDATE"), order(4, "d"))
    assert line.batches("archive") == line.batches("outbox") == {"b3": 2}
    assert [row["title"] for row in line.images()] == ["a", "later", "c", "d"]
    sent = [p.read_bytes() for p in sorted((line.folder / "out" / "b3").glob("part*"))]
    assert len(b"".join(sent).splitlines()) == 2
    # The whole source once more is as new as ever.
    line.batch("b4", mode="full")
    assert [row["title"] for row in line.images()] == ["a", "later", "c", "d"]


def test_what_was_refused_stays_and_can_be_tried_again(line: Line) -> None:
    line.batch("b1", order(1, "a"), BROKEN, order(2, "b"))
    assert line.upkeep()["archive"].messages == 2
    assert archived(line) == [BROKEN]
    line.batch("b2", mode="replay")
    # It was refused again, by the batch that tried.
    assert line.upkeep()["archive"].messages == 0
    assert [bytes(r["value"]) for r in line.lake.read(line.lake.log("archive")).collect()] == [
        BROKEN
    ]


def test_a_batch_with_many_refused_messages_stays_whole(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FEW_REFUSED", 1)
    line.batch("b1", BROKEN, order(1, "a"), BROKEN)
    line.batch("b2", order(2, "b"))
    done = line.upkeep()
    assert done["archive"].messages == 1
    assert line.batches("archive") == {"b1": 3}


def test_an_archive_never_looks_whole_that_is_not(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep that is killed between two steps has said first what it deletes."""
    line.batch("b1", order(1, "a"))
    archive, later = line.lake.log("archive"), int(time.time() * 1000) + 1000

    def killed(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Branch, "fast_forward", killed)
        with pytest.raises(KeyboardInterrupt):
            retention.delete_messages(line.spec, line.lake, "archive", later)
    assert line.batches("archive") == {"b1": 1}
    assert KEPT_SINCE in line.lake.properties(archive)
    assert line.upkeep()["archive"].messages == 1


def test_what_is_not_published_yet_stays(line: Line) -> None:
    line.batch("b1", order(1, "a"))
    line.batch("b2", order(2, "b"), until="validate")
    done = line.upkeep()
    assert (done["archive"].messages, done["outbox"].messages) == (1, 1)
    assert line.batches("archive") == line.batches("outbox") == {"b2": 1}
    line.batch("b2")
    assert line.upkeep()["outbox"].messages == 1
    assert [row["title"] for row in line.images()] == ["a", "b"]


def test_files_of_several_batches_are_parted(line: Line, migration: Any) -> None:
    for n in range(6):
        line.batch(f"b{n}", order(n, str(n)))
    none = line.spec.model_copy(update={"retention": migration().retention})
    line.upkeep(none)
    assert line.lake.spark.table(f"{line.lake.log('archive')}.files").count() == 1
    line.batch("b6", order(6, "6"), until="merge")
    assert line.upkeep()["archive"].messages == 6
    assert line.batches("archive") == {"b6": 1}


def test_a_table_that_is_written_is_left(line: Line) -> None:
    line.batch("b1", order(1, "a"))
    outbox = line.lake.log("outbox")
    branch = line.lake.branch(outbox, "convert", "b2")
    done = line.upkeep()
    assert (done["outbox"].messages, done["outbox"].left) == (0, BUSY)
    assert done["archive"].messages == 1
    branch.drop()
    # What a killed upkeep has left is in nobody's way.
    line.lake.branch(outbox, "upkeep", "retention")
    assert line.upkeep()["outbox"].messages == 1


def test_a_reload_says_what_it_cannot_bring(line: Line) -> None:
    line.batch("b1", order(1, "a"))
    line.upkeep()
    line.batch("b2", order(2, "b"))
    line.batch("b3", mode="reload", tables=["shop.orders"])
    done = line.lake.last(line.lake.log("changes"), "convert")
    assert done is not None
    (warning,) = done.report["warnings"]
    assert "the archive no longer has published messages of batches that ended before" in warning
    assert [row["title"] for row in line.images()] == ["a", "b"]
