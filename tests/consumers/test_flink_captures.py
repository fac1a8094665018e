"""Flink SQL makes the databases' own tables of recorded streams, converted."""

from __future__ import annotations

import pytest

from tests.captures import CAPTURES, DECLARED, declared, rules
from tests.consumers.captured import given, truth
from tests.consumers.flink_formats import WRITTEN
from tests.consumers.sources import Reader, convert, differences
from waybill.spec.migration import Table, table_rules

CASES = [
    ("debezium-mariadb", "debezium-json"),
    ("debezium-mariadb", "debezium-json with schemas"),
    ("debezium-mariadb", "canal-json"),
    ("debezium-mariadb", "ogg-json"),
    ("maxwell-mariadb", "canal-json"),
    ("maxwell-mariadb", "debezium-json"),
    ("maxwell-mariadb", "ogg-json"),
]

ROWS_ONLY = {"canal": {"statements": False}}
"""Flink ends at the statements of the recorded streams."""

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.captures,
    pytest.mark.skipif(
        not (CAPTURES / "debezium-mariadb").is_dir() or not (CAPTURES / "maxwell-mariadb").is_dir(),
        reason="the recorded streams are not here",
    ),
]


def reader(folder: str) -> Reader:
    """How a capture is read."""
    if folder.startswith("debezium"):
        return Reader("debezium-json", rules(folder, {"uint64"}))
    words = {"orders__status": "enum", "orders__tags": "set"}
    tables = declared(folder, set(DECLARED), **words)
    made = table_rules({name: Table.model_validate(table) for name, table in tables.items()})
    return Reader("maxwell", made, {"json_columns": "text", "doubled_quotes": True})


@pytest.fixture(scope="module")
def converted(publish, tmp_path_factory):
    """A capture in a format, converted and sent once."""
    topics: dict[tuple[str, str], str] = {}

    def topic(folder: str, label: str) -> str:
        if (folder, label) not in topics:
            written, place = WRITTEN[label], tmp_path_factory.mktemp("capture")
            settings = {**written.settings, **ROWS_ONLY.get(written.envelope, {})}
            messages = convert(
                reader(folder), written.envelope, given(folder, place), place, **settings
            )
            topics[folder, label] = publish(messages)
        return topics[folder, label]

    return topic


@pytest.mark.parametrize("name", ["orders", "customers", "notes"])
@pytest.mark.parametrize(("folder", "label"), CASES)
def test_a_recorded_stream(flink, converted, folder, label, name):
    written, table = WRITTEN[label], truth(folder, name)
    columns = written.columns(table)
    options = {option: text.format(table=name) for option, text in written.options.items()}
    place = flink.table(
        converted(folder, label), written.format, columns, table.key, options, written.metadata
    )
    reading = flink.read(place, columns, written.mixed.format(table=name))
    assert reading.error is None
    found = written.rows_by_key(reading, table)
    if folder.startswith("maxwell") and name == "orders":
        # Maxwell leaves out the zero bytes at the end of BINARY(8).
        for row in found.values():
            row["hash8"] = None if row["hash8"] is None else row["hash8"].ljust(8, b"\0")
    # Debezium's snapshots write FLOAT and TIMESTAMP otherwise than its streams, so a row before may
    # differ in them from the row that stands.
    assert differences(found, table.rows) == []
