"""What a table's metadata says, read from its file."""

from __future__ import annotations

import gzip
import json

from waybill.lake.metadata import read_metadata

METADATA = {
    "format-version": 2,
    "location": "/lake/shop/orders",
    "current-schema-id": 1,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "int"}]},
        {
            "type": "struct",
            "schema-id": 1,
            "fields": [
                {"id": 1, "name": "id", "type": "long", "required": False},
                {"id": 2, "name": "price", "type": "decimal(18, 4)", "required": False},
                {"id": 3, "name": "seen", "type": "timestamptz", "required": False},
                {"id": 4, "name": "placed", "type": "timestamp", "required": False},
                {"id": 5, "name": "tags", "type": {"type": "list", "element": "string"}},
            ],
        },
    ],
    "default-spec-id": 1,
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"name": "id", "transform": "identity", "source-id": 1}]},
    ],
    "properties": {"owner": "me"},
    "snapshots": [
        {"snapshot-id": 7, "timestamp-ms": 1, "summary": {"operation": "append"}},
        {"snapshot-id": 8, "parent-snapshot-id": 7, "timestamp-ms": 2},
    ],
    "refs": {
        "main": {"snapshot-id": 7, "type": "branch"},
        "read_by_me": {"snapshot-id": 7, "type": "tag"},
        "merge_b1": {"snapshot-id": 8, "type": "branch"},
    },
}


def test_the_newest_schema_and_partitions_count():
    found = read_metadata(json.dumps(METADATA))
    assert found.shape.location == "/lake/shop/orders"
    assert found.shape.partitions == (("id", "identity"),)
    assert found.shape.types == {
        "id": "bigint",
        "price": "decimal(18,4)",
        "seen": "timestamp",
        "placed": "timestamp_ntz",
    }
    assert found.shape.lacking(["tags", "new", "id"]) == ["new"]
    assert found.properties == {"owner": "me"}


def test_columns_of_every_schema_that_files_call_otherwise():
    schemas = [
        {"schema-id": n, "fields": [{"id": id_, "name": name, "type": "int"} for id_, name in own]}
        for n, own in enumerate(
            [[(1, "_a1"), (2, "a-b"), (3, "9x9"), (4, "é٣")], [(1, "_a1"), (2, "a b"), (5, "🚚")]]
        )
    ]
    found = read_metadata(json.dumps({**METADATA, "schemas": schemas}))
    assert found.shape.other_names == {
        ("a_x20b", 2): "a b",
        ("a_x2Db", 2): "a-b",
        ("_9x9", 3): "9x9",
        ("_xD83D_xDE9A", 5): "🚚",
    }
    assert read_metadata(json.dumps(METADATA)).shape.other_names == {}


def test_a_compressed_file_says_the_same():
    text = json.dumps(METADATA)
    found = read_metadata(gzip.compress(text.encode()))
    assert found == read_metadata(text)
    assert found.refs == {"main": 7, "read_by_me": 7, "merge_b1": 8}
    assert found.tags == {"read_by_me"}
    assert [snapshot.id for snapshot in found.ancestors(8)] == [8, 7]
