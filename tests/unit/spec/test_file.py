from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from tests.unit.spec.spec_files import GOOD, KAFKA, problems, writer_in
from waybill.envelopes import registry
from waybill.lake_columns import log_namespace
from waybill.protocol import Envelope, Settings
from waybill.spec import file as spec_file
from waybill.spec.file import SpecificationError, load_migration, load_tables


@pytest.fixture(autouse=True)
def no_lake_in_the_environment(monkeypatch):
    monkeypatch.delenv("WAYBILL_LAKE", raising=False)


@pytest.fixture
def write(tmp_path):
    return writer_in(tmp_path / "migrations")


def test_a_migration_is_read_and_its_paths_made_absolute(write, tmp_path):
    migration = load_migration(write(GOOD))
    assert migration.source.files.path == str(tmp_path / "migrations/in")
    assert migration.publish[0].files.path == str(tmp_path / "migrations/out")
    assert migration.lake.warehouse == str(tmp_path / ".waybill/lake")
    assert str(migration.rules.find("shop", None, "orders").columns["amount"]) == "decimal(38,10)"


def test_the_example_of_text_images_is_one(write, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs/merge.md").read_text(encoding="utf-8")
    section = page.partition("### Exact texts")[2]
    example = section.partition("```yaml\n")[2].partition("```")[0]
    lake = load_migration(write(GOOD + example)).lake
    assert lake.text_images == "needed"
    assert lake.warehouse == str(tmp_path / ".waybill/lake")
    monkeypatch.setenv("WAYBILL_LAKE", "s3://b/lake")
    assert load_migration(write(GOOD + example)).lake.warehouse == "s3://b/lake"


@pytest.mark.parametrize("lake", ["{catalog: {type: glue}}", "[]", "~"])
def test_beside_a_catalog_no_folder_is_taken_for_granted(write, lake):
    (sentence,) = problems(write(f"{GOOD}lake: {lake}\n"))
    assert ": lake" in sentence
    assert sentence.endswith("lake.warehouse is missing") == ("catalog" in lake)


def test_urls_and_absolute_paths_stay(write):
    text = GOOD.replace("path: in", "path: s3://b/in").replace("path: out", "path: /data/out")
    migration = load_migration(write(text + "lake: {warehouse: s3a://b/lake}\n"))
    assert migration.source.files.path == "s3://b/in"
    assert migration.publish[0].files.path == "/data/out"
    assert migration.lake.warehouse == "s3a://b/lake"


def test_every_kind_of_path_is_meant_from_the_file(write, tmp_path):
    (tmp_path / "suite.json").write_text("{}")
    text = GOOD.replace(
        "envelope: oms-default", "envelope: oms-default\n  schemas: {file: schemas.json}"
    )
    text += "full: {shop.orders: {path: ../dump/*.parquet}}\nlake: {warehouse: ../lake}\n"
    text += "quality: {suites: [changes, ../suite.json]}\n"
    migration = load_migration(write(text))
    assert migration.source.schemas.file == str(tmp_path / "migrations/schemas.json")
    assert migration.full["shop.orders"].path == str(tmp_path / "dump/*.parquet")
    assert migration.lake.warehouse == str(tmp_path / "lake")
    assert migration.quality.suites == ["changes", str(tmp_path / "suite.json")]


def test_json_is_read_where_yaml_is(write):
    data = {
        "name": "shop",
        "source": {"files": {"path": "in\u2028/\U0001f600"}, "envelope": "oms-default"},
    }
    text = json.dumps(data, indent="\t")
    migration = load_migration(write(text, "shop.json"))
    assert migration.source.files.path.endswith("in\u2028/\U0001f600")


def test_a_wrong_json_file_names_its_line(write):
    wrong = '{\n "name": "shop"\n "cut": 1}'
    assert problems(write(wrong, "shop.json"))[0].startswith("3: is not JSON: ")
    assert problems(write('{\n\t"name": "Shop", "source":\n\t{}}', "a.json"))[0] == (
        "2: name - use lower-case letters, digits and _, starting with a letter"
    )


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(write):
    text = """\
name: Shop
shedule: "@hourly"
source:
  files: {path: in, layout: line, topics: [a]}
  envelope: oms-defualt
tables:
  shop.orders:
    colums: {}
    columns: {amount: "decimal(x"}
quality: {max_refused_share: 2, suites: [chnages, missing.json]}
publish:
  - envelope: canal
    files: {path: out}
  - envelope: canal
    file: {path: out}
    files: {path: out}
"""
    folder = write(text).parent
    assert problems(folder / "shop.yaml") == [
        "1: name - use lower-case letters, digits and _, starting with a letter",
        "2: shedule is not a known field; did you mean 'schedule'?",
        "4: source.files.layout should be 'lines', 'parquet', 'kcat' or 'whole'",
        "4: source.files.topics is not a known field; did you mean 'topic'?",
        "5: source.envelope - 'oms-defualt' is not a known envelope; did you mean 'oms-default'?",
        "8: tables.\"shop.orders\".colums is not a known field; did you mean 'columns'?",
        "9: tables.\"shop.orders\".columns.amount - 'decimal(x' is not a column type; "
        "put a type with a comma into quotes, or the comma ends it",
        "10: quality.max_refused_share should be less than or equal to 1",
        "10: quality.suites[0] - 'chnages' is neither a known suite nor a .json file; "
        "did you mean 'changes'?",
        f"10: quality.suites[1] - there is no file {folder / 'missing.json'}",
        "15: publish[1].file is not a known field; did you mean 'files'?",
    ]


def test_two_targets_of_one_name_are_reported(write):
    text = GOOD + "  - {envelope: canal, files: {path: other}}\n"
    assert problems(write(text)) == ["1: two targets are called 'canal'; give each a name:"]


def test_two_targets_with_one_path_are_reported(write):
    text = GOOD + "  - {envelope: maxwell, files: {path: out/}}\n"
    sentence = "the targets 'canal' and 'maxwell' publish files to one path; give each a path of"
    assert problems(write(text)) == [f"1: {sentence} its own:"]
    load_migration(write(GOOD + "  - {envelope: maxwell, files: {path: out/maxwell}}\n"))


def test_a_migration_starts_by_time_or_after_assets(write):
    both = GOOD + 'schedule: "@hourly"\nafter_assets: [a]\n'
    sentence = "schedule and after_assets both say when it runs; leave out one:"
    assert problems(write(both)) == [f"1: {sentence}"]
    own = GOOD + "after_assets: [shops/targets/canal, shop/targets/canal]\n"
    (problem,) = problems(write(own))
    assert "after_assets names 'shop/targets/canal', which it updates itself" in problem


def test_a_name_that_would_lie_in_the_log_of_another_is_refused(write):
    for name in ("shop_log", "a_log"):
        assert problems(write(GOOD.replace("name: shop", f"name: {name}"))) == [
            "1: name cannot end in _log, which names the lake's tables of messages: choose another"
        ]
    assert load_migration(write(GOOD.replace("name: shop", "name: shop_log_a"))).name


def test_no_two_migrations_share_a_namespace(write):
    """The only way to overlap is a name that is another one's log."""
    names = ["shop", "shop_lo", "shop_logs", "log", "logs", "l", "shop_log_a", "shop_log1"]
    specs = [load_migration(write(GOOD.replace("name: shop", f"name: {name}"))) for name in names]
    spaces = [space for spec in specs for space in (spec.name, log_namespace(spec.name))]
    assert len(set(spaces)) == 2 * len(names)


@pytest.mark.parametrize(
    ("schedule", "usable"),
    [
        *((text, True) for text in ("@hourly", "@once", "@continuous", "@quarterly", "0 3 * * 1")),
        *((text, False) for text in ("61 * * * *", "None", "@hourl", "", "every tuesday")),
    ],
)
def test_a_schedule_is_checked_where_it_is_written(write, schedule, usable):
    text = f'{GOOD}schedule: "{schedule}"\nupkeep: {{schedule: "{schedule}"}}\n'
    if usable:
        assert load_migration(write(text)).schedule == schedule
        return
    found = problems(write(text))
    assert [sentence.split(" is ")[0] for sentence in found] == [
        "9: schedule",
        "10: upkeep.schedule",
    ]
    assert "nor a cron text of five fields" in found[0]


def test_a_url_without_a_bucket_is_reported_with_its_line(write):
    text = GOOD.replace("path: in", '"path": "s3:///in"').replace(
        "path: out", "path: oss://k:v@b/o"
    )
    assert problems(write(text)) == [
        "3: source.files.path - s3:///in names no bucket: write s3://bucket/folder",
        "8: publish[0].files.path - a URL of oss:// holds a key: put the key into a connection and "
        "write oss://CONNECTION@bucket/…",
    ]


def test_a_home_that_nobody_has_is_reported(write):
    text = GOOD.replace("path: in", "path: ~nobody9/in").replace("path: out", "path: ~nobody9/o")
    sentence = "needs a path in full: nobody here has the home that ~ names"
    assert problems(write(text)) == [
        f"3: source.files.path {sentence}",
        f"8: publish[0].files.path {sentence}",
    ]


# What a migration writes and would read again


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("topics: [shop]", "topic: shop", "publishes to the topic shop, which source.kafka reads"),
        ('pattern: "shop.*"', "topic: shop_out", "publishes to the topic shop_out, which"),
        ("topics: [waybill-published]", "topic: out", "its ledger in the topic waybill-published"),
        (
            'pattern: ".*"',
            "topic: __out, ledger: sent",
            "keeps its ledger in the topic sent, which",
        ),
        ("topics: [shop]", "topic: shop_out", None),
        ('pattern: "shop"', "topic: shop_out", None),
        ('pattern: "shop.*"', "topic: shop_out, connection: other", None),
        ('pattern: "w.*"', "topic: out", None),
    ],
)
def test_a_topic_that_is_written_is_not_read(write, source, target, says):
    file = write(KAFKA.replace("SOURCE", source).replace("TARGET", target))
    if says is None:
        load_migration(file)
        return
    (sentence,) = problems(file)
    assert sentence.startswith("1: the target 'maxwell' ")
    assert says in sentence
    assert sentence.endswith("name another topic there, or leave this one out of topics or pattern")


