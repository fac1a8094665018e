"""Which envelope a file is in: every golden message, and files that are nothing in particular."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path

import msgspec
import pytest

from tests.contract.probes import OTHER, ROW, change
from tests.golden import test_golden as golden
from waybill.cli.detect import Detection, answer_of
from waybill.cli.detect import judged as judge
from waybill.envelopes import registry
from waybill.inprocess.detect import detect, sample_of
from waybill.inprocess.topic_file import open_topic
from waybill.records import ROW_OPERATIONS, Message
from waybill.tables import TableRules

TWINS = {"ibmcdc-avro": {"debezium-avro"}, "debezium-avro": {"ibmcdc-avro"}}
"""Envelopes of which one looks like the other before their schemas are known."""


@lru_cache
def case_of(path: Path) -> golden.Case:
    return msgspec.json.decode(path.read_bytes(), type=golden.Case)


def messages_of(path: Path) -> list[Message]:
    found = []
    for place, wire in enumerate(case_of(path).messages):
        headers = [(n, golden.bytes_of(v)) for n, v in wire.headers or ()] or None
        key, value = golden.bytes_of(wire.key), golden.bytes_of(wire.value)
        found.append(Message(wire.topic, 0, place, wire.timestamp, key, value, headers))
    return found


def own_cases(name: str) -> list[Path]:
    """Cases of messages in the envelope, of which the decoder takes half at least."""
    return [
        path
        for path in sorted(Path(golden.HERE, name).glob("*.json"))
        if (case_of(path).read_as or name) == name and mostly_good(path)
    ]


def mostly_good(path: Path) -> bool:
    case = case_of(path)
    bad = sum(change.get("outcome") == "refused" for change in case.changes)
    values = sum(message.value is not None for message in messages_of(path))
    return values > 0 and 2 * bad < len(case.changes)


WITH_CASES = [name for name in registry.names() if own_cases(name)]
CASES = [(name, path) for name in WITH_CASES for path in own_cases(name)]


def named(verdict) -> set[str]:
    return {trial.name for trial in verdict.named}


@pytest.mark.parametrize(("name", "path"), CASES, ids=lambda v: getattr(v, "stem", v))
def test_every_golden_case_is_named(name, path):
    """Nothing is declared; what needs schemas is named with them."""
    verdict = detect(messages_of(path), golden.rules_of(case_of(path).tables))
    assert name in named(verdict), (verdict.named, verdict.trials[0])
    assert named(verdict) <= {name} | twins_of(name, path)


def twins_of(name: str, path: Path) -> set[str]:
    """Envelopes that the messages may also be of: those of the family, without any row."""
    family = name.partition("-")[0]
    rows = ROW_OPERATIONS & {change.get("operation") for change in case_of(path).changes}
    others = () if rows else (n for n in registry.names() if n.startswith(family))
    return TWINS.get(name, set()).union(others)


@pytest.mark.parametrize("name", WITH_CASES)
def test_the_cases_of_an_envelope_together_are_one_file(name):
    messages = [message for path in own_cases(name) for message in messages_of(path)]
    verdict = detect(messages, TableRules())
    assert name in named(verdict)
    assert not verdict.mixed


def test_schemas_tell_the_avro_envelopes_apart():
    for name in TWINS:
        for path in own_cases(name):
            case = case_of(path)
            if case.settings:
                verdict = detect(messages_of(path), golden.rules_of(case.tables), case.settings)
                assert named(verdict) == {name}, path


def test_without_schemas_it_is_said_what_is_needed():
    path = next(path for path in own_cases("ibmcdc-avro") if case_of(path).settings)
    verdict = detect(messages_of(path), TableRules())
    assert named(verdict) == {"ibmcdc-avro", "debezium-avro"}
    for trial in verdict.named:
        assert trial.needs == ("schemas", "registry")
        assert trial.read < verdict.messages


def test_a_setting_that_the_messages_need_is_found():
    for _, path in CASES:
        verdict = detect(messages_of(path), golden.rules_of(case_of(path).tables))
        for trial in verdict.named:
            for setting, value in trial.settings_found.items():
                assert case_of(path).settings[setting] == value


def test_schema_ids_of_a_folder_are_large_and_repeat():
    """Ids that are made from the schema's text are no small numbers."""
    values = [b"\0" + (1_234_567_890).to_bytes(4, "big") + bytes([i]) for i in range(5)]
    messages = [Message("t", 0, i, None, None, value) for i, value in enumerate(values)]
    assert named(detect(messages, TableRules())) == {"ibmcdc-avro", "debezium-avro"}
    assert named(detect(messages[:1], TableRules())) == set()


