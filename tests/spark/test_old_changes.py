"""A migration goes on when `retention` has let go of old changes, and says what it cannot tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_jobs import canal
from tests.spark.test_retention import BROKEN, Line, order
from waybill.convert.beginning import why_waits
from waybill.lake import Branch, Lake
from waybill.lake.table_properties import KEPT_SINCE, cut_tables
from waybill.lake.upkeep import MEANWHILE
from waybill.overview.row_changes import changes_of_row
from waybill.upkeep import retention
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


def part(kind: str, title: str, table: str) -> bytes:
    old = [{"title": "?"}] if kind == "UPDATE" else None
    return canal(kind, {"id": "1", "title": title}, old=old, table=table)


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
    assert line.upkeep()["changes"].messages == 1
    assert changes(line) == [("b1", "a"), ("b1", "c")]


MOMENTS = {
    "before it has said what goes": (retention, "change_properties"),
    "before it has moved the table": (Branch, "fast_forward"),
}


@pytest.mark.parametrize("first", [0, 1], ids=["earlier", "later"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_of_two_upkeeps_at_once_none_unsays_what_the_other_deletes(
    line: Line, monkeypatch: pytest.MonkeyPatch, moment: str, first: int
) -> None:
    """A whole one runs in the middle of another one, which has found what is to go."""
    limits = []
    for batch, table in (("b1", "orders"), ("b2", "parts")):
        titles = [("INSERT", "a"), ("UPDATE", "b"), ("UPDATE", "c")]
        line.batch(batch, *(part(kind, title, table) for kind, title in titles))
        time.sleep(0.1)
        limits.append(int(time.time() * 1000))
        time.sleep(0.1)
    other, came = Lake.open(line.spark, line.spec), list[object]()
    where, name = MOMENTS[moment]
    real = getattr(where, name)

    def whole() -> None:
        if not came:
            came.append(None)
            came[:] = delete_messages(line.spec, other, "changes", limits[not first])

    def meanwhile(*given: Any, **named: Any) -> Any:
        if came or where is Branch:
            whole()
            return real(*given, **named)
        *place, make = given

        def made(there: Any) -> Any:
            marks = make(there)
            whole()
            return marks

        return real(*place, made)

    with monkeypatch.context() as patched:
        patched.setattr(where, name, meanwhile)
        done = delete_messages(line.spec, line.lake, "changes", limits[first])
    assert done == (0, MEANWHILE)
    assert came == [2 if first == 0 else 1, None]
    properties = line.lake.properties(line.lake.log("changes"))
    assert properties[KEPT_SINCE] == str(limits[1])
    assert cut_tables(properties).keys() == {"shop.orders", "shop.parts"}
    assert changes(line) == [("b1", "a"), ("b1", "c")]
    line.upkeep()
    assert changes(line, "parts") == [("b2", "a"), ("b2", "c")]
    assert [row["title"] for row in line.images()] == ["c"]


def test_nothing_goes_where_order_may_be_another_one(line: Line) -> None:
    line.batch("b1", order(1, "a"), order(1, "b", "UPDATE"), order(1, "c", "UPDATE"))
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