FILES = """\
name: shop
source: {files: {path: "SOURCE"}, envelope: canal}
publish: [{envelope: maxwell, files: {path: "TARGET"}}]
lake: {warehouse: "LAKE"}
"""


@pytest.mark.parametrize(
    ("source", "target", "lake", "says"),
    [
        ("in", "in", "lake", "the target 'maxwell' publishes files to "),
        ("in/", "in/out", "lake", "the target 'maxwell' publishes files to "),
        ("link", "in/out", "lake", "the target 'maxwell' publishes files to "),
        ("in/**/*.jsonl", "in/out", "lake", "the target 'maxwell' publishes files to "),
        ("in/*/*/*", "in/out", "lake", "the target 'maxwell' publishes files to "),
        ("s3://b/in", "s3://aws_default@b/in/out", "lake", "publishes files to s3://aws_default@b"),
        (
            "s3://b",
            "out",
            "s3://b/lake",
            "lake.warehouse s3://b/lake is inside the folder that source.files",
        ),
        ("in", "out", "in/lake", "lake.warehouse "),
        ("in/**", "out", "in/lake", "lake.warehouse "),
        ("in", "inner", "in_lake", None),
        ("in", "in/_out", "in/.lake", None),
        ("in/*.jsonl", "in/out", "in/lake", None),
        ("in/*/new/*.jsonl", "in/out", "in/lake", None),
        ("s3://b/in", "s3://other@b/in", "s3://c/in", None),
        ("in/a.jsonl", "in", "in", None),
    ],
)
def test_files_that_are_written_are_not_read(write, source, target, lake, says):
    file = write(FILES.replace("SOURCE", source).replace("TARGET", target).replace("LAKE", lake))
    (file.parent / "in").mkdir()
    (file.parent / "link").symlink_to(file.parent / "in")
    if says is None:
        load_migration(file)
        return
    (sentence,) = problems(file)
    assert says in sentence
    assert "a folder beside the source's" in sentence


