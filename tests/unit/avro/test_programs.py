"""Programs of Avro schemas, and what is compiled for Avro, held against the exact reader."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.unit.bulk.test_kernels import back, texts_of
from waybill.avro.columns import (
    escaped,
    integer_texts,
    json_of,
    reader_of,
    value_encoder_of,
)
from waybill.avro.framing import prefix_of
from waybill.avro.programs import Program
from waybill.avro.reading import READ_ERRORS, Leaf, object_reader, row_reader
from waybill.avro.scanner import AvroScanner
from waybill.avro.schema import Node, parse
from waybill.avro.writing import varint
from waybill.bulk.arena import Arena, Texts, Value
from waybill.bulk.block import Scanned
from waybill.bulk.constant_bytes import Place, Skeleton
from waybill.bulk.kernels import avro_values as kernels
from waybill.bulk.kernels.avro_scanning import is_utf8
from waybill.bulk.value_kinds import (
    BAD,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    OPTIONAL,
    STRING,
    VARINT,
    VOID,
)
from waybill.inprocess.job import ConvertJob
from waybill.values.values import base64_text, float32_value, float64_value

SYMBOLS = ["A", "B", 'quoted"']
LEAVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
    "fixed": {"type": "fixed", "name": "F", "size": 3},
    "enum": {"type": "enum", "name": "E", "symbols": SYMBOLS},
}
KINDS = {
    "boolean": BOOLEAN,
    "int": VARINT,
    "long": VARINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
    "fixed": FIXED,
    "enum": ENUM,
}
CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "boolean": st.sampled_from([b"\0", b"\1"]),
    "int": st.integers(-(2**31), 2**31 - 1).map(varint),
    "long": (st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)).map(varint),
    "float": st.floats(width=32).map(lambda f: struct.pack("<f", f)),
    "double": st.floats().map(lambda f: struct.pack("<d", f)),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=80).map(str.encode),
    "fixed": st.binary(min_size=3, max_size=3),
    "enum": st.integers(0, len(SYMBOLS) - 1).map(varint),
}
SIZED = ("bytes", "string")


def schema_of(kind: str, number: int) -> Any:
    leaf = LEAVES[kind]
    return {**leaf, "name": f"{leaf['name']}{number}"} if isinstance(leaf, dict) else leaf


class Made:
    """A schema with values of it.

    Attributes:
        schema: the schema as JSON has it.
        data: the Avro data.
        values: path, kind and content of each value.
        branches: the branches taken, but for those that belong to values.
    """

    def __init__(self) -> None:
        self.schema: Any = None
        self.data = b""
        self.values: list[tuple[tuple[str, ...], int, bytes]] = []
        self.branches: list[int] = []


@st.composite
def made(draw: Any, copies: int = 1) -> list[Made]:  # noqa: C901
    """Some values of one schema, a record."""
    found = [Made() for _ in range(copies)]
    numbers = iter(range(10_000))

    def leaf(kind: str, path: tuple[str, ...], optional: int, absent: bool, one: Made) -> None:
        if absent:
            one.values.append((path, VOID, b""))
            return
        content = draw(CONTENTS[kind])
        one.values.append((path, KINDS[kind] + optional, content))
        one.data += varint(len(content)) + content if kind in SIZED else content

    def node(depth: int, path: tuple[str, ...], those: list[Made]) -> Any:  # noqa: C901
        what = draw(st.integers(0, 9 if depth < 3 else 5))
        if what < 3:
            kind = draw(st.sampled_from(sorted(LEAVES)))
            for one in those:
                leaf(kind, path, 0, False, one)
            return schema_of(kind, next(numbers))
        if what < 6:
            kind, null = draw(st.sampled_from(sorted(LEAVES))), draw(st.integers(0, 1))
            for one in those:
                absent = draw(st.booleans())
                one.data += varint(null if absent else 1 - null)
                leaf(kind, path, OPTIONAL, absent, one)
            schema = schema_of(kind, next(numbers))
            return ["null", schema] if null == 0 else [schema, "null"]
        if what < 8:
            name = f"R{next(numbers)}"
            fields = []
            for i in range(draw(st.integers(0, 4))):
                schema = node(depth + 1, (*path, f"f{i}"), those)
                fields.append({"name": f"f{i}", "type": schema})
            return {"type": "record", "name": name, "fields": fields}
        size = draw(st.integers(1, 3))
        null = draw(st.integers(0, size))
        chosen = {id(one): draw(st.integers(0, size)) for one in those}
        for one in those:
            one.data += varint(chosen[id(one)])
            if chosen[id(one)] != null:
                one.branches.append(chosen[id(one)])
            else:
                one.values.append((path, VOID, b""))
        schema = []
        for i in range(size + 1):
            if i == null:
                schema.append("null")
                continue
            name = f"U{next(numbers)}"
            inner = node(depth + 1, (*path, "u"), [o for o in those if chosen[id(o)] == i])
            schema.append(
                {"type": "record", "name": name, "fields": [{"name": "u", "type": inner}]}
            )
        return schema

    fields = [{"name": f"c{i}", "type": node(0, (f"c{i}",), found)} for i in range(4)]
    for one in found:
        one.schema = {"type": "record", "name": "Top", "fields": fields}
    return found


def scanned(node: Node, *values: bytes) -> Scanned:
    data = [prefix_of(7) + value for value in values]
    ends = np.cumsum([len(value) for value in data])
    texts = Scanned(b"".join(data), ends - [len(value) for value in data], ends)
    texts.scan_by(AvroScanner({7: node}.get))
    return texts


@properties(200)
@given(made())
def test_values_stand_where_the_schema_has_them(found):
    (one,) = found
    node = parse(json.dumps(one.schema))
    texts = scanned(node, one.data)
    assert texts.counts[0] == len(one.values)
    place = Place(texts, 0)
    shown = [place.text(slot) for slot in range(len(place.kinds))]
    assert list(zip(place.kinds, shown, strict=True)) == [value[1:] for value in one.values]
    assert texts.scanner.paths(place.value) == [path for path, _, _ in one.values]
    # Between the values nothing is left but the framing and the branches of larger unions.
    text, at = b"", 0
    for start, stop in place.spans():
        text += place.value[at:start]
        at = stop
    assert text + place.value[at:] == prefix_of(7) + b"".join(map(varint, one.branches))


@properties(300)
@given(made(), st.data())
def test_what_is_found_can_be_read(found, data):
    """Damaged data has no values, or is no damage to the exact reader."""
    (one,) = found
    node = parse(json.dumps(one.schema))
    read = object_reader(node)
    values = [one.data]
    for _ in range(12):
        at = data.draw(st.integers(0, len(one.data)))
        more = data.draw(
            st.sampled_from([b"", b"\0", b"\2", b"\x80", b"\xff\1", b"\x80\0", b"\xc3"])
        )
        cut = data.draw(st.integers(0, 2))
        values.append(one.data[:at] + more + one.data[at + cut :])
        values.append(one.data[:at])
    texts = scanned(node, *values)
    for number, value in enumerate(values):
        try:
            good = read(value, 0, len(value))[1] == len(value)
        except READ_ERRORS:
            good = False
        if texts.counts[number] >= 0:
            assert good
            assert len(texts.scanner.paths(prefix_of(7) + value)) == texts.counts[number]
    assert texts.counts[0] == len(one.values)


@properties(200)
@given(made(copies=4))
def test_messages_of_a_form_take_the_same_branches(found):
    node = parse(json.dumps(found[0].schema))
    texts = scanned(node, *(one.data for one in found))
    place = Place(texts, 0)
    every = [(1 << 30) - 1] * len(place.kinds)
    fits = Skeleton(place, every, range(len(every))).fits(texts, np.arange(len(found)))
    for number, one in enumerate(found):
        paths = [path for path, _, _ in one.values]
        same = [path for path, _, _ in found[0].values] == paths
        if one.branches == found[0].branches and same and texts.forms[number] == texts.forms[0]:
            assert fits[number]
        else:
            assert not fits[number]
    kinds = [1 << kind for kind in place.kinds]
    exact = Skeleton(place, kinds, []).fits(texts, np.arange(len(found)))
    for number, one in enumerate(found):
        assert exact[number] == (one.data == found[0].data)


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        "null",
        ["null", {"type": "array", "items": "string"}],
    ],
)
def test_no_program_for_what_repeats(type_):
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]}
    node = parse(json.dumps(record))
    with pytest.raises(ValueError, match="steps"):
        Program(node)
    texts = scanned(node, b"\0\0")
    assert texts.counts[0] == -1


def test_other_framings_and_unknown_schemas():
    node = parse('{"type": "record", "name": "R", "fields": [{"name": "f", "type": "int"}]}')
    data = [b"\0\0\0\0\7\2", b"\1\0\0\0\7\2", b"\0\0\0\0\x08\2", b"\0\0\0", b"", b"\0\0\0\0\7"]
    ends = np.cumsum([len(value) for value in data])
    texts = Scanned(b"".join(data), ends - [len(value) for value in data], ends)
    texts.begins[4] = texts.ends[4] = -1
    asked: list[int] = []

    def find(name: int) -> Node | None:
        asked.append(name)
        return node if name == 7 else None

    texts.scan_by(AvroScanner(find))
    assert texts.counts.tolist() == [1, -1, -1, -1, -1, -1]
    assert asked == [7, 8]


def test_too_many_values_have_no_program():
    fields = [{"name": f"f{i}", "type": "int"} for i in range(513)]
    with pytest.raises(ValueError, match="too many"):
        Program(parse(json.dumps({"type": "record", "name": "R", "fields": fields})))


# Texts


@properties(300)
@given(st.binary(max_size=12) | st.text(max_size=6).map(str.encode))
def test_texts_are_what_python_takes_for_them(data):
    try:
        data.decode()
        good = True
    except UnicodeDecodeError:
        good = False
    assert is_utf8(np.frombuffer(data, np.uint8), 0, len(data)) == good


@pytest.mark.parametrize(
    "data",
    [
        *(b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x80"),
        *(b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xc3", b"\xff"),
        *(b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xe1\x80"),
    ],
)
def test_edges_of_utf8(data):
    test_texts_are_what_python_takes_for_them.hypothesis.inner_test(data)


@properties(200)
@given(st.lists(st.none() | st.text(max_size=12), max_size=5))
def test_texts_as_json_has_them_and_back(values):
    arena, texts = texts_of(values)
    quoted = escaped(arena, texts)
    expected = [None if v is None else json.dumps(v, ensure_ascii=False)[1:-1] for v in values]
    rare = [
        v is not None and "\\u00" in text
        for v, text in zip(values, map(str, expected), strict=True)
    ]
    found = back(arena, quoted)
    for text, wanted, is_rare in zip(found, expected, rare, strict=True):
        assert text == ("BAD" if is_rare else wanted)
    starts, lengths = quoted.starts.copy(), quoted.lengths.copy()
    at = arena.room(sum(len(v or "") * 8 for v in values))
    arena.size = kernels.unescaped(arena.data, starts, lengths, at)
    assert back(arena, Texts(starts, lengths)) == [
        "BAD" if is_rare else v for v, is_rare in zip(values, rare, strict=True)
    ]


def test_other_escapes_are_not_undone():
    arena, texts = texts_of(["\\u0041", "\\/", "a\\", "\\x"])
    starts, lengths = texts.starts.copy(), texts.lengths.copy()
    kernels.unescaped(arena.data, starts, lengths, arena.room(100))
    assert (lengths == BAD).all()


# Leaves


def content_texts(contents: list[bytes | None]) -> tuple[Arena, Texts]:
    arena = Arena(b"")
    places = [(0, -1) if c is None else (arena.add(c), len(c)) for c in contents]
    starts, lengths = np.array(places, np.int64).reshape(-1, 2).T.copy()
    return arena, Texts(starts, lengths)


READERS = {
    "boolean": Leaf(str),
    "int": Leaf(integer=True),
    "long": Leaf(integer=True),
    "float": Leaf(float32_value),
    "double": Leaf(float64_value),
    "bytes": Leaf(base64_text),
    "string": Leaf(),
    "fixed": Leaf(base64_text, mark=b"abc"),
    "enum": Leaf(),
}


@pytest.mark.parametrize("kind", sorted(LEAVES))
@properties(60)
@given(data=st.data())
def test_leaves_are_read_and_written(kind, data):
    contents = data.draw(st.lists(st.none() | CONTENTS[kind], max_size=5))
    if kind == "fixed":
        contents.append(b"abc")
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": ["null", schema_of(kind, 0)]}],
    }
    node = parse(json.dumps(schema))
    leaf, union = READERS[kind], node.fields[0].node
    exact = row_reader(node, [leaf], "v0", {})
    written = [
        b"\0" if c is None else b"\2" + (varint(len(c)) + c if kind in SIZED else c)
        for c in contents
    ]
    expected = [exact(w, 0, len(w))[0] for w in written]
    arena, texts = content_texts(contents)
    take = reader_of(union, leaf)
    assert take is not None
    made = take.read(arena, texts)
    for row, value in enumerate(expected):
        text = arena.text(made, row)
        if made.lengths[row] == BAD:
            assert kind == "fixed"
            assert contents[row] == b"abc"
        else:
            assert (None if text is None else json.loads(b'"%b"' % text)) == value
    quoted, convert = json_of(union)
    raw = object_reader(node)
    values = convert(arena, texts)
    for row, one in enumerate(written):
        text = arena.text(values, row)
        found = None if text is None else json.loads(b'"%b"' % text if quoted else text)
        shown = raw(one, 0, len(one))[0].f0
        assert found == (base64_text(shown) if isinstance(shown, bytes) else shown)
    value_encoder = value_encoder_of(union)
    assert value_encoder is not None
    content = texts
    if kind in ("int", "long"):
        content = integer_texts(arena, texts)
    elif kind in ("string", "enum"):
        content = take.read(arena, texts)
    dressed = value_encoder(arena, Value(content, kind in ("string", "enum")))
    for row, one in enumerate(written):
        if dressed.texts.lengths[row] == BAD:
            # The smallest number has no digits of its own size, and rare signs no short escape.
            assert one == b"\2" + varint(-(2**63)) or min(contents[row] or b" ") < ord(" ")
        else:
            assert arena.text(dressed.texts, row) == one
    assert not dressed.quoted


@pytest.mark.parametrize("kind", sorted(LEAVES))
def test_what_is_no_value_is_not_written(kind):
    schema = schema_of(kind, 0)
    node = parse(json.dumps(schema))
    value_encoder = value_encoder_of(node)
    assert value_encoder is not None
    null = Texts(np.zeros(1, np.int64), np.full(1, -1, np.int64))
    arena = Arena(b"")
    assert value_encoder(arena, Value(null, kind in ("string", "enum"))).texts.lengths[0] == BAD
    arena, texts = texts_of(["77777777777777777777"])
    quoted = kind in ("string", "enum")
    if kind not in SIZED:
        assert value_encoder(arena, Value(texts, quoted)).texts.lengths[0] == BAD
    assert value_encoder(arena, Value(texts, not quoted)).texts.lengths[0] == BAD


def test_integers_of_32_bits():
    value_encoder = value_encoder_of(parse('"int"'))
    assert value_encoder is not None
    edges = [2**31, 2**31 - 1, -(2**31), -(2**31) - 1]
    arena, texts = texts_of([str(edge) for edge in edges])
    found = value_encoder(arena, Value(texts, False)).texts
    assert [arena.text(found, row) for row in (1, 2)] == [varint(edges[1]), varint(edges[2])]
    assert found.lengths[[0, 3]].tolist() == [BAD, BAD]


# Lines


@pytest.mark.parametrize(
    ("source", "target", "in_bulk"),
    [
        ("debezium-json", "canal", True),
        ("debezium-json", "ibmcdc-avro", False),
        ("debezium-avro", "debezium-json", False),
    ],
)
def test_messages_that_may_hold_line_feeds_are_no_lines(source, target, in_bulk):
    job = ConvertJob(source, target, "-", "-")
    assert job.by_bulk
    assert job.lines_by_bulk == in_bulk
