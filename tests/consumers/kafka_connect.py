"""Kafka Connect's converters and Debezium's transformation, as a sink connector has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.consumers.sources import Published


class Connect:
    """What a sink connector of Kafka Connect sees behind ExtractNewRecordState.

    Args:
        gateway: a Java machine with Debezium's jars.
        keys: the converter of keys, configured.
        values: that of values.
    """

    def __init__(self, gateway: Any, keys: Any, values: Any) -> None:
        jvm = gateway.jvm
        self._keys, self._values = keys, values
        self._record = jvm.org.apache.kafka.connect.sink.SinkRecord
        self._shown = jvm.org.apache.kafka.connect.json.JsonConverter()
        self._shown.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, False)
        self._newest = jvm.io.debezium.transforms.ExtractNewRecordState()
        self._newest.configure({"add.fields": "op,source.table"})

    @classmethod
    def of_json(cls, gateway: Any) -> Connect:
        """Behind Kafka Connect's own JsonConverter."""
        keys = gateway.jvm.org.apache.kafka.connect.json.JsonConverter()
        keys.configure({"schemas.enable": "true", "decimal.format": "NUMERIC"}, True)
        values = gateway.jvm.org.apache.kafka.connect.json.JsonConverter()
        values.configure({"schemas.enable": "true"}, False)
        return cls(gateway, keys, values)

    @classmethod
    def of_avro(cls, gateway: Any, registry: str) -> Connect:
        """Behind Apicurio's AvroConverter, which reads the framing of Confluent's."""
        configuration = {
            "apicurio.registry.url": registry,
            "apicurio.registry.as-confluent": "true",
            "apicurio.registry.use-id": "contentId",
            "apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
            "apicurio.registry.headers.enabled": "false",
        }
        made = []
        for is_key in (True, False):
            converter = gateway.jvm.io.apicurio.registry.utils.converter.AvroConverter()
            converter.configure(configuration, is_key)
            made.append(converter)
        return cls(gateway, *made)

    def rows(self, topic: str, messages: Published) -> Iterator[tuple[Any, Any]]:
        """Key and row of each message, the row None where it is to be deleted."""
        for offset, (key, value) in enumerate(messages):
            keyed = self._keys.toConnectData(topic, key)
            valued = self._values.toConnectData(topic, value)
            record = self._record(
                topic, 0, keyed.schema(), keyed.value(), valued.schema(), valued.value(), offset
            )
            newest = self._newest.apply(record)
            if newest is not None:
                yield (
                    self._json(topic, newest.keySchema(), newest.key()),
                    self._json(topic, newest.valueSchema(), newest.value()),
                )

    def allowed(self, value: bytes, column: str) -> str:
        """The words of a column of ENUM or SET, as the schema of a message tells them."""
        schema = self._values.toConnectData("shop", value).schema()
        parameters = schema.field("after").schema().field(column).schema().parameters()
        return str(parameters["allowed"])

    def _json(self, topic: str, schema: Any, value: Any) -> Any:
        """A value of Connect, its numbers as their texts."""
        made = self._shown.fromConnectData(topic, schema, value)
        return None if made is None else json.loads(made, parse_float=str, parse_int=str)