LAYOUT = (
    "needs layout: parquet, because messages of {} are binary and may hold line feeds, which no "
    "line of a file can; or publish them to a topic (kafka:)"
)


@pytest.mark.parametrize("name", ["debezium-avro", "ibmcdc-avro", "databus-binary"])
def test_binary_messages_are_no_lines(write, name):
    text = GOOD.replace("{envelope: canal,", f"{{envelope: {name},")
    at = "publish[0].files"
    assert problems(write(text)) == [f"8: {at} {LAYOUT.format(name)}"]
    stated = text.replace("{path: out}", "\n      {path: out,\n      layout: lines}")
    assert problems(write(stated)) == [f"10: {at}.layout {LAYOUT.format(name)}"]
    load_migration(write(text.replace("{path: out}", "{path: out, layout: parquet}")))
    load_migration(write(text.replace("files: {path: out}", "kafka: {topic: out}")))


def test_the_layout_of_a_binary_envelope_from_a_variable_does_not_tell_its_value(
    write, monkeypatch
):
    monkeypatch.setenv("TARGET_ENVELOPE", "ibmcdc-avro")
    text = GOOD.replace("{envelope: canal,", "{envelope: '${TARGET_ENVELOPE}',")
    assert problems(write(text)) == [f"8: publish[0].files {LAYOUT.format('this envelope')}"]


