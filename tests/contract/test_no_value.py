"""Messages without a value among others: what is skipped in bulk is skipped one by one too."""

from __future__ import annotations

import tempfile
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.contract.bulk_streams import golden, plain
from tests.contract.test_exact_is_bulk import read_both_ways
from waybill.envelopes import registry
from waybill.records import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.bulk_streams import Stream

NAMES = registry.names()
SKIPPING = ["debezium-avro", "debezium-json"]
"""Envelopes that skip every message without a value in bulk."""


def with_empty_messages(messages: list[Message]) -> Iterator[Message]:
    """Behind every other message one without a value: of the same key, or of all kinds."""
    for number, message in enumerate(messages):
        yield message
        if number % 2:
            continue
        key, headers, offset = message.key, None, 10**12 + number
        match number // 2 % 6:
            case 1:
                key = None
            case 2:
                headers = [("kind", b"\xff")]
            case 3:
                offset = -1 - number
            case 4:
                key = b"\xff{"
            case 5:
                offset = 2**63 - 1 - number
        time = None if number % 3 else 1_700_000_000_000 + number
        yield Message(message.topic, number % 4, offset, time, key, None, headers)


def streams(name: str, folder: str) -> Iterator[Stream]:
    for stream in chain(golden(name, folder), plain(name, folder)):
        yield stream._replace(messages=list(with_empty_messages(stream.messages)))


@pytest.mark.parametrize("name", NAMES)
def test_reading(name):
    with tempfile.TemporaryDirectory() as folder:
        for stream in streams(name, folder):
            read_both_ways(name, stream)


@pytest.mark.parametrize("name", SKIPPING)
def test_they_go_in_bulk(name):
    with tempfile.TemporaryDirectory() as folder:
        for stream in streams(name, folder):
            empty = [message for message in stream.messages if message.value is None]
            apart = sum(message.offset < 0 for message in empty)
            assert read_both_ways(name, stream).in_bulk >= len(empty) - apart
