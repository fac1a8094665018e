"""Some tables once more, from the archive: mode `reload`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.spark.test_convert import Line, half, insert
from tests.spark.test_mapping import TABLES, message, publish, published, row, rows_of, statement
from waybill import cli
from waybill.convert.stage import run_convert
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.lake.rebuilt_rows import ADDED_TO
from waybill.lake.table_properties import KEPT_SINCE
from waybill.lake_columns import REBUILT
from waybill.overview.row_changes import changes_of_row
from waybill.stage_context import Options, StageContext

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
pytestmark = pytest.mark.spark


@pytest.fixture
def spec(migration, tmp_path):
    def make(**fields):
        given = {"tables": TABLES, "envelope": "oms-default", "publish": publish(tmp_path)}
        return migration(**{**given, **fields})

    return make


def bring(folder, name: str, messages: list[bytes]) -> None:
    (folder / f"in/{name}.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))


def sent(folder, batch: str) -> list[tuple[str, str]]:
    return [(m["table"], m["data"][0]["id"]) for m in published(folder / "out", batch) if m["data"]]


def test_a_table_that_was_left_out_is_taken_in_from_the_archive(spark, spec, tmp_path):
    without = spec(select={"exclude": ["shop.people"]})
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(1), "orders"),
        message(3, "UPDATE", row(1), row(1, "new@b.c")),
    ]
    bring(tmp_path, "1", first)
    run_migration(without, batch="b1", spark=spark)
    bring(tmp_path, "2", [message(4, "DELETE", row(1), None), message(5, "INSERT", None, row(2))])
    run_migration(without, batch="b2", spark=spark)
    assert sent(tmp_path, "b1") == [("orders", "1")]
    whole = spec()
    bring(tmp_path, "3", [message(6, "INSERT", None, row(3))])
    waybill = run_migration(whole, batch="b3", spark=spark, mode="reload", tables=["shop.peo*"])
    assert waybill.stage("snapshot").rows_out == 0
    convert = waybill.stage("convert")
    assert (convert.rows_in, convert.rows_out) == (0, 4)
    assert convert.extra_in == {"rows of reloaded tables": 4}
    assert rows_of(spark, whole, "shop.people") == [row(2)]
    assert sent(tmp_path, "b3") == [("people", n) for n in ("1", "1", "1", "2")]
    # What the source had meanwhile comes with the next batch, and nothing twice.
    waybill = run_migration(whole, batch="b4", spark=spark)
    assert waybill.stage("convert").rows_out == 1
    assert rows_of(spark, whole, "shop.people") == [row(2), row(3)]
    assert len(rows_of(spark, whole, "shop.orders")) == 1


def test_loading_again_changes_no_row_and_takes_each_message_once(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(n, "INSERT", None, row(n)) for n in (1, 2, 3)])
    run_migration(whole, batch="b1", spark=spark)
    run_migration(whole, batch="b2", spark=spark, mode="full")
    bring(
        tmp_path,
        "2",
        [message(9, "DELETE", row(3), None), statement(10, "TRUNCATE TABLE audit", "audit")],
    )
    run_migration(whole, batch="b3", spark=spark)
    for batch in ("b4", "b5"):
        waybill = run_migration(whole, batch=batch, spark=spark, mode="reload", tables=["*.people"])
        assert waybill.stage("convert").rows_out == 4
        assert rows_of(spark, whole, "shop.people") == [row(1), row(2)]
    # What was replaced once is not said again.
    lake = Lake.open(spark, whole)
    marks = lake.read(lake.log("changes")).where("outcome = 'rebuilt'").select("batch", "reason")
    assert sorted(map(tuple, marks.collect())) == [
        ("b1", "b4"),
        ("b2", "b4"),
        ("b3", "b4"),
        ("b4", "b5"),
    ]
    again = run_migration(whole, batch="b5", spark=spark, mode="reload", tables=["*.people"])
    assert again.stage("convert").repeated


COLUMNS = {"id": "bigint", "email": "string", "phone": "string"}
KEYLESS = {"shop.audit": {"key": [], "columns": COLUMNS}}
DECLARED = {**TABLES, **KEYLESS}
HIDDEN = [
    {
        "tables": "shop.people",
        "columns": {"mask": {"email": "sha256"}, "drop": ["phone"], "rename": {"id": "number"}},
        "where": "id <> 2",
    },
    {"tables": "shop.audit", "columns": {"mask": {"email": "sha256"}}},
]
"""A mapping of now, where there was none."""


def sorted_rows(spark, spec, table: str) -> list[dict[str, object]]:
    lake = Lake.open(spark, spec)
    full = lake.merged_tables()[table]
    shown = [r.asDict() for r in lake.read(full).collect()]
    # Which of several equal rows is the newest depends on where batches are cut.
    own = ["_waybill_key", "_waybill_image", *(["_waybill_order"] if table != "shop.audit" else [])]
    values = ({k: v for k, v in r.items() if k in own or k[0] != "_"} for r in shown)
    return sorted(values, key=lambda r: r["_waybill_key"])


def test_a_changed_mapping_reaches_the_rows_that_are_there(spark, migration, spec, tmp_path):
    """They are those of a migration that begins with it, and so is all that follows."""
    old = spec(tables=DECLARED)
    bring(
        tmp_path,
        "1",
        [
            *(message(n, "INSERT", None, row(n)) for n in (1, 2, 3)),
            *(message(n, "INSERT", None, row(7), "audit") for n in (4, 5)),
            message(6, "UPDATE", row(1), row(1, "new@b.c")),
        ],
    )
    run_migration(old, batch="b1", spark=spark)
    bring(
        tmp_path,
        "2",
        [
            message(8, "DELETE", row(3), None),
            message(9, "INSERT", None, {**row(4, None), "city": "Ulm"}),
            message(10, "DELETE", row(7), None, "audit"),
            statement(11, "ALTER TABLE people ADD COLUMN city VARCHAR(20) DEFAULT 'Bonn'"),
        ],
    )
    run_migration(old, batch="b2", spark=spark)
    new, fresh = (
        spec(tables=DECLARED, map=HIDDEN),
        migration(name="fresh", tables=DECLARED, envelope="oms-default", map=HIDDEN),
    )
    lake = Lake.open(spark, new)
    people = lake.merged_tables()["shop.people"]
    was = lake.head(people)
    waybill = run_migration(new, batch="b3", spark=spark, mode="reload", tables=["shop.*"])
    run_migration(fresh, batch="f1", spark=spark)
    tables = ("shop.people", "shop.audit")

    def check(when: str) -> None:
        for table in tables:
            wanted = sorted_rows(spark, fresh, table)
            assert wanted, table
            assert sorted_rows(spark, new, table) == wanted, f"{table} {when}"

    check("after the reload")
    assert [r["city"] for r in sorted_rows(spark, new, "shop.people")] == ["Bonn", "Ulm"]
    assert "phone" not in lake.read(people).columns
    assert "@b.c" not in str(lake.read(people, lake.head(people)).collect())
    assert lake.read(people, was).count() == 4  # With a tombstone: nobody has touched what it was.
    merged = waybill.stage("merge")
    assert merged.details["shop.people"]["rows before the rebuild"] == 3
    assert {"phone is gone", "id is gone", "number is new"} <= {
        *merged.details["shop.people"]["columns"]
    }
    assert not [*waybill.stage("convert").warnings, *merged.warnings]
    # What comes late belongs to the history that it always had.
    bring(
        tmp_path,
        "3",
        [
            message(7, "INSERT", None, row(5)),
            message(12, "UPDATE", row(4, None), row(4, "d@b.c")),
            message(13, "INSERT", None, row(7), "audit"),
        ],
    )
    run_migration(new, batch="b4", spark=spark)
    run_migration(fresh, batch="f2", spark=spark)
    check("after a late batch")
    run_migration(new, batch="b5", spark=spark, mode="reload", tables=["shop.*"])
    check("after the reload once more")
    history = changes_of_row(lake, "shop.people", '{"number":"1"}', 9, by_time=False)
    assert [(r["batch"], r["operation"]) for r in history.rows] == [
        ("b5", "insert"),
        ("b5", "update"),
    ]


def test_a_table_of_which_nothing_is_left_is_empty(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(2))])
    run_migration(whole, batch="b1", spark=spark)
    none = spec(map=[{"tables": "shop.people", "where": "id > 9"}])
    run_migration(none, batch="b2", spark=spark, mode="reload", tables=["shop.people"])
    assert rows_of_keys(spark, none) == []
    bring(tmp_path, "2", [message(3, "INSERT", None, row(10))])
    run_migration(none, batch="b3", spark=spark)
    assert rows_of(spark, none, "shop.people") == [row(10)]


def rows_of_keys(spark, spec) -> list[str]:
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.merged_tables()["shop.people"]).select("_waybill_key").collect()
    return [r[0] for r in rows]


def test_of_an_archive_that_is_not_whole_no_table_is_made_anew(spark, spec, tmp_path):
    """Nor does a table without key count a change once more whose values are masked now."""
    old, new = spec(tables=DECLARED), spec(tables=DECLARED, map=HIDDEN[1:])
    bring(
        tmp_path,
        "1",
        [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(7), "audit")],
    )
    run_migration(old, batch="b1", spark=spark)
    lake = Lake.open(spark, old)
    lake.set_properties(lake.log("archive"), {KEPT_SINCE: "0"})
    waybill = run_migration(new, batch="b2", spark=spark, mode="reload", tables=["shop.*"])
    assert rows_of(spark, new, "shop.audit") == [row(7)]
    assert rows_of(spark, new, "shop.people") == [row(1)]
    (warning,) = waybill.stage("convert").warnings
    assert "shop.audit, shop.people cannot be rebuilt" in warning
    assert len(sent(tmp_path, "b2")) == 2


def test_a_message_that_is_read_otherwise_keeps_the_rows_of_its_table(
    spark, spec, tmp_path, caplog
):
    """A declaration refuses one that was taken; the table of another one is made anew.

    What was wrong with its value is in the log, and not in what everybody sees of the batch.
    """
    old = spec()
    wrong = {"key": ["id"], "columns": {**COLUMNS, "email": "decimal(60,0)"}}
    new = spec(tables={**TABLES, "shop.people": wrong})
    messages = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2, None)),
        message(3, "INSERT", None, row(3), "orders"),
        message(4, "INSERT", None, row(4)),
    ]
    bring(tmp_path, "1", messages)
    run_migration(old, batch="b1", spark=spark)
    with caplog.at_level("INFO", logger="waybill"):
        waybill = run_migration(new, batch="b2", spark=spark, mode="reload", tables=["shop.*"])
    assert rows_of(spark, new, "shop.people") == [row(1), row(2, None), row(4)]
    convert = waybill.stage("convert")
    (warning,) = convert.warnings
    assert warning.startswith(
        "shop.people cannot be rebuilt: 2 messages that its rows came from no longer decode to a "
        "change of it, the first at shop/0/0, which is refused now (value); its rows stay"
    )
    assert "column 'email'" not in json.dumps(convert.to_dict())
    (logged,) = [text for text in caplog.messages if "is refused now" in text]
    assert logged.startswith("convert: shop/0/0 is refused now: column 'email': a number was ")
    assert convert.details[REBUILT] == {"shop.orders": "b2"}
    assert convert.details[ADDED_TO] == ["shop.people"]
    assert "shop.orders" in waybill.stage("merge").details
    # As soon as they are taken again it is, and nothing remains of the attempt.
    bring(tmp_path, "2", [message(5, "DELETE", row(4), None)])
    waybill = run_migration(old, batch="b3", spark=spark)
    assert waybill.stage("convert").details[ADDED_TO] == ["shop.people"]
    waybill = run_migration(old, batch="b4", spark=spark, mode="reload", tables=["shop.people"])
    assert rows_of(spark, old, "shop.people") == [row(1), row(2, None)]
    assert waybill.stage("convert").warnings == []
    assert waybill.stage("convert").details[REBUILT]["shop.people"] == "b4"
    assert ADDED_TO not in waybill.stage("convert").details


def test_a_dump_that_the_file_names_no_more_is_read_as_one(spark, spec, tmp_path):
    dump = tmp_path / "people.csv"
    dump.write_text("id,email,phone\n7,e@f.g,1\n", encoding="utf-8")
    loaded, later = spec(full={"shop.people": {"path": str(dump)}}), spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1))])
    run_migration(loaded, batch="b1", spark=spark)
    there = rows_of(spark, loaded, "shop.people")
    assert [one["id"] for one in there] == [1, 7]
    waybill = run_migration(later, batch="b2", spark=spark, mode="reload", tables=["shop.people"])
    assert rows_of(spark, later, "shop.people") == there
    assert waybill.stage("convert").rows_out == 2
    assert waybill.stage("convert").warnings == []


def test_a_dump_whose_run_ended_is_read_as_one_although_the_file_names_it_no_more(
    spark, spec, tmp_path
):
    dump = tmp_path / "people.csv"
    dump.write_text("id,email,phone\n7,e@f.g,1\n", encoding="utf-8")
    loaded = spec(full={"shop.people": {"path": str(dump)}})
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1))])
    run_migration(loaded, batch="b1", spark=spark, until="snapshot")
    waybill = run_migration(spec(), batch="b2", spark=spark)
    assert waybill.stage("convert").refused == {}
    assert [one["id"] for one in rows_of(spark, spec(), "shop.people")] == [1, 7]


def test_places_with_several_messages_keep_the_rows_of_their_tables(spark, spec, tmp_path):
    """A file has other messages where some were read before: nobody knows which of them count."""
    whole = spec()
    first = [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(2), "orders")]
    bring(tmp_path, "1", first)
    run_migration(whole, batch="b1", spark=spark)
    bring(tmp_path, "1", [message(3, "INSERT", None, row(3)), first[1]])
    run_migration(whole, batch="b2", spark=spark, mode="full")
    assert rows_of(spark, whole, "shop.people") == [row(1), row(3)]
    waybill = run_migration(whole, batch="b3", spark=spark, mode="reload", tables=["shop.*"])
    assert rows_of(spark, whole, "shop.people") == [row(1), row(3)]
    (warning,) = waybill.stage("convert").warnings
    assert "shop.people cannot be rebuilt: the archive has several different" in warning
    assert "at 1 place that its rows came from, the first shop/0/0" in warning
    assert waybill.stage("convert").details[REBUILT] == {"shop.orders": "b3"}


def test_a_table_that_has_another_name_now_keeps_its_rows(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1))])
    run_migration(whole, batch="b1", spark=spark)
    named = spec(map=[{"tables": "shop.people", "rename": {"table": "persons"}}])
    waybill = run_migration(named, batch="b2", spark=spark, mode="reload", tables=["shop.p*"])
    assert rows_of(spark, named, "shop.persons") == rows_of(spark, named, "shop.people") == [row(1)]
    (warning,) = waybill.stage("convert").warnings
    assert warning.startswith("no message of the archive is of shop.people as the migration maps")


@pytest.mark.parametrize("then", ["take", "refuse", "stop"])
def test_halves_whose_wait_was_ended_do_not_wait_again(spark, migration, tiny, tmp_path, then):
    """Those whose other half has come since meet it, and those that still wait go on waiting."""

    def line(**halves) -> Line:
        return Line(spark, migration(envelope=tiny, halves=halves), tmp_path / "in")

    hasty = line(longest_wait="0s", then="refuse" if then == "refuse" else "take")
    hasty.batch(
        "b1",
        [
            *(insert(key, int(key)) for key in "12"),
            half("after", "1", 7, v="new"),
            half("before", "2", 8, v="old"),
            half("after", "2", 9, v="late"),
        ],
    )
    ended = hasty.batch("b2", [half("before", "2", 9, v="before late"), insert("3", 10)])
    assert ended.refused == {"pair": 2 if then == "refuse" else 1}
    patient = line(longest_wait="24h", then=then)
    patient.batch("b3", [half("after", "3", 11, v="waits")])
    options = Options("reload", tables=("shop.t",))
    report = run_convert(
        patient.spec, StageContext(spark, patient.lake, patient.spec, "b4", options)
    )
    waiting = [(r.key, r.half) for r in patient.changes("outcome = 'waiting'")]
    again = [('{"id":"1"}', "after"), ('{"id":"2"}', "before")] if then == "stop" else []
    assert waiting == [*again, ('{"id":"3"}', "after")]
    assert report.waiting == len(waiting)
    assert report.refused == {"take": {"pair": 1}, "refuse": {"pair": 2}, "stop": {}}[then]
    came = patient.changes("batch = 'b4' AND outcome = 'ok'")
    assert [(r.key, r.before is not None) for r in came if r.operation == "update"] == [
        *([('{"id":"1"}', False)] if then == "take" else []),
        ('{"id":"2"}', True),
    ]
    report.reconcile()


def test_a_reload_before_anything_was_read(spark, spec, tmp_path):
    whole = spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1))])
    waybill = run_migration(whole, batch="b1", spark=spark, mode="reload", tables=["shop.people"])
    assert waybill.stage("convert").rows_out == 0
    assert Lake.open(spark, whole).merged_tables() == {}


def test_the_command_of_the_docs(spark, spec, tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"`waybill (run FILE --reload shop[^`\s]+)`", text)
    monkeypatch.setattr(spark, "stop", lambda: None)
    without, whole = spec(select={"exclude": ["shop.orders"]}), spec()
    bring(tmp_path, "1", [message(1, "INSERT", None, row(1), "orders")])
    run_migration(without, batch="b1", spark=spark)
    assert "shop.orders" not in Lake.open(spark, whole).merged_tables()
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(whole.model_dump(exclude_unset=True)), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main([str(file) if word == "FILE" else word for word in command.split()])
    assert not ended.value.code
    assert rows_of(spark, whole, "shop.orders") == [row(1)]


@pytest.mark.parametrize(
    ("mode", "tables", "sentence"),
    [("reload", [], "name them"), ("full", ["shop.people"], "mode full takes all")],
)
def test_tables_go_with_a_reload(spec, mode, tables, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        run_migration(spec(), mode=mode, tables=tables)
