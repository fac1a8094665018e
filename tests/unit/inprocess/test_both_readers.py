"""A file is the same to a migration and to the commands that need no Spark: messages or refusal."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waybill.errors import WaybillError
from waybill.inprocess.topic_file import open_topic
from waybill.sources import files
from waybill.sources.cursor import FilesCursor
from waybill.spec.endpoints import FilesSource

TOPIC = "in"


def by_migration(path: Path, layout: str):
    """What a migration archives, as the commands would have it."""
    source = FilesSource(path=str(path), layout=layout, topic=TOPIC)
    work = files.plan(source, FilesCursor(None, {}, 0, 0))
    found = []
    for batch in files.read_tasks(work.tasks, layout, "b", lambda *_: None):
        for row in batch.to_pylist():
            time, headers = row["timestamp"], row["headers"]
            found.append(
                (
                    *(row["topic"], row["partition"], row["offset"]),
                    None if time is None else int(time.timestamp() * 1000),
                    *(row["key"], row["value"]),
                    [(h["key"], h["value"]) for h in headers] if headers else None,
                )
            )
    return found


def by_command(path: Path, layout: str):
    """What `waybill show` and `waybill convert` read."""
    with open_topic(str(path), layout) as topic:
        return [
            (m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)
            for m in topic.messages()
        ]


def outcome(read, path: Path, layout: str):
    """Messages, or the kind of thing that is refused: the sentences differ in what to do."""
    try:
        return read(path, layout)
    except WaybillError as error:
        return "refused" if path.name in str(error) else f"without the name: {error}"


KCAT = (
    b'{"topic":"t","partition":1,"offset":2,"ts":5000,"key":"k","payload":"v","headers":["h","1"]}'
)

LINES = {
    "line feeds": b'{"a":1}\n\n{"a":2}\n',
    "carriage returns too": b'{"a":1}\r\n\r\n{"a":2}\r\n',
    "the last line is blank": b"1\n\r",
    "a byte order mark": b"\xef\xbb\xbf1\n",
    "other line ends": "1\u2028\x85\x0b2\n3".encode(),
    "no text": b"\xff\x00\n\x80",
    "packed and cut off": gzip.compress(b"1\n" * 9999)[:-9],
}

KCAT_LINES = {
    "one": KCAT,
    "blank lines": KCAT + b"\r\n\r\n\n" + KCAT + b"\r\n",
    "no JSON": b"{",
    "nested deep": b"[" * 100_000,
    "a partition that is none": KCAT.replace(b":1,", b":4294967296,"),
    "an offset that is none": KCAT.replace(b":2,", b":9223372036854775808,"),
    "a time that is none": KCAT.replace(b":5000,", b":99999999999999999,"),
    "half of a surrogate pair in a value": KCAT.replace(b'"v"', b'"\\ud83d"'),
    "half of a surrogate pair in a topic": KCAT.replace(b'"t"', b'"\\ud83d"'),
    "half of a surrogate pair in a header": KCAT.replace(b'"h"', b'"\\ud83d"'),
}

VALUE = {"value": ["1", "2"]}
TEXT = pa.string()

PARQUET = {
    "a value": VALUE,
    "no value": {"valeu": ["1"]},
    "a value of another type": {"value": [{"a": 1}]},
    "values in a dictionary": {"value": pa.array(["1", "1"]).dictionary_encode()},
    "values as views": {"value": pa.array(["1", None], pa.string_view())},
    "nanoseconds": {**VALUE, "timestamp": pa.array([1605339516000000123] * 2, pa.timestamp("ns"))},
    "milliseconds": {**VALUE, "timestamp": [1605339516000, None]},
    "headers as a map": {**VALUE, "headers": pa.array([[("k", "v")], None], pa.map_(TEXT, TEXT))},
    "headers as texts": {**VALUE, "headers": [[{"key": "k", "value": "v"}], []]},
    "headers the other way": {**VALUE, "headers": [[{"value": "v", "key": "k"}], None]},
    "headers of other names": {**VALUE, "headers": [[{"k": "k", "v": "v"}], None]},
    "no topic": {**VALUE, "topic": ["t", None]},
    "no offset": {**VALUE, "offset": pa.array([None, 5])},
    "no partition": {**VALUE, "partition": pa.array([0, None]), "offset": [1, 2]},
    "partitions without offsets": {**VALUE, "partition": [0, 0]},
    "offsets without partitions": {**VALUE, "offset": [4, 5]},
    "a partition that is too large": {**VALUE, "partition": [0, 2**40], "offset": [1, 2]},
    "offsets as texts": {**VALUE, "offset": ["5", "x"]},
    "a topic in numbers": {**VALUE, "topic": [1, 2]},
    "a key in numbers": {**VALUE, "key": [1.5, 2.5]},
    "everything twice": pa.table([["1"], ["2"]], names=["value", "value"]),
}


@pytest.mark.parametrize(
    ("name", "layout", "content"),
    [
        *(pytest.param("in.jsonl", "lines", LINES[what], id=what) for what in LINES),
        *(pytest.param("in.kcat", "kcat", KCAT_LINES[what], id=what) for what in KCAT_LINES),
        *(pytest.param("in.parquet", "parquet", PARQUET[what], id=what) for what in PARQUET),
    ],
)
def test_both_readers_take_and_refuse_the_same(tmp_path, name, layout, content):
    if layout == "parquet":
        path = tmp_path / name
        pq.write_table(content if isinstance(content, pa.Table) else pa.table(content), path)
    else:
        path = tmp_path / (f"{name}.gz" if content.startswith(b"\x1f\x8b") else name)
        path.write_bytes(content)
    read = outcome(by_migration, path, layout)
    assert outcome(by_command, path, layout) == read
    assert read, "nothing was compared"
