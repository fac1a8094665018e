"""What is reported while a task sends: how many of how many, when there is something new."""

from __future__ import annotations

import time

from waybill.errors import UnreachableError
from waybill.publish.kafka import progress
from waybill.publish.kafka.ledger import LedgerEntry, Owner
from waybill.publish.kafka.sender import Group, Sending

SENDING = Sending(
    Owner("demo", "out"), {}, "topic", 1, None, "ledger", (Group("b1", 600), Group("b2", 500))
)


def entry(messages: int) -> LedgerEntry:
    return LedgerEntry(
        topic="topic",
        messages=messages,
        tombstones=0,
        bytes=1,
        sha256="",
        first="",
        last="",
        offsets={},
        of=600,
    )


def lines_of(monkeypatch, looks, before: int = 0) -> list[str]:
    """What is reported when the ledger is found as `looks` say, one after another."""
    said: list[str] = []
    rest = iter(looks)
    seen = []

    def read_entries(*_: object):
        found = next(rest, None)
        seen.append(found)
        if isinstance(found, Exception):
            raise found
        return found or {}

    monkeypatch.setattr(progress, "read_entries", read_entries)
    limit = time.monotonic() + 20
    with progress.reporting_progress(
        SENDING, before, lambda text, *args: said.append(text % args), 0.001
    ):
        while len(seen) <= len(looks) and time.monotonic() < limit:
            time.sleep(0.001)
    count = len(said)
    time.sleep(0.05)
    assert len(said) == count, "told after the end"
    return said


def test_what_is_new_is_reported_once(monkeypatch):
    first = {("b1", 0): entry(250), ("b0", 0): entry(9)}
    second = {**first, ("b1", 1): entry(350), ("b2", 0): entry(20)}
    assert lines_of(monkeypatch, [{}, first, first, second]) == [
        "publish: out: 250 of 1100 messages sent",
        "publish: out: 620 of 1100 messages sent",
    ]
    assert lines_of(monkeypatch, [first], before=250) == []


def test_trouble_is_reported_and_looking_goes_on(monkeypatch):
    looks = [UnreachableError("no broker answers"), {("b1", 0): entry(250)}]
    assert lines_of(monkeypatch, looks) == [
        "publish: out: how much was sent is not known: no broker answers",
        "publish: out: 250 of 1100 messages sent",
    ]
