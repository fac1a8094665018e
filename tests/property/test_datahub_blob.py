"""DataHub BLOB messages in every layout: the fast way reads what the general way reads."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from waybill.envelopes.datahub.blob.declaration import ENVELOPE
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS, Message
from waybill.tables import TableRules
from waybill.values.instants import FIRST_MS, LAST_MS, Zone, instant_ms, instant_text

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "LONG": st.integers(-(2**65), 2**65) | st.integers(-5, 5) | st.sampled_from(["12", "x", 1.5]),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from(["1.100000", "NaN", "1e400", "0.1000000000000000055", "x", True, ""]),
    "BOOLEAN": st.booleans() | st.sampled_from(["true", "false", 0, "1"]),
    "DATE": st.integers(FIRST_MS - 5, LAST_MS + 5) | st.sampled_from([0, "0", "x", 1.0]),
    "BYTES": st.binary().map(lambda data: base64.b64encode(data).decode())
    | st.sampled_from(["", "=", "a", 5]),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(['":', "a:b", '\\":', "x\ny", 5]),
}
NAMES = ["id", "a:b", "列", "op", "x y", "dataColumn", "%d"]


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """Some messages of one table, each with its own values, written one way."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    types = [draw(st.sampled_from(list(VALUES))) for _ in names]
    schema = {
        "dataColumn": [{"name": n, "type": t} for n, t in zip(names, types, strict=True)],
        "primaryKey": draw(st.sampled_from([[], names[:1], names])),
        "source": {"dbName": "db", "dbType": "MySQL", "tableName": "t"},
    }
    absent = draw(st.sampled_from(["absent", None, {}, {"dataColumn": {}}]))
    partial = draw(st.booleans())
    ddl = draw(st.sampled_from(["absent", None, {"text": "", "ddlMeta": ""}]))
    order = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    ascii_only = draw(st.booleans())

    def image() -> dict[str, Any]:
        row = {}
        for name, kind in zip(names, types, strict=True):
            if not partial or draw(st.booleans()):
                row[name] = None if draw(st.integers(0, 4)) == 0 else draw(VALUES[kind])
        return {"dataColumn": row}

    found = []
    for _ in range(draw(st.integers(1, 5))):
        op = draw(st.sampled_from(["INSERT", "UPDATE_BEFOR", "UPDATE_AFTER", "DELETE", "ALTER"]))
        payload: dict[str, Any] = {"op": op}
        images = {
            "before": image() if op in ("UPDATE_BEFOR", "DELETE") else absent,
            "after": image() if op in ("INSERT", "UPDATE_AFTER") else absent,
        }
        payload.update({name: row for name, row in images.items() if row != "absent"})
        number = draw(st.sampled_from(["-1", "5", "00012", 7, None, "x", str(10**30)]))
        payload["sequenceId"] = number
        time = draw(st.sampled_from([-1, 0, 1_605_339_932_000, LAST_MS + 1]))
        payload["timestamp"] = {"eventTime": time}
        payload["timestamp"].update(
            draw(st.sampled_from([{}, {"systemTime": 5}, {"systemTime": 6, "checkpointTime": -1}]))
        )
        if ddl != "absent":
            payload["ddl"] = ddl
        parts = {"schema": schema, "payload": payload, "version": "0.0.1"}
        if order:
            parts = {"payload": payload, "schema": schema}
        text = json.dumps(parts, separators=separators, ensure_ascii=ascii_only)
        found.append(text.encode())
    return found


def decoded(decoder, value: bytes, offset: int) -> Any:
    try:
        return decoder.decode(Message("t", 0, offset, None, None, value))
    except Refusal as refusal:
        return refusal.kind, refusal.sentence


def fresh() -> Any:
    return ENVELOPE.decoder(ENVELOPE.decode_settings(), TableRules())


@given(messages())
@settings(max_examples=cases(150), deadline=None)
def test_what_was_read_before_does_not_matter(values):
    """A decoder that knows the table answers as one that sees it for the first time."""
    warm = fresh()
    for _ in range(2):
        for offset, value in enumerate(values):
            assert decoded(warm, value, offset) == decoded(fresh(), value, offset), value


