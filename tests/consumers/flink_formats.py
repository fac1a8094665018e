"""How a user of Flink declares what Waybill writes, format by format."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from tests.captures import COMMON, micros

if TYPE_CHECKING:
    from tests.consumers.flink_sql import Reading, Row
    from tests.consumers.sources import TruthTable

MICROSECONDS = 10**6
DAY = 86_400 * MICROSECONDS

TEXTUAL = {
    **dict.fromkeys(("int", "year"), "BIGINT"),
    "uint64": "DECIMAL(20, 0)",
    **dict.fromkeys(("text", "enum", "set"), "STRING"),
    # Flink's numbers have no more than 38 digits.
    "anydecimal": "STRING",
    "double": "DOUBLE",
    "float": "FLOAT",
    "date": "DATE",
    "datetime0": "TIMESTAMP(0)",
    "datetime6": "TIMESTAMP(6)",
    "timestamp": "TIMESTAMP(6)",
    # A TIME of MySQL may be below zero and beyond a day; Flink's may not.
    "time3": "STRING",
    **dict.fromkeys(("bit", "bytes", "binary"), "BYTES"),
}
"""SQL types by kind of value, where times are texts."""

CANAL = {
    **TEXTUAL,
    **dict.fromkeys(("bit", "enum", "set"), "BIGINT"),
    **dict.fromkeys(("bytes", "binary"), "STRING"),
}
"""Canal writes bytes as the text whose characters have their numbers, and ENUM and SET as they
stand in the binlog: the number of the word, and a bit for each word."""

MAXWELL = {**TEXTUAL, "bit": "BIGINT"}

OGG = {**TEXTUAL, "timestamp": "STRING"}
"""Flink reads no offset behind a blank."""

DEBEZIUM = {
    **TEXTUAL,
    **dict.fromkeys(("year", "date"), "INT"),
    **dict.fromkeys(("datetime0", "datetime6", "time3"), "BIGINT"),
    "timestamp": "STRING",
}
"""Debezium counts days, milliseconds or microseconds."""


@dataclass(frozen=True)
class Written:
    """What one of Flink's formats reads.

    Attributes:
        format: its name in Flink.
        envelope: what Waybill writes.
        types: SQL type by kind of value.
        settings: of Waybill's writer.
        options: of Flink's table.
        mixed: tells the rows of one table from others in the topic: a condition over the column
            `metadata`, or an option of the format.
        metadata: the declaration of a column for that.
        apart: every table has a topic of its own.
        statements: Flink reads over messages about CREATE.
    """

    format: str
    envelope: str
    types: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    mixed: str = "TRUE"
    metadata: str = ""
    apart: bool = False
    statements: bool = True

    def columns(self, table: TruthTable) -> dict[str, str]:
        """The columns of a table, as its user declares them."""
        return {
            column: f"DECIMAL(38, {table.scales[column]})"
            if kind == "decimal"
            else self.types[kind]
            for column, kind in table.kinds.items()
        }

    def rows(self, reading: Reading, table: TruthTable) -> dict[tuple, dict[str, Any]]:
        """The rows that stand, by key, in the terms of the truth."""
        found: dict[tuple, dict[str, Any]] = {}
        for row, times in (+reading.rows).items():
            assert times == 1, row
            values = self._values(row, table)
            key = tuple(values[column] for column in table.key)
            assert key not in found
            found[key] = values
        return found

    def rows_by_key(self, reading: Reading, table: TruthTable) -> dict[tuple, dict[str, Any]]:
        """The same where rows are taken away by their key, whatever else they say."""
        found: dict[tuple, dict[str, Any]] = {}
        for kind, row in reading.changes:
            values = self._values(row, table)
            key = tuple(values[column] for column in table.key)
            if kind in ("+I", "+U"):
                assert key not in found
                found[key] = values
            else:
                del found[key]
        return found

    def _values(self, row: Row, table: TruthTable) -> dict[str, Any]:
        return {
            column: self.value(kind, text, table.scales.get(column))
            for (column, kind), text in zip(table.kinds.items(), row, strict=True)
        }

    def value(self, kind: str, text: str | None, scale: int | None = None) -> Any:
        """What a text of Flink's says, in the terms of the truth.

        Args:
            kind: of the value.
            text: as Flink gave it; bytes in Base64.
            scale: digits behind the point of a decimal.
        """
        if text is None:
            return None
        declared = self.types.get(kind)
        if declared == "BYTES":
            raw = base64.b64decode(text, validate=True)
            if kind == "uint64":
                return int.from_bytes(raw, "big", signed=True)
            if kind == "anydecimal":
                digits = Decimal(int.from_bytes(raw, "big", signed=True))
                return digits.scaleb(-(scale or 0), Context(prec=len(digits.as_tuple().digits)))
            return int.from_bytes(raw, "big") if kind == "bit" else raw
        if kind in WORDS and declared == "BIGINT":
            return _words(kind, int(text))
        if kind in COUNTS and declared in ("BIGINT", "INT"):
            return int(text) * COUNTS[kind]
        return READ.get(kind, COMMON.get(kind, str))(text)


COUNTS = {"date": DAY, "datetime0": 1000, "datetime6": 1, "time3": 1, "bit": 1}
"""Microseconds in one of what Debezium counts."""

WORDS = {"enum": ("new", "paid", "shipped", "it's", "完成"), "set": ("a", "b", "c", "d e")}
"""The words of the recorded tables' columns."""


