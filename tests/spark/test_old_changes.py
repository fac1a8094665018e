"""A migration goes on when `retention` has let go of old changes, and says what it cannot tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_jobs import canal
from tests.spark.test_retention import BROKEN, Line, order
from waybill.convert.beginning import why_waits
from waybill.lake import Branch, Lake
from waybill.lake.table_properties import CUT_TABLES
from waybill.lake.upkeep import MEANWHILE
from waybill.overview.row_changes import changes_of_row
from waybill.upkeep.old_changes import OTHER_ORDER, PLACED_FILES
from waybill.upkeep.retention import delete_messages

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture
def line(spark: Any, migration: Any, tmp_path: Path) -> Line:
    """Its tables are `orders`, with a key, and `notes`, without one."""
    spec = migration(
        publish=[{"envelope": "maxwell", "files": {"path": str(tmp_path / "out")}}],
        retention={"changes": "0s"},
        quality={"max_refused_share": 1},
        order={"ambiguous": "partition"},
        tables={"shop.notes": {"key": []}},
    )
    return Line(spark, spec, tmp_path)


def note(text: str) -> bytes:
    return canal("INSERT", {"id": "1", "title": text}, table="notes")


def changes(line: Line, table: str = "orders") -> list[tuple[str, str]]:
    """Batch and title of the changes of a table that are left."""
    log = line.lake.read(line.lake.log("changes")).where(f"outcome = 'ok' AND table = '{table}'")
    title = "get_json_object(after, '$.title')"
    rows = log.orderBy("partition", "offset").selectExpr("batch", title).collect()
    return [(row[0], row[1]) for row in rows]


def test_the_line_goes_on_without_old_changes(line: Line) -> None:
    updates = [order(1, title, "UPDATE") for title in ("b", "c", "d")]
    line.batch("b1", order(1, "a"), *updates, order(2, "x"), BROKEN, note("n"), note("n"))
    before = line.images()
    assert line.upkeep()["changes"].messages == 2
    assert changes(line) == [("b1", "a"), ("b1", "d"), ("b1", "x")]
    assert len(changes(line, "notes")) == 2
    assert line.images() == before
    assert line.upkeep()["changes"].messages == 0
    # What is done stays done, and what was refused is tried again.
    line.batch("b1")
    line.batch("b2", mode="replay")
    assert line.lake.read(line.lake.log("changes")).where("outcome = 'refused'").count() == 1
    line.batch("b3", order(1, "e", "UPDATE"), order(2, "y", "UPDATE"), note("n"))
    assert [row["title"] for row in line.images()] == ["e", "y"]
    # The whole source once more counts no row twice.
    line.batch("b4", mode="full")
    assert [row["title"] for row in line.images()] == ["e", "y"]
    notes = line.lake.read(line.lake.merged("shop.notes"))
    assert notes.count() == 3
    line.upkeep()
    assert [row["title"] for row in line.images()] == ["e", "y"]


def test_what_cannot_be_told_any_more_is_said(line: Line) -> None:
    updates = [order(1, title, "UPDATE") for title in ("b", "c", "d")]
    line.batch("b1", order(1, "a"), *updates, note("n"))
    line.upkeep()
    found = changes_of_row(line.lake, "shop.orders", "1", 9, by_time=False)
    sentences = [(row["after"], row["outcome"].split(":")[0]) for row in found.rows]
    assert [sentence for _, sentence in sentences] == ["superseded", "won, it is the newest"]
    assert found.since is not None
    assert changes_of_row(line.lake, "shop.notes", "1", 9, by_time=False).since is None
    target = line.spec.publish[0].model_copy(update={"bootstrap": "archive"})
    assert "so it cannot begin with every change" in str(why_waits(line.lake, target))
    line.batch("b2", mode="reload", tables=["shop.*"])
    done = line.lake.last(line.lake.log("changes"), "convert")
    assert done is not None
    (warning,) = done.report["warnings"]
    assert warning.startswith("shop.orders cannot be rebuilt: retention has deleted changes of")
    assert [row["title"] for row in line.images()] == ["d"]


def test_upkeep_that_is_killed_says_first_what_it_deletes(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.batch("b1", order(1, "a"), order(1, "b", "UPDATE"), order(1, "c", "UPDATE"))

    def killed(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Branch, "fast_forward", killed)
        later = int(time.time() * 1000) + 1000
        with pytest.raises(KeyboardInterrupt):
            delete_messages(line.spec, line.lake, "changes", later)
    assert len(changes(line)) == 3
    assert line.lake.changes_since("shop.orders") is not None
    set_properties = Lake.set_properties

    def of_another(lake: Lake, table: str, marks: dict[str, str]) -> None:
        set_properties(lake, table, {**marks, CUT_TABLES: "{}"})

    with monkeypatch.context() as patched:
        # What another upkeep sets that has read the properties before.
        patched.setattr(Lake, "set_properties", of_another)
        assert line.upkeep()["changes"].left == MEANWHILE
    assert len(changes(line)) == 3
    assert line.upkeep()["changes"].messages == 1
    assert changes(line) == [("b1", "a"), ("b1", "c")]
    by_time = line.spec.order.model_copy(update={"ambiguous": "source_time"})
    other = line.spec.model_copy(update={"order": by_time})
    assert line.upkeep(other)["changes"].left == OTHER_ORDER
    # Files whose messages have places of their own may come late.
    files = line.spec.source.files
    assert files is not None
    kcat = {"files": files.model_copy(update={"layout": "kcat"})}
    source = line.spec.source.model_copy(update=kcat)
    assert (
        line.upkeep(line.spec.model_copy(update={"source": source}))["changes"].left == PLACED_FILES
    )