def test_a_target_is_published_to_or_dropped(write):
    sentence = "the target 'canal' is under publish and among the dropped_targets; take it out of"
    text = GOOD + "dropped_targets: [canal]\n"
    assert problems(write(text)) == [f"1: {sentence} one of them"]
    assert load_migration(write(GOOD + "dropped_targets: [old]\n")).dropped_targets == ["old"]


def test_a_missing_part_names_the_nearest_line(write):
    assert problems(write("name: shop\nsource:\n  envelope: canal\n")) == [
        "2: source - say where the messages are, one of files: {path: …, layout: lines} and "
        "kafka: {topics: […]}"
    ]
    assert problems(write("description: x\n")) == ["1: name is missing", "1: source is missing"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "1: is not a mapping of fields"),
        ("- a\n", "1: is not a mapping of fields"),
        ("name: shop\nschedule: @hourly\n", "2: is not YAML: "),
        ("name: shop\nname: shop2\n", "2: name occurs twice in one place; keep one of them"),
        ("name: [shop\n", "2: is not YAML: "),
        ("a: &x {b: *x}\n", "1: an alias (*) refers to what contains it"),
        ("? [a, b]\n: c\n", "1: a field's name must be plain text"),
        ("a: !!python/object:os.system {}\n", "1: "),
        ("a: \x00\n", "1: is not YAML: "),
        (f"a: 1\nb: {'9' * 5000}\n", "2: holds a number of too many digits"),
        ("a: " + "[" * 5000, "1: holds lists or mappings too deep inside each other"),
    ],
)
def test_text_that_is_no_specification(write, text, sentence):
    assert problems(write(text))[0].startswith(sentence)


def test_a_value_that_yaml_cannot_start_with_says_to_quote_it(write):
    assert "put the value into quotes" in problems(write("schedule: @hourly\n"))[0]


def test_names_that_old_yaml_takes_for_something_else_stay_text(write):
    text = GOOD.replace("key: [id]", "key: [on, no, y, 12:30, 2024-01-01, 1_0]")
    migration = load_migration(write(text))
    assert migration.tables["shop.orders"].key == ["on", "no", "y", "12:30", "2024-01-01", "1_0"]


