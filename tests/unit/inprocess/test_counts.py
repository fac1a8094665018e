"""What encoders note of changes, and how it is counted."""

from __future__ import annotations

from waybill.inprocess.counts import Account, Notes
from waybill.made_ids import WITHIN_PARTITION
from waybill.records import Message


def _noted(*said: tuple[str, int, list[str]]) -> Account:
    """The counts after changes, each with its topic, its partition and what is noted of it."""
    account, notes = Account(), Notes()
    for offset, (topic, partition, names) in enumerate(said):
        message = Message(topic, partition, offset, None, None, None)
        notes.take(names, message, account)
        assert names == [], "the next change must not note it again"
    notes.count(account)
    return account


def test_all_changes_are_counted_whether_or_not_they_note_the_same() -> None:
    account = _noted(
        ("a", 0, ["types"]),
        ("a", 0, ["types"]),
        ("a", 0, ["types", "zone"]),
        ("a", 0, ["zone"]),
        ("a", 0, ["types", "types"]),
        ("a", 0, ["types"]),
    )
    assert account.losses == {"types": 6, "zone": 2}


def test_made_ids_are_counted_for_their_own_topic_and_partition() -> None:
    account = _noted(
        ("a", 0, [WITHIN_PARTITION]),
        ("a", 0, [WITHIN_PARTITION]),
        ("b", 0, [WITHIN_PARTITION]),
        ("b", 3, [WITHIN_PARTITION]),
        ("b", 3, [WITHIN_PARTITION]),
    )
    assert account.made_ids.within == {"a": 2, "b": 3}
    assert account.made_ids.partitions == {"a": 0, "b": None}
    assert account.losses == {}


def test_what_is_counted_once_is_not_counted_again() -> None:
    account, notes = Account(), Notes()
    notes.take(["types"], Message("a", 0, 0, None, None, None), account)
    notes.count(account)
    notes.count(account)
    notes.take(["types"], Message("a", 0, 1, None, None, None), account)
    notes.count(account)
    assert account.losses == {"types": 2}