@given(messages(), st.sampled_from(["two", "one"]))
@settings(max_examples=cases(100), deadline=None)
def test_what_was_read_is_written_and_read_the_same(values, updates):
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(updates=updates))
    for offset, value in enumerate(values):
        found = decoded(fresh(), value, offset)
        if isinstance(found, tuple):
            continue
        (change,) = found
        losses: list[str] = []
        try:
            (written,) = encoder.encode(change, losses)
        except Refusal:
            # Whoever decodes refuses such a row already, when he asks for its key.
            with pytest.raises(Refusal, match="key"):
                change.key_image()
            continue
        (again,) = decoded(fresh(), written.value, offset)
        again.message = change.message
        row = change.operation in ROW_OPERATIONS
        if change.sequence is None and row and not change.full_row:
            # Written without an id of its own, it was given one made from its position.
            assert again.sequence == (10**18 + offset * 10**5,)
            losses.remove("sequence_id")
            again.sequence = None
            again.half = change.half
        if b'"version"' not in value:
            again.extra = again.extra.replace(b'"version":"0.0.1",', b"")
        assert again == change
        lacks = change.after is not None and msgspec.UNSET in msgspec.structs.astuple(change.after)
        assert losses == ["unchanged_columns"] * lacks


@given(messages())
@settings(max_examples=cases(80), deadline=None)
def test_a_name_that_stands_twice_is_refused(values):
    """However often the table was read before."""
    warm = fresh()
    for offset, value in enumerate(values):
        if isinstance(decoded(warm, value, offset), tuple):
            continue
        payload = json.loads(value)["payload"]
        for which in ("before", "after"):
            columns = (payload.get(which) or {}).get("dataColumn") or {}
            for name in columns:
                written = json.dumps(name, ensure_ascii=False).encode()
                doubled = value.replace(
                    b'"dataColumn":{"', b'"dataColumn":{' + written + b':1,"', 1
                )
                if doubled == value:
                    continue
                kind, sentence = decoded(warm, doubled, offset)
                assert (kind, "twice" in sentence) == ("json", True), doubled


@given(st.integers(FIRST_MS, LAST_MS))
def test_instants_come_back(ms):
    text = instant_text(ms)
    assert len(text) == 24
    for _ in range(2):
        assert instant_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "Z",
            "2024-02-30T00:00:00.000Z",
            "2024-01-01T24:00:00.000Z",
            "2024-01-01T00:00:00.000",
        ),
        *("2024-01-01 00:00:00.000Z", "2024-01-01T00:00:00.0001Z", "2024-01-01T00:60:00.000Z"),
        *("2024-01-01T00:00:60.000Z", "0000-01-01T00:00:00.000Z", "2024-01-01T00:00:00,000Z"),
        *("２024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000z", "2024-1-1T00:00:00.000Z"),
    ],
)
def test_what_is_no_instant_of_milliseconds(text):
    assert instant_ms("2024-01-01T00:00:00.000Z") == 1_704_067_200_000
    assert instant_ms(text) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.120000000Z", 120),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00.000Z", FIRST_MS),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
    ],
)
def test_instants(text, ms):
    assert instant_ms(text) == ms


@given(
    st.integers(-(10**12), 4 * 10**12),
    st.sampled_from(
        ["UTC", "+08:00", "-03:30", "Asia/Shanghai", "America/New_York", "Europe/Paris"]
    ),
)
def test_wall_clocks_come_back_or_are_none(ms, name):
    zone = Zone(name)
    wall = zone.wall_text(ms)
    assert wall is None or zone.wall_ms(wall) == ms
    assert wall is not None or "/" in name


def test_hours_that_clocks_show_twice_or_never():
    zone = Zone("Europe/Paris")
    assert zone.wall_ms("2024-03-31T02:30:00") is None
    twice = 1_729_989_000_000  # 2024-10-27T00:30:00Z, shown as 02:30 in summer time
    assert zone.wall_text(twice) == "2024-10-27T02:30:00.000"
    assert zone.wall_text(twice + 3_600_000) is None


@pytest.mark.parametrize("name", ["Asia/Nowhere", "+25:00", "", "../etc/passwd", "8"])
def test_unknown_zones_are_refused(name):
    with pytest.raises(ValueError, match=r"zone|offset"):
        Zone(name)
