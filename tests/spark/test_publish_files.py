"""Publishing to files, over the messages of one batch that all these tests share."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from tests.spark.test_gate_and_publish import files_below, orders, part_of
from waybill.errors import Code, ConfigurationError, ConflictError
from waybill.jobs import run_migration
from waybill.lake import Lake, Span
from waybill.publish.files import Sender, publish_files
from waybill.publish.outgoing import Outgoing, groups_by_target, outgoing
from waybill.spec.endpoints import FilesTarget
from waybill.spec.migration import Migration

pytestmark = pytest.mark.spark

SENDER = Sender("shared", "t", "debezium-json")


@pytest.fixture(scope="module")
def shared(spark, tmp_path_factory):
    """A lake with the messages of a batch for one target."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "in").mkdir()
    (folder / "in/0.jsonl").write_bytes(b"".join(m + b"\n" for m in orders(30)))
    spec = Migration.model_validate(
        {
            "name": "shared",
            "source": {"files": {"path": str(folder / "in"), "topic": "shop"}, "envelope": "canal"},
            "publish": [{"envelope": "debezium-json", "files": {"path": str(folder / "out")}}],
            "lake": {"warehouse": str(folder / "lake")},
        }
    )
    run_migration(spec, until="convert", batch="b1", spark=spark)
    return Lake.open(spark, spec)


@pytest.fixture(scope="module")
def messages(shared):
    """The messages of that batch."""
    return shared.read(shared.log("outbox")).where("outcome = 'ok'").persist()


def send(
    messages,
    folder: Path,
    layout: str = "lines",
    part_messages: int = 1000,
    sender: Sender = SENDER,
    batches: tuple[str, ...] = ("b1",),
):
    target = FilesTarget(path=str(folder), layout=layout)
    if not isinstance(messages, Outgoing):
        messages = Outgoing(messages)
    return publish_files(messages, target, sender, batches, lambda *_: None, part_messages)


def test_parts_are_cut_the_same_way_every_time_and_keep_the_order(messages, tmp_path, monkeypatch):
    monkeypatch.setattr("waybill.publish.parts.OFFSETS", 8)
    one = send(messages, tmp_path / "one")
    many = send(messages, tmp_path / "many", part_messages=10)
    assert len(one.parts) == 1
    assert len(many.parts) > 3
    written = files_below(tmp_path / "many/b1")
    joined = b"".join(written[Path(part.place).name] for part in many.parts)
    assert joined == (tmp_path / "one/b1" / part_of(SENDER)).read_bytes()
    again = send(messages.repartition(7), tmp_path / "again", part_messages=10)
    assert [part.sha256 for part in again.parts] == [part.sha256 for part in many.parts]
    assert files_below(tmp_path / "again/b1") == written


@pytest.mark.parametrize("layout", ["lines", "parquet"])
@pytest.mark.parametrize("part_messages", [1000, 10])
def test_what_tasks_read_themselves_is_what_spark_hands_over(
    shared, messages, tmp_path, monkeypatch, layout, part_messages
):
    monkeypatch.setattr("waybill.publish.parts.OFFSETS", 8)
    outbox = shared.log("outbox")
    span = Span(outbox, None, shared.head(outbox))
    groups = groups_by_target(shared, span)
    assert list(groups) == ["debezium-json"]
    own = outgoing(messages, groups, "debezium-json", shared.longest_row(span))
    assert own.groups
    read = send(own, tmp_path / "read", layout, part_messages)
    handed = send(messages, tmp_path / "handed", layout, part_messages)
    assert len(read.parts) == (1 if part_messages == 1000 else 4)
    assert [part._replace(place="", record="") for part in read.parts] == [
        part._replace(place="", record="") for part in handed.parts
    ]
    assert files_below(tmp_path / "read") == files_below(tmp_path / "handed")


def test_a_killed_publish_is_taken_up_and_its_leftovers_removed(messages, tmp_path):
    folder = tmp_path / "b1"
    folder.mkdir()
    (folder / f".writing-{part_of(SENDER)}-aa").write_bytes(b"half")
    (folder / ".writing-manifest.json-bb").write_bytes(b"half")
    (folder / part_of(SENDER)).write_bytes(b"half")
    (folder / part_of(SENDER, 9)).write_bytes(b"not of this batch")
    send(messages, tmp_path)
    found = files_below(folder)
    assert sorted(found) == ["manifest.json", part_of(SENDER)]
    assert found[part_of(SENDER)].count(b"\n") == 51


def test_listed_parts_are_never_written_again(messages, tmp_path):
    """As after a kill between the manifest and the record in the lake."""
    first = send(messages, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "b1").iterdir()}
    assert send(messages, tmp_path) == first
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "b1").iterdir()} == before
    with pytest.raises(ConflictError, match="lists other messages"):
        send(messages.where("offset <> 3"), tmp_path)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "b1").iterdir()} == before