def test_merge_keys_of_yaml_work(write):
    text = GOOD.replace(
        "publish:\n  - {envelope: canal, files: {path: out}}",
        "publish:\n  - &a {envelope: canal, files: {path: out}}\n"
        "  - {<<: *a, name: second, files: {path: out2}}",
    )
    assert [target.label for target in load_migration(write(text)).publish] == ["canal", "second"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecificationError, match=r"cannot be read \(No such file"):
        load_migration(tmp_path / "no.yaml")
    with pytest.raises(SpecificationError, match="cannot be read"):
        load_migration(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(SpecificationError, match="is not UTF-8 text"):
        load_migration(tmp_path / "latin.yaml")


# Envelopes


class ZoneSettings(Settings):
    zone: str = "UTC"
    precise: bool = False


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """An envelope that is only written, with settings of its own."""
    module = type(registry)("toy_envelope")
    module.ENVELOPE = Envelope(
        name="toy",
        title="",
        source="",
        sequence="",
        carries=frozenset(),
        decoder=None,
        encoder=lambda settings: None,
        encode_settings=ZoneSettings,
    )
    monkeypatch.setitem(registry.MODULES, "toy", "toy_envelope")
    monkeypatch.setitem(__import__("sys").modules, "toy_envelope", module)


@pytest.mark.usefixtures("toy")
def test_settings_of_an_envelope_are_checked(write):
    text = GOOD.replace(
        "{envelope: canal, files: {path: out}}",
        "{envelope: toy, files: {path: out}, settings: {zome: UTC, precise: maybe}}",
    )
    assert problems(write(text)) == [
        "8: publish[0].settings.precise should be a valid boolean, unable to interpret input",
        "8: publish[0].settings.zome is not a known field; did you mean 'zone'?",
    ]


@pytest.mark.usefixtures("toy")
def test_an_envelope_that_is_only_written_is_no_source(write):
    assert problems(write(GOOD.replace("oms-default", "toy"))) == [
        "4: source.envelope - 'toy' cannot be read; see `waybill envelopes`"
    ]


# Errors and tables


def test_the_error_survives_the_way_between_processes(write):
    with pytest.raises(SpecificationError) as caught:
        load_migration(write("name: Shop\n"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("wrap", [False, True])
def test_tables_of_their_own_file(tmp_path, wrap):
    file = tmp_path / "tables.yaml"
    body = "shop.*: {key: [id], columns: {n: number}}\n"
    file.write_text("tables:\n  " + body if wrap else body)
    assert load_tables(file).find("shop", None, "orders").key == ("id",)
    file.write_text(body.replace("key", "keys"))
    with pytest.raises(SpecificationError, match="is not a known field; did you mean 'key'"):
        load_tables(file)


def test_spec_file_knows_the_suites_that_come_with_the_product():
    folder = Path(__file__).parents[3] / "expectations/suites"
    assert {file.stem for file in folder.glob("*.json")} == set(spec_file.SUITES)


def test_a_stage_may_have_spark_settings_of_its_own(write):
    more = "spark: {a: '1', b: '2'}\nstages: {merge: {spark: {b: '3'}}}\n"
    spec = load_migration(write(GOOD + more))
    assert spec.for_stage("merge").spark == {"a": "1", "b": "3"}
    assert spec.for_stage("convert").spark == {"a": "1", "b": "2"}
    assert problems(write(GOOD + "stages: {merger: {}}\n")) != []


def test_numbers_and_truth_values_are_settings_of_spark_as_they_stand(write):
    more = "spark: {spark.executor.cores: 4, spark.speculation: true, spark.memory.fraction: 0.6}\n"
    assert load_migration(write(GOOD + more)).spark == {
        "spark.executor.cores": "4",
        "spark.speculation": "true",
        "spark.memory.fraction": "0.6",
    }


def test_a_value_of_another_kind_says_how_to_write_it(write):
    found = problems(write(GOOD.replace("key: [id]", "key: id") + "upkeep: {snapshots: 30}\n"))
    assert found[0].endswith("key should be a list, such as [a, b]")
    assert found[1].endswith("upkeep.snapshots - write a length of time, e.g. 90s, 15m, 24h or 7d")


def test_a_missing_file_of_tables_is_not_called_a_migration(tmp_path):
    with pytest.raises(SpecificationError, match="name a YAML file of tables"):
        load_tables(tmp_path / "no.yaml")