# Files


def judged(path: Path, schemas: Path | None = None):
    detection = Detection(str(path), None, [], schemas, None, 200, json=False)
    with open_topic(str(path), None, 8 << 20) as file:
        verdict = judge(file, sample_of(file.messages()), detection)
        return file, verdict, answer_of(file, verdict)


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def maxwell(i: int, **more: object) -> dict[str, object]:
    row = {"id": i, "name": f"n{i}"}
    return {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": row, **more}


def ogg(i: int) -> dict[str, object]:
    return {"table": "A.T", "op_type": "I", "pos": f"{i:020}", "after": {"id": i}, "before": None}


@pytest.fixture
def put(tmp_path):
    def write(content: bytes, name: str = "topic.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_lines_packed_or_not_whatever_the_name(put):
    content = lines(*map(maxwell, range(30)))
    for given in (content, gzip.compress(content)):
        file, verdict, shown = judged(put(given, "topic.dat"))
        assert (file.layout.name, named(verdict)) == ("lines", {"maxwell"})
        assert shown.endswith("topic.dat: maxwell")
    assert file.packing == "gzip"


def test_lines_packed_with_zstd(put):
    import pyarrow as pa

    packed = pa.compress(lines(*map(maxwell, range(30))), "zstd", asbytes=True)
    file, verdict, _ = judged(put(packed))
    assert (file.packing, named(verdict)) == ("zstd", {"maxwell"})


def test_kcat_and_its_payloads(put):
    records = [
        {"topic": "t", "partition": 0, "offset": i, "key": None, "payload": json.dumps(ogg(i))}
        for i in range(5)
    ]
    file, verdict, _ = judged(put(lines(*records)))
    assert (file.layout.name, named(verdict)) == ("kcat", {"ogg"})


def test_parquet_with_keys_and_headers(tmp_path):
    from waybill.inprocess.kafka_files import MessageFile

    path = next(path for path in own_cases("debezium-avro") if path.stem == "row_events")
    messages = messages_of(path)
    from waybill.protocol import Encoded

    file = tmp_path / "topic.bin"
    with file.open("wb") as sink, MessageFile(sink, "t") as out:
        out.write([Encoded(m.key, m.value, m.headers) for m in messages], messages)
    read, verdict, _ = judged(file)
    assert read.layout.name == "parquet"
    assert "debezium-avro" in named(verdict)


def test_a_folder_of_schemas_decides(tmp_path):
    from waybill.envelopes.canal.declaration import ENVELOPE as CANAL
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.run import convert_file

    source, out, schemas = tmp_path / "in.jsonl", tmp_path / "out.parquet", tmp_path / "schemas"
    messages = messages_of(next(path for path in own_cases("canal") if "insert" in path.stem))
    source.write_bytes(b"\n".join(message.value or b"" for message in messages))
    settings = {"schemas": str(schemas)}
    convert_file(
        ConvertJob(CANAL.name, "debezium-avro", str(source), str(out), encode_settings=settings)
    )
    assert named(judged(out)[1]) <= TWINS.keys()
    assert named(judged(out, schemas)[1]) == {"debezium-avro"}


def test_a_stream_of_binary_events_is_one_message(put):
    path = next(path for path in own_cases("databus-binary") if "windows" in path.stem)
    value = b"".join(message.value or b"" for message in messages_of(path))
    file, verdict, _ = judged(put(value, "events.bin"))
    assert (file.layout.name, named(verdict)) == ("whole", {"databus-binary"})
    assert verdict.named[0].needs == ("schemas",)


def test_one_message_over_several_lines(put):
    file, verdict, _ = judged(put(json.dumps(maxwell(1), indent=2).encode()))
    assert (file.layout.name, named(verdict)) == ("whole", {"maxwell"})


def test_a_mixture_names_all_that_it_is_made_of(put):
    _, verdict, shown = judged(put(lines(*map(maxwell, range(60)), *map(ogg, range(40)))))
    assert verdict.mixed
    assert shown.endswith("is a mixture: of 100 messages look like 60 maxwell, 40 ogg")


def test_a_few_strangers_make_no_mixture(put):
    content = lines(*map(maxwell, range(60)), ogg(1)) + b"garbage\n{\n"
    _, verdict, _ = judged(put(content))
    assert (named(verdict), verdict.mixed, verdict.unknown) == ({"maxwell"}, False, 2)


def test_rows_without_any_envelope_are_said_to_be_hardly_recognised(put):
    _, verdict, _ = judged(put(lines(*({"id": i, "name": "x"} for i in range(9)))))
    assert named(verdict) == {"dms-s3"}
    assert verdict.weak


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it holds no message"),
        (b"\n\n \r\n", "every decoder refuses all of it (1 message; it holds nothing but blanks"),
        (b"no JSON\nat all\n", "every decoder refuses all of it (2 messages; it is a text)"),
        (bytes(range(256)) * 9, "it is binary: its first bytes are 00 01 02 03 04 05 06 07"),
        (bytes(100_000), "it is binary: its first bytes are 00 00 00 00"),
        (b"\x80\x81\xff" * 50, "every decoder refuses all of it (1 message;"),
        (b"[" * 100_000, "every decoder refuses"),
        (b'[{"a": 1}, {"a": 2}]', "every decoder refuses"),
        (b"Obj\x01\x04\x14avro.codec", "it is an Avro container file"),
        (b"PK\x03\x04\x00\x00", "it is a ZIP archive"),
        (lines({"topic": "t", "partition": 0, "offset": 1, "value": "{}"}), "it is lines of rec"),
        (lines(*(maxwell(i, ts="x") for i in range(9))), "9 of 9 messages have the names of maxw"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_fits_nothing_is_said_in_a_sentence(put, content, why):
    _, verdict, shown = judged(put(content))
    assert verdict.named == []
    assert "no envelope fits: " in shown
    assert why in shown


def test_a_huge_file_is_read_a_little(tmp_path):
    """A message without an end is looked at as far as eight megabytes."""
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(3 << 30)
    with open_topic(str(path), None, 8 << 20) as found:
        messages = sample_of(found.messages())
        assert sum(len(message.value) for message in messages) <= 8 << 20
        verdict = detect(messages, TableRules())
        assert "longer than 8 MiB" in answer_of(found, verdict)


def test_many_large_messages_are_read_a_little(put):
    big = maxwell(1, query="x" * 300_000)
    with open_topic(str(put(lines(*([big] * 50))))) as file:
        assert len(sample_of(file.messages())) == 4


NEARLY = {
    "canal": ("type", 7),
    "oms-canal": ("type", 7),
    "oms-dataworks": ("version", "9.9"),
    "oms-extended": ("recordType", "MERGE"),
    "oms-default": ("allMetaData", 1),
    "debezium-json": ("source", "x"),
}
"""A member of each envelope with a wrong value; others have names of these messages too, or take
them all for rows with columns of such names."""


def written(name: str) -> list[dict[str, object]]:
    """Messages of rows as the envelope writes them."""
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings())
    encoded_rows = [encoder.encode(change("insert", after=row), []) for row in (ROW, OTHER, ROW)]
    return [json.loads(encoded.value) for one in encoded_rows for encoded in one]


@pytest.mark.parametrize("name", NEARLY)
def test_messages_that_none_takes_are_reported_to_be_of_the_nearest(put, name):
    member, value = NEARLY[name]
    content = lines(*({**message, member: value} for message in written(name)))
    _, verdict, shown = judged(put(content))
    assert verdict.named == []
    assert f"3 of 3 messages have the names of {name}, which refuses them: " in shown


@pytest.mark.parametrize("with_settings", [True, False])
def test_a_damaged_event_in_front_does_not_hide_the_others(with_settings):
    """All others of the stream have the right length and checksums."""
    path = next(path for path in own_cases("databus-binary") if "v2" in path.stem)
    good = messages_of(path)[0].value or b""
    content = good[:-1] + bytes([good[-1] ^ 1]) + good * 9
    settings = case_of(path).settings if with_settings else None
    verdict = detect([Message("t", 0, 0, None, None, content)], TableRules(), settings)
    assert named(verdict) == {"databus-binary"}
    assert not verdict.weak
    assert with_settings or verdict.named[0].needs == ("schemas",)


def test_a_setting_with_which_the_messages_are_refused_as_well_is_no_answer(put):
    """With missing_nulls Maxwell's decoder asks for declared columns first."""
    rows = ({"id": i, 'a "name"': 1} for i in range(3))
    _, verdict, shown = judged(put(lines(*(maxwell(1, data=row) for row in rows))))
    assert verdict.named == []
    assert "3 of 3 messages have the names of maxwell, which refuses them: a column name" in shown


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[1, 2]\n", "it is one JSON text, and no object in a line"),
        (b'{"a": [', "it is one JSON text, and no object in a line"),
        (b'{\n"a": 1\n}', "it is one JSON text over several lines"),
    ],
)
def test_a_text_of_one_line_is_not_said_to_have_several(put, content, why):
    file, _, _ = judged(put(content))
    assert (file.layout.name, file.layout.why) == ("whole", why)


