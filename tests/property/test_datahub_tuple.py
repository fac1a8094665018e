"""Records of TUPLE topics in both notations: the fast way reads what the general way reads."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.histories import by_name
from waybill.envelopes.datahub.tuple.declaration import ENVELOPE
from waybill.envelopes.datahub.tuple.topics import METADATA, TIMES
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import ConfigurationError, Refusal
from waybill.records import Change, Message, intern_schema
from waybill.tables import TableRules

NUMBERS = st.integers(-(2**65), 2**65).map(str) | st.integers(-5, 5).map(str)
FLOATS = st.floats(width=32).map(repr) | st.floats().map(repr)
VALUES: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), NUMBERS | st.sampled_from(["007", "x", "1.0"])
    ),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(['":', '\\"', ""]),
    "BOOLEAN": st.sampled_from(["true", "false", "TRUE", "1", ""]),
    "TIMESTAMP": st.integers(-(2**63), 2**63 - 1).map(str) | st.integers(0, 10**16).map(str),
    "FLOAT": FLOATS,
    "DOUBLE": FLOATS | st.sampled_from(["1.1E10", "1e400"]),
    "DECIMAL": st.decimals(allow_nan=False, allow_infinity=False).map(str) | NUMBERS,
}
NAMES = ["id", "a:b", "列", "Data", "x y", "Attributes", "%d", "number", "w"]


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], list[bytes]]:
    """The schema of a topic, and some of its records in one notation."""
    time = draw(st.sampled_from(TIMES))
    metadata = [name for name in METADATA if name not in TIMES] + [time]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    fields = [{"name": name, "type": "STRING"} for name in metadata]
    fields += [{"name": name, "type": draw(st.sampled_from(list(VALUES)))} for name in names]
    fields = draw(st.permutations(fields))
    in_order = draw(st.booleans())
    plain = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    found = []
    for _ in range(draw(st.integers(1, 5))):
        operation, flags = draw(
            st.sampled_from([("I", "NY"), ("U", "YN"), ("U", "NY"), ("D", "YN"), ("D", "NY")])
        )
        row: dict[str, Any] = {
            "_sequence_id_": draw(st.sampled_from(["5", "-1", "0012", None, str(10**30)])),
            "_operation_type_": operation,
            time: draw(st.sampled_from(["1649991726000", "-1", None, "x"])),
            "_source_table_": draw(st.sampled_from(["shop.t", "u"])),
            "_before_image_": flags[0],
            "_after_image_": flags[1],
        }
        for field in fields:
            if field["name"] not in row:
                value: Any = draw(st.none() | VALUES[field["type"]])
                if plain and value is not None and field["type"] in ("BIGINT", "BOOLEAN"):
                    with suppress(ValueError):
                        value = json.loads(value)
                row[field["name"]] = value
        ordered = {field["name"]: row[field["name"]] for field in fields}
        record = {"Data": list(ordered.values()), "Attributes": {}} if in_order else ordered
        found.append(json.dumps(record, separators=separators).encode())
    return {"fields": fields}, found


def decoded(decoder: Any, value: bytes, offset: int = 0) -> Any:
    try:
        return decoder.decode(Message("t", 0, offset, None, None, value))
    except Refusal as refusal:
        return refusal.kind, refusal.sentence


def fresh(schema: dict[str, Any] | None) -> Any:
    return ENVELOPE.decoder(ENVELOPE.decode_settings(schemas=schema), TableRules())


@given(records())
@settings(max_examples=cases(150), deadline=None)
def test_what_was_read_before_does_not_matter(made):
    """A decoder that knows the topic answers as one that sees it for the first time."""
    schema, values = made
    warm = fresh(schema)
    for _ in range(2):
        for offset, value in enumerate(values):
            assert decoded(warm, value, offset) == decoded(fresh(schema), value, offset), value


@given(records(), st.sampled_from(["object", "record"]), st.booleans())
@settings(max_examples=cases(150), deadline=None)
def test_what_was_read_is_written_and_read_the_same(made, shape, with_schema):
    schema, values = made
    topic_schema = schema if with_schema or shape == "record" else None
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=topic_schema, shape=shape))
    for offset, value in enumerate(values):
        found = decoded(fresh(schema), value, offset)
        if isinstance(found, tuple):
            continue
        (change,) = found
        losses: list[str] = []
        try:
            (written,) = encoder.encode(change, losses)
        except Refusal:
            # Texts that no float has were kept as they came.
            kinds = {column.source_type for column in change.schema.columns}
            assert kinds & {"FLOAT", "DOUBLE"}, value
            continue
        (again,) = decoded(fresh(schema), written.value, offset)
        again.message = change.message
        assert change.full_row or change.sequence is not None
        assert again == change
        assert "sequence_id" not in losses


@given(records())
@settings(max_examples=cases(60), deadline=None)
def test_a_name_that_stands_twice_is_refused(made):
    schema, values = made
    warm = fresh(schema)
    for offset, value in enumerate(values):
        if isinstance(decoded(warm, value, offset), tuple):
            continue
        for name in json.loads(value):
            written = json.dumps(name).encode()
            doubled = b"{" + written + b":1," + value[1:]
            kind, sentence = decoded(warm, doubled, offset)
            assert (kind, "twice" in sentence) == ("json", True), doubled


SCHEMA = intern_schema("shop", None, "t", (), ())
FIELDS = [{"name": "id", "type": "bigint"}, {"name": "v", "type": "string"}]


def changed(operation: str, before: Any = None, after: Any = None, **more: Any) -> Change:
    columns = tuple(fresh({"fields": FIELDS}).decode(_record())[0].schema.columns)
    schema = intern_schema("shop", None, "t", columns, ("id",))
    images = [None if row is None else schema.Image(**row) for row in (before, after)]
    message = Message("t", 0, 0, None, None, None)
    return Change(
        operation, schema, message, before=images[0], after=images[1], sequence=(7,), **more
    )


def _record() -> Message:
    row = {"_operation_type_": "I", "_sequence_id_": "1", "id": "1", "v": "x"}
    return Message("t", 0, 0, None, None, json.dumps(row).encode())


def written(change: Change, **settings: Any) -> list[dict[str, Any]]:
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings))
    return [json.loads(message.value) for message in encoder.encode(change, [])]


class TestRowsThatLackColumns:
    """`Data` holds every column: nothing may look like a null that nobody set."""

    def test_what_the_row_before_tells_is_taken_from_it(self):
        change = changed("update", {"f0": "1", "f1": "a"}, {"f0": "2"})
        old, new = written(change, shape="record")
        assert old["Data"][-2:] == ["1", "a"]
        assert new["Data"][-2:] == ["2", "a"]

    def test_what_nothing_tells_is_refused(self):
        with pytest.raises(Refusal, match="'v' was not sent"):
            written(changed("update", None, {"f0": "2"}), shape="record")

    def test_the_key_of_a_deleted_row_is_distinguished_from_a_row_of_nulls(self):
        change = changed("delete", {"f0": "1"})
        (record,) = written(change, shape="record")
        assert record["Data"][-2:] == ["1", None]
        names = ["_sequence_id_", "_operation_type_", "_excute_time_", "_source_table_"]
        names += ["_before_image_", "_after_image_"]
        fields = [{"name": name, "type": "STRING"} for name in names] + FIELDS
        (again,) = decoded(fresh({"fields": fields}), json.dumps(record).encode())
        assert again.before == change.before

    @pytest.mark.parametrize("operation", ["insert", "update", "delete"])
    def test_a_field_that_the_table_is_not_known_to_have(self, operation):
        """It may have it all the same: not every source tells all columns in every message."""
        row = {"f0": "1", "f1": "x"}
        before = None if operation == "insert" else row
        change = changed(operation, before, None if operation == "delete" else row)
        names = [name for name in METADATA if name != TIMES[1]]
        more = [{"name": name, "type": "STRING"} for name in (*names, "more")]
        settings = {"schemas": {"fields": more + FIELDS}}
        encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings, shape="record"))
        losses: list[str] = []
        for message in encoder.encode(change, losses):
            (again,) = decoded(fresh(settings["schemas"]), message.value)
            image = again.before if again.after is None else again.after
            assert by_name(again.schema, image) == {"id": "1", "v": "x"}
        assert ("unchanged_columns" in losses) == (operation == "update")

    def test_an_object_leaves_them_out(self):
        (record,) = written(changed("update", None, {"f0": "2"}))
        assert record["id"] == "2"
        assert "v" not in record

    @pytest.mark.parametrize("shape", ["object", "record"])
    def test_what_was_not_sent_is_counted_once(self, shape):
        """Other readers of the topic find null in its place, or a value nobody sent."""
        encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(shape=shape))
        whole = {"f0": "2", "f1": "x"}
        for after, lacks in (({"f0": "2"}, 1), (whole, 0)):
            losses: list[str] = []
            encoder.encode(changed("update", whole, after), losses)
            assert losses.count("unchanged_columns") == lacks


class TestTopics:
    """What the setting `schemas` may be."""

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"fields": []},
            {"fields": [{"name": "a"}]},
            {"fields": [{"name": "a", "type": "BLOB"}]},
            {"fields": [{"name": "a", "type": "STRING"}, {"name": "a", "type": "BIGINT"}]},
            {"fields": [{"name": name, "type": "STRING"} for name in TIMES]},
            {"datahub": {}},
            {"datahub": {"t": "{"}},
            {"datahub": {"t": {"columns": []}}},
        ],
    )
    def test_what_is_no_schema(self, given):
        with pytest.raises(ConfigurationError):
            fresh(given)

    def test_a_file(self, tmp_path):
        path = tmp_path / "schemas.json"
        path.write_text(json.dumps({"datahub": {"t": {"fields": FIELDS}}}))
        (change,) = fresh(str(path)).decode(_record())
        assert [str(column.type) for column in change.schema.columns] == ["int64", "string"]
        with pytest.raises(ConfigurationError, match="there is no"):
            fresh(str(tmp_path / "other.json"))
        path.write_text("{")
        with pytest.raises(ConfigurationError, match="JSON"):
            fresh(str(path))


class TestWriting:
    def test_a_topic_of_its_own_schema(self):
        """Order, spelling and types are the topic's; what it has not is refused."""
        fields = [{"name": "v", "type": "STRING"}, {"name": "_execute_time_", "type": "TIMESTAMP"}]
        fields += [{"name": "id", "type": "DECIMAL"}, {"name": "more", "type": "STRING"}]
        fields += [{"name": name, "type": "STRING"} for name in METADATA if name not in TIMES]
        schemas = {"datahub": {"shop.t": {"fields": fields}}}
        change = changed("insert", None, {"f0": "1", "f1": "x"}, source_time=1_649_991_726_000_123)
        (record,) = written(change, shape="record", schemas=schemas)
        assert record["Data"][:4] == ["x", "1649991726000123", "1", None]
        (record,) = written(change, schemas=schemas)
        assert record["_execute_time_"] == "1649991726000123"
        assert "more" not in record
        schemas["datahub"]["shop.t"]["fields"] = fields[1:]
        with pytest.raises(Refusal, match="'v' is not in the topic's schema"):
            written(change, schemas=schemas)

    @pytest.mark.parametrize("name", METADATA)
    def test_a_topic_without_a_metadata_column(self, name):
        """A record is refused that could not tell what happened; a time is counted."""
        fields = [{"name": n, "type": "STRING"} for n in METADATA if n not in (name, TIMES[1])]
        settings = {"schemas": {"fields": fields + FIELDS}, "shape": "record"}
        change = changed("update", {"f0": "1", "f1": "x"}, {"f0": "1", "f1": "y"}, source_time=1000)
        encoder, losses = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings)), []
        if name not in TIMES:
            with pytest.raises(Refusal, match=name):
                encoder.encode(change, losses)
            return
        assert len(encoder.encode(change, losses)) == 2
        assert ("source_time" in losses) == (name == TIMES[0])

    def test_a_table_without_a_topic_has_no_order(self):
        schemas = {"datahub": {"other": {"fields": FIELDS}}}
        change = changed("insert", None, {"f0": "1", "f1": "x"})
        with pytest.raises(Refusal, match=r"no topic for table 'shop\.t'"):
            written(change, shape="record", schemas=schemas)
        (record,) = written(change, schemas=schemas)
        assert record["v"] == "x"

    def test_names_that_could_not_be_distinguished(self):
        change = changed("insert", None, {"f0": "1", "f1": "x"})
        place = intern_schema("sh.op", None, "t", change.schema.columns, ("id",))
        change.schema = place
        with pytest.raises(Refusal, match="source_table"):
            written(change)
        (record,) = written(change, source_table="name")
        assert record["_source_table_"] == "t"

    @pytest.mark.parametrize("schema", [None, "public"])
    @pytest.mark.parametrize("source_table", ["name", "qualified"])
    def test_a_bare_name_tells_no_database_and_no_schema(self, schema, source_table):
        change, losses = changed("insert", None, {"f0": "1", "f1": "x"}), []
        change.schema = intern_schema("shop", schema, "t", change.schema.columns, ("id",))
        settings = ENVELOPE.encode_settings(source_table=source_table)
        ENVELOPE.encoder(settings).encode(change, losses)
        assert ("schema_name" in losses) == (source_table == "name")

    @pytest.mark.parametrize("schema", [None, "public"])
    def test_a_place_without_database(self, schema):
        change = changed("insert", None, {"f0": "1", "f1": "x"})
        change.schema = intern_schema(None, schema, "t", change.schema.columns, ("id",))
        (record,) = written(change)
        (again,) = decoded(fresh(None), json.dumps(record).encode())
        found = again.schema
        assert (found.database, found.schema, found.table) == (None, schema, "t")

    def test_halves_meet_again(self):
        change = changed("update", {"f0": "1", "f1": "a"}, {"f0": "2", "f1": "b"})
        joiner, found = PairJoiner(), []
        decoder = fresh(None)
        for record in written(change):
            (half,) = decoded(decoder, json.dumps(record).encode())
            found += joiner.push(half)
        (update,) = found
        assert update.before.f0 == "1"
        assert update.after.f1 == "b"