def _words(kind: str, number: int) -> str:
    words = WORDS[kind]
    if kind == "enum":
        return words[number - 1] if number else ""
    return ",".join(word for place, word in enumerate(words) if number >> place & 1)


READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("bytes", "binary"), lambda text: text.encode("latin-1")),
    "timestamp": lambda text: micros(text.removesuffix(" +00:00")),
    # Maxwell has a list of the words.
    "set": lambda text: ",".join(json.loads(text)) if text.startswith("[") else text,
}

WRITTEN = {
    "canal-json": Written(
        "canal-json", "canal", CANAL, options={"canal-json.table.include": "^{table}$"}
    ),
    "canal-json of TiCDC": Written(
        "canal-json", "tidb-canal", CANAL, options={"canal-json.table.include": "^{table}$"}
    ),
    "maxwell-json": Written(
        "maxwell-json",
        "maxwell",
        MAXWELL,
        statements=False,
        mixed="metadata = '{table}'",
        metadata="metadata STRING METADATA FROM 'value.table' VIRTUAL",
    ),
    "ogg-json": Written(
        "ogg-json",
        "ogg",
        OGG,
        mixed="metadata = 'shop.{table}'",
        metadata="metadata STRING METADATA FROM 'value.table' VIRTUAL",
    ),
    "debezium-json": Written(
        "debezium-json",
        "debezium-json",
        DEBEZIUM,
        mixed="metadata = '{table}'",
        metadata="metadata STRING METADATA FROM 'value.source.table' VIRTUAL",
    ),
    "debezium-json with schemas": Written(
        "debezium-json",
        "debezium-json",
        {**DEBEZIUM, "uint64": "BYTES"},
        settings={"schemas": True},
        options={"debezium-json.schema-include": "true"},
        mixed="metadata = '{table}'",
        metadata="metadata STRING METADATA FROM 'value.source.table' VIRTUAL",
    ),
    "debezium-avro-confluent": Written(
        "debezium-avro-confluent",
        "debezium-avro",
        # Unscaled digits, which Flink reads as a decimal of up to 38 digits and else as bytes.
        {**DEBEZIUM, "anydecimal": "BYTES"},
        settings={"registry": "{registry}", "decimals": "precise"},
        options={"debezium-avro-confluent.url": "{registry}"},
        # A schema belongs to one table, and so does a topic.
        apart=True,
    ),
}
