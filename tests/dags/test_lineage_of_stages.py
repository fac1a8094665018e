"""What a stage tells by OpenLineage, without a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.providers.openlineage.utils.utils import OpenLineageRedactor
from openlineage.client.serde import Serde

from tests.dags.test_lineage import BATCH, COLUMNS, plain, topics
from waybill.connections import given
from waybill.merge.origins import FILE, ColumnOrigin, TableOrigin, keep_origins, read_origins
from waybill.report import StageReport
from waybill_airflow.signals.lineage import datasets, names
from waybill_airflow.signals.lineage.stages import lineage_of

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

pytestmark = pytest.mark.airflow

CONNECTIONS = {
    "from": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "SSL://one:9093, two:9094"}}',
    "to": '{"conn_type": "kafka", "host": "three", "login": "waybill", "password": "hidden", '
    '"extra": {"sasl.mechanism": "PLAIN"}}',
}


def event_of(spec: Migration, stage: str, published: list[str] | None = None, **more) -> dict:
    made = StageReport(stage, BATCH, **more).to_json_safe()
    with given(CONNECTIONS):
        lineage = lineage_of(spec, made, published or [])
    ends = {"inputs": lineage.inputs, "outputs": lineage.outputs}
    data = {side: [Serde.to_dict(one) for one in found] for side, found in ends.items()}
    assert "hidden" not in json.dumps(data)
    return plain(data)


def named(found: list[dict]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in found]


def test_topics_are_named_by_the_first_server(tmp_path):
    spec = topics(tmp_path)
    origins = {"s.t": TableOrigin("shop.s_t", ("a b",), COLUMNS[:1])}
    keep_origins(spec, BATCH, origins)
    merge = event_of(spec, "merge", details={"s.t": {"out": 3}})
    source = ("kafka://one:9093", "a b")
    assert named(merge["inputs"])[1:] == [source, ("kafka://one:9093", "Ünï/#?")]
    (came,) = merge["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert (came["namespace"], came["name"], came["field"]) == (*source, "s.t.id")
    publish = event_of(spec, "publish", details={"canal": {"messages": 3, "bytes": 30, "parts": 2}})
    assert named(publish["outputs"]) == [("kafka://three:9092", 'out "x"')]
    statistics = publish["outputs"][0]["outputFacets"]["outputStatistics"]
    assert statistics["rowCount"] == 3
    assert "fileCount" not in statistics, "a topic has no files"


@pytest.mark.parametrize(("shown", "rows"), [(7, {"a b": 5, "Ünï/#?": 2}), (9, {})])
def test_rows_of_a_topic_are_reported_where_all_ranges_are(tmp_path, shown, rows):
    """A report names some ranges; those that it does not name may be of any topic."""
    ranges = [
        {"topic": "a b", "partition": 0, "rows": 3},
        {"topic": "Ünï/#?", "partition": 0, "rows": 2},
        {"topic": "a b", "partition": 1, "rows": 2},
    ]
    snapshot = event_of(topics(tmp_path), "snapshot", rows_in=shown, details={"ranges": ranges})
    found = {
        one["name"]: one["inputFacets"]["inputStatistics"]["rowCount"]
        for one in snapshot["inputs"]
        if one["inputFacets"]
    }
    assert found == rows


def test_dumps_are_sources_too(tmp_path):
    spec = topics(tmp_path, full={"s.t@2": {"path": "s3://dumps/s.t/*.csv", "as_of": [1, 2]}})
    details = {"full_loads": {"s.t@2/1.csv": 5}, "ranges": []}
    snapshot = event_of(spec, "snapshot", rows_in=5, details=details)
    dump = ("s3://dumps", "s.t")
    assert named(snapshot["inputs"])[2:] == [dump]
    keep_origins(spec, BATCH, {"s.t@2": TableOrigin("shop.s_t_2", ("full:s.t@2@1:2",), COLUMNS)})
    assert dump in named(event_of(spec, "merge")["inputs"])


def test_a_stage_that_was_done_before_tells_no_figures(tmp_path):
    spec = topics(tmp_path)
    keep_origins(spec, BATCH, {"s.t": TableOrigin("shop.s_t", ("a b",), COLUMNS)})
    for stage in ("convert", "merge", "publish"):
        found = event_of(spec, stage, rows_in=3, repeated=True)
        assert found["outputs"]
        assert not any(one["outputFacets"] for one in found["outputs"])
        assert not any(one["inputFacets"] for one in found["inputs"])


def test_publish_tells_the_tables_of_every_batch_that_it_sent(tmp_path):
    spec = topics(tmp_path)
    keep_origins(spec, "earlier", {"s.u": TableOrigin("shop.s_u", ("a b",), COLUMNS[:1])})
    keep_origins(spec, BATCH, {"s.t": TableOrigin("shop.s_t", ("a b",), COLUMNS[:1])})
    publish = event_of(spec, "publish", [BATCH, "earlier"])
    fields = publish["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert sorted(fields) == ["s.t.id", "s.u.id"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/in", ("file", "/data/in")),
        ("/data/in/", ("file", "/data/in")),
        ("/data/a b/*.jsonl", ("file", "/data/a b")),
        ("/data/2026-*/x.jsonl", ("file", "/data")),
        ("/*.jsonl", ("file", "/")),
        ("file:///data/in", ("file", "/data/in")),
        ("s3://bucket/in/ü/*", ("s3://bucket", "in/ü")),
        ("s3://name@bucket/in", ("s3://bucket", "in")),
        ("s3://bucket", ("s3://bucket", "/")),
        ("oss://bucket/in/", ("oss://bucket", "in")),
        ("gs://bucket/in/", ("gs://bucket", "in")),
    ],
)
def test_files_are_named_by_their_folder(path, name):
    assert tuple(names.of_read_files(path)) == name


def test_tables_are_named_by_their_folder(tmp_path):
    table = TableOrigin("shop.s_t")
    assert names.of_merged(topics(tmp_path), table) == ("file", f"{tmp_path}/lake/shop/s_t")
    lake = topics(tmp_path, lake={"warehouse": "s3://key@bucket/the lake/"})
    assert names.of_merged(lake, table) == ("s3://bucket", "the lake/shop/s_t")
    assert names.of_log(lake, "archive") == ("s3://bucket", "the lake/shop_log/archive")
    whole = topics(tmp_path, lake={"warehouse": "s3://bucket"})
    assert names.of_merged(whole, table) == ("s3://bucket", "shop/s_t")
    elsewhere = TableOrigin("shop.s_t", place="s3://other/tables/7f3a")
    assert names.of_merged(lake, elsewhere) == ("s3://other", "tables/7f3a")


def test_of_very_many_columns_those_of_the_largest_tables_are_reported(tmp_path, monkeypatch):
    spec = topics(tmp_path)
    tables = {f"s.t{n}": TableOrigin(f"shop.s_t{n}", ("a b",), COLUMNS) for n in range(3)}
    keep_origins(spec, BATCH, tables)
    monkeypatch.setattr(datasets, "MOST_COLUMNS", 2 * len(COLUMNS))
    rows = {"s.t0": {"out": 1}, "s.t1": {"out": 9}, "s.t2": {"out": 5}}
    merge = event_of(spec, "merge", details=rows)
    assert len(merge["outputs"]) == 3
    shown = [one["name"] for one in merge["outputs"] if "columnLineage" in one["facets"]]
    assert [Path(name).name for name in shown] == ["s_t1", "s_t2"]


def test_the_provider_does_not_look_into_every_column(tmp_path, monkeypatch):
    """It would take longer than the time that it gives itself, and nothing would be sent."""
    spec = topics(tmp_path)
    columns = tuple(ColumnOrigin(f"c{n}", f"c{n}", "string") for n in range(500))
    keep_origins(spec, BATCH, {"s.t": TableOrigin("shop.s_t", ("a b",), columns)})
    with given(CONNECTIONS):
        lineage = lineage_of(spec, StageReport("merge", BATCH).to_json_safe(), [])
    looks = []
    redact = OpenLineageRedactor._redact

    def counted(self, item, *rest, **more):
        looks.append(item)
        return redact(self, item, *rest, **more)

    monkeypatch.setattr(OpenLineageRedactor, "_redact", counted)
    before = Serde.to_dict(lineage.outputs[0])
    adapter = OpenLineageAdapter()
    for one in (*lineage.inputs, *lineage.outputs):
        adapter._redacter.redact(one, max_depth=20)
    assert Serde.to_dict(lineage.outputs[0]) == before
    assert 0 < len(looks) < 500


def test_a_batch_without_the_merge_s_file_still_tells_its_ends(tmp_path):
    spec = topics(tmp_path)
    assert named(event_of(spec, "publish")["inputs"])[1:] == [
        ("kafka://one:9093", "a b"),
        ("kafka://one:9093", "Ünï/#?"),
    ]
    assert event_of(spec, "merge")["outputs"] == []
    assert event_of(spec, "validate") == {"inputs": [], "outputs": []}


@pytest.mark.parametrize("content", ["", "[]", '{"version": 2, "tables": {}}', '{"tables": 7}'])
def test_a_file_that_is_something_else_is_none(tmp_path, content):
    spec = topics(tmp_path)
    keep_origins(spec, BATCH, {"s.t": TableOrigin("shop.s_t")})
    Path(spec.reports, BATCH, FILE).write_text(content)
    assert read_origins(spec, BATCH).tables == {}


def test_half_of_a_surrogate_pair_in_a_name_is_reported_as_text(tmp_path):
    spec = topics(tmp_path)
    odd = ColumnOrigin("a\ud800", "a_", "string")
    keep_origins(spec, BATCH, {"s.\udc00": TableOrigin("shop.s_", ("a b",), (odd,))})
    fields = event_of(spec, "merge")["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert fields["a_"]["inputFields"][0]["field"] == "s.\\udc00.a\\ud800"