BARE = {
    "canal": (
        [
            b'{"data":[{"id":1,"name":"Ann"}],"type":"INSERT"}',
            b'{"data":[{"id":1,"name":"Ann"}],"type":"DELETE"}',
        ],
        {"table": "{topic}", "values": "json"},
    ),
    "maxwell": ([b'{"data":{"id":1},"type":"insert"}'] * 2, {"table": "{topic}"}),
    "ogg": (
        [
            b'{"before":null,"after":{"id":1},"op_type":"I"}',
            b'{"before":{"id":1},"after":null,"op_type":"D"}',
        ],
        {"table": "{topic}"},
    ),
}
"""Rows as Flink writes them in three formats: without any name of a table."""


@pytest.mark.parametrize("name", BARE)
def test_rows_of_flink_that_name_no_table_are_known(name):
    values, settings = BARE[name]
    messages = [Message("shop.orders", 0, n, None, None, value) for n, value in enumerate(values)]
    verdict = detect(messages, TableRules())
    assert named(verdict) == {name}
    (found,) = verdict.named
    assert (found.read, found.settings_found) == (len(values), settings)


def test_a_table_that_was_given_is_not_found_again():
    messages = [Message("t", 0, 0, None, None, value) for value in BARE["canal"][0]]
    verdict = detect(messages, TableRules(), {"table": "shop.orders", "values": "json"})
    assert named(verdict) == {"canal"}
    assert verdict.named[0].settings_found == {}


def test_rows_of_files_whose_columns_have_such_names_stay_rows_of_files():
    """Nothing but its decoder speaks for dms-s3 here, and nothing else can read them."""
    rows = [b'{"id":1,"name":"Ann"}', b'{"id":2,"name":"INSERT"}', b'{"id":1,"type":"INSERT"}']
    messages = [Message("t", 0, n, None, None, row) for n, row in enumerate(rows)]
    assert named(detect(messages, TableRules())) == {"dms-s3"}
