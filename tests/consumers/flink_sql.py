"""Flink SQL on its own small cluster: a topic read through one of Flink's formats.

The changes that Flink makes of a topic are applied the way its own operators apply them: a row is
taken away only where that very row stands. A change whose old row is not there is a fault of the
messages, which a reader by key alone would never see.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError

from tests.consumers.java_machine import java_reason

Row = tuple[str | None, ...]


@dataclass
class Reading:
    """What Flink made of a topic.

    Attributes:
        changes: kind (+I, -U, +U or -D) and row, in their order.
        rows: how often each row stands, as the texts of its columns; 0 where it did before.
        strays: rows that were to be taken away and did not stand.
        error: what ended the job, None where nothing did.
    """

    changes: list[tuple[str, Row]] = field(default_factory=list)
    rows: Counter[Row] = field(default_factory=Counter)
    strays: list[tuple[str, Row]] = field(default_factory=list)
    error: str | None = None


class Flink:
    """A session of Flink SQL.

    Args:
        gateway: a Java machine with Flink's jars.
        servers: of the Kafka broker, as `bootstrap.servers` takes them.
    """

    def __init__(self, gateway: Any, servers: str) -> None:
        table = gateway.jvm.org.apache.flink.table.api
        self._environment = table.TableEnvironment.create(
            table.EnvironmentSettings.inStreamingMode()
        )
        self._servers = servers
        self._tables = 0
        self.set("parallelism.default", "1")
        self.set("table.local-time-zone", "UTC")

    def set(self, name: str, value: str) -> None:
        """Change a setting of the session."""
        self._environment.getConfig().set(name, value)

    def run(self, statement: str) -> Any:
        """Run a statement."""
        return self._environment.executeSql(statement)

    def table(
        self,
        topic: str,
        format: str,
        columns: dict[str, str],
        key: tuple[str, ...],
        options: dict[str, str],
        metadata: str = "",
    ) -> str:
        """Declare a topic as a table that ends at the messages which are there now.

        Returns:
            The table's name.
        """
        given = {
            "properties.isolation.level": "read_committed",
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            **options,
        }
        return self._declared(topic, format, columns, key, given, metadata)

    def sink(
        self, topic: str, format: str, columns: dict[str, str], options: dict[str, str]
    ) -> str:
        """Declare a topic as a table that is written.

        Returns:
            The table's name.
        """
        return self._declared(topic, format, columns, (), options)

    def _declared(
        self,
        topic: str,
        format: str,
        columns: dict[str, str],
        key: tuple[str, ...],
        options: dict[str, str],
        metadata: str = "",
    ) -> str:
        """Declare a topic as a table; its name."""
        self._tables += 1
        name = f"t{self._tables}"
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self._servers,
            "format": format,
            **options,
        }
        words = [f"`{column}` {kind}" for column, kind in columns.items()]
        words += [metadata] if metadata else []
        if key:
            words.append(f"PRIMARY KEY ({', '.join(f'`{c}`' for c in key)}) NOT ENFORCED")
        settings = ", ".join(f"'{option}'='{value}'" for option, value in given.items())
        self.run(f"CREATE TABLE {name} ({', '.join(words)}) WITH ({settings})")
        return name

    def copy(
        self, table: str, topic: str, columns: dict[str, str], key: str, conflict: str = ""
    ) -> None:
        """Write a table into a topic by its key alone, and wait until that is done.

        Args:
            table: that is read.
            topic: that is written.
            columns: of both.
            key: the column whose value tells rows apart in the topic.
            conflict: what is done with rows of one key, where Flink needs a setting.
        """
        self._tables += 1
        words = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        given = {
            "connector": "upsert-kafka",
            "topic": topic,
            "properties.bootstrap.servers": self._servers,
            "key.format": "json",
            "value.format": "json",
        }
        settings = ", ".join(f"'{option}'='{value}'" for option, value in given.items())
        target = f"t{self._tables}"
        self.run(
            f"CREATE TABLE {target} ({words}, PRIMARY KEY (`{key}`) NOT ENFORCED) WITH ({settings})"
        )
        job = self.run(f"INSERT INTO {target} SELECT * FROM {table} {conflict}")
        getattr(job, "await")()  # a word of Python's own

    def write(self, source: str, expressions: dict[str, str], sinks: list[str]) -> None:
        """Write the changes of one table into others, and wait until all are there.

        Args:
            source: the table that is read, once.
            expressions: SQL expression by column of the sinks.
            sinks: the tables that are written.
        """
        words = ", ".join(expressions.values())
        every = self._environment.createStatementSet()
        for sink in sinks:
            every.addInsertSql(f"INSERT INTO {sink} SELECT {words} FROM {source}")
        getattr(every.execute(), "await")()  # a word of Python's own

    def newest(self, query: str, columns: dict[str, str]) -> Reading:
        """Read a query that numbers rows, every value as a text; bytes as Base64.

        Flink does not plan such a query where its rows are made into one value, as `read` does.
        """
        texts = ", ".join(
            f"`{column}`" if kind == "BYTES" else f"CAST(`{column}` AS STRING)"
            for column, kind in columns.items()
        )
        reading = Reading()
        found = self.run(f"SELECT {texts} FROM ({query})").collect()
        while found.hasNext():
            row = found.next()
            fields = [row.getField(place) for place in range(len(columns))]
            values = (
                base64.b64encode(field).decode() if isinstance(field, bytes) else field
                for field in fields
            )
            _apply(reading, row.getKind().shortString(), tuple(values))
        return reading

    def read(self, table: str, columns: dict[str, str], where: str = "TRUE") -> Reading:
        """Read a table to its end, every value as a text; bytes as Base64."""
        texts = ", ".join(
            f"`{column}`" if kind == "BYTES" else f"CAST(`{column}` AS STRING)"
            for column, kind in columns.items()
        )
        reading = Reading()
        query = f"SELECT JSON_ARRAY({texts} NULL ON NULL) FROM {table} WHERE {where}"
        try:
            found = self.run(query).collect()
            while found.hasNext():
                row = found.next()
                _apply(reading, row.getKind().shortString(), tuple(json.loads(row.getField(0))))
        except Py4JJavaError as error:
            reading.error = java_reason(error)
        return reading


def _apply(reading: Reading, kind: str, row: Row) -> None:
    reading.changes.append((kind, row))
    if kind in ("+I", "+U"):
        reading.rows[row] += 1
    elif not reading.rows[row]:
        reading.strays.append((kind, row))
    else:
        reading.rows[row] -= 1