def test_every_batch_has_its_own_folder_whoever_sends_it(messages, tmp_path):
    """Their parts are counted through, in the order of the batches, not in that of their names."""
    two = messages.withColumn("batch", F.expr("if(offset < 20, 'z1', 'a2')"))
    sent = send(two, tmp_path / "two", batches=("z1", "a2"))
    assert [(part.part, Path(part.place).parent.name) for part in sent.parts] == [
        (0, "z1"),
        (1, "a2"),
    ]
    assert [part.first for part in sent.parts] == ["shop/0/0/0", "shop/0/20/0"]
    assert [Path(path).parent.name for path in sent.details["manifests"]] == ["z1", "a2"]
    send(two.where("batch = 'a2'"), tmp_path / "alone")
    assert files_below(tmp_path / "alone/a2") == files_below(tmp_path / "two/a2")


def test_who_shares_a_path_by_mistake_does_not_write_over_the_other(messages, tmp_path):
    """Also while the other one is not done yet."""
    other = Sender("other", "t", "debezium-json")
    send(messages.where("offset < 9"), tmp_path, sender=other)
    first = files_below(tmp_path / "b1")
    with pytest.raises(ConfigurationError, match="put by the migration other for its target t"):
        send(messages, tmp_path)
    assert files_below(tmp_path / "b1") == first

    (tmp_path / "b1/manifest.json").unlink()
    sent = send(messages, tmp_path)
    assert sent.messages == 51
    both = files_below(tmp_path / "b1")
    assert both[part_of(other)] == first[part_of(other)]
    with pytest.raises(ConfigurationError, match="a path of its own") as refused:
        send(messages.where("offset < 9"), tmp_path, sender=other)
    assert not refused.value.transient
    assert files_below(tmp_path / "b1") == both


def test_parquet_holds_keys_headers_and_tombstones(messages, tmp_path):
    sent = send(messages, tmp_path, "parquet")
    table = pq.read_table(tmp_path / "b1" / part_of(SENDER, 0, "parquet"))
    assert table.column_names == ["timestamp", "key", "value", "headers"]
    assert table.num_rows == sent.parts[0].messages == 57
    assert table.column("value").null_count == 6
    assert table.column("key").null_count == 0


@pytest.mark.parametrize("part_messages", [1000, 10])
def test_a_line_feed_stops_the_batch_and_parquet_brings_all_of_it(
    messages, tmp_path, part_messages
):
    """Nothing of it counts as published, and nothing of it is gone."""
    broken = F.when(F.col("offset") == 20, F.lit(b'{"a":\n1}')).otherwise(F.col("value"))
    messages = messages.withColumn("value", broken)
    with pytest.raises(ConfigurationError, match="change shop/0/20/0 has a line feed") as caught:
        send(messages, tmp_path, part_messages=part_messages)
    assert caught.value.code is Code.LINE_FEED
    assert not caught.value.transient
    assert not (tmp_path / "b1/manifest.json").exists()
    sent = send(messages, tmp_path, "parquet", part_messages)
    assert sent.messages == 57
    names = {Path(part.place).name for part in sent.parts}
    assert set(files_below(tmp_path / "b1")) == {*names, "manifest.json"}


def test_the_way_out_of_a_line_feed_leads_out_of_a_batch_of_two_folders(messages, tmp_path):
    """The first has its manifest, of lines, when the second stops the batch."""
    of_first = F.expr("if(offset < 20, 'b1-bootstrap', 'b1')")
    broken = F.when(F.col("offset") == 20, F.lit(b'{"a":\n1}')).otherwise(F.col("value"))
    both = messages.withColumn("batch", of_first).withColumn("value", broken)
    batches = ("b1-bootstrap", "b1")
    with pytest.raises(ConfigurationError) as caught:
        send(both, tmp_path, batches=batches)
    assert caught.value.code is Code.LINE_FEED
    first = files_below(tmp_path / "b1-bootstrap")
    assert sorted(first) == ["manifest.json", part_of(SENDER)]
    sent = send(both, tmp_path, "parquet", batches=batches)
    assert [Path(part.place).suffix for part in sent.parts] == [".jsonl", ".parquet"]
    assert files_below(tmp_path / "b1-bootstrap") == first
    assert sorted(files_below(tmp_path / "b1")) == [
        "manifest.json",
        part_of(SENDER, 0, "parquet"),
    ]
    assert sent.messages + sum(sent.skipped.values()) == messages.count()
    # A rerun finds the same, whichever layout the target has.
    assert send(both, tmp_path, "parquet", batches=batches) == sent
    assert send(both, tmp_path, batches=batches) == sent
    # Other messages are a conflict, also where one of them could not be a line.
    feeds = both.withColumn("value", F.lit(b'{"a":\n1}'))
    with pytest.raises(ConflictError, match="lists other messages"):
        send(feeds, tmp_path, batches=batches)


def test_nothing_to_publish_leaves_no_folder(messages, tmp_path):
    assert send(messages.where("false"), tmp_path / "out").parts == []
    assert not (tmp_path / "out").exists()
