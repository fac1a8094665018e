"""Sends headers whose names are any bytes, which the Python client of Kafka cannot."""

from __future__ import annotations

from ctypes import (
    CDLL,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_ssize_t,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path

_TOPIC, _PARTITION, _VALUE, _HEADERS, _END = 1, 3, 4, 10, 0
"""What `rd_kafka_producev` names its arguments by (rd_kafka_vtype_t in librdkafka's rdkafka.h)."""


def send_raw_headers(servers: str, topic: str, messages: list[list[bytes]]) -> None:
    """Send messages to partition 0, each given by the names of its headers."""
    library = CDLL(_loaded())
    for call in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, call).restype = c_void_p
    reason = create_string_buffer(512)
    conf = c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), reason, 512)
    library.rd_kafka_conf_set(conf, b"log_level", b"0", reason, 512)
    producer = c_void_p(library.rd_kafka_new(0, conf, reason, 512))
    for names in messages:
        headers = c_void_p(library.rd_kafka_headers_new(c_size_t(len(names))))
        for name in names:
            size = c_ssize_t(len(name))
            library.rd_kafka_header_add(headers, name, size, b"v", c_ssize_t(1))
        arguments = (_TOPIC, c_char_p(topic.encode()), _PARTITION, c_int32(0), _HEADERS, headers)
        value = (_VALUE, b"v", c_size_t(1))
        assert library.rd_kafka_producev(producer, *arguments, *value, c_int(_END)) == 0
    assert library.rd_kafka_flush(producer, 10_000) == 0
    library.rd_kafka_destroy(producer)


def _loaded() -> str:
    """The librdkafka that the client came with."""
    import confluent_kafka.cimpl  # noqa: F401 - loads it

    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in maps if "librdkafka" in line)
