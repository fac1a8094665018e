"""A message that is refused tells nothing of its table: later ones are read as if it never came."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.test_bulk import DIGITS, READ, damaged, settings_for, stream
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message

if TYPE_CHECKING:
    from waybill.tables import TableRules

_NAME = re.compile(rb'"[a-zA-Z0-9_ :%]+":')
_DIGIT = re.compile(rb"[0-9]")


def misled(dice: random.Random, line: bytes) -> bytes:
    """A line with a column, or a field, of a name that no other one has, and with a bad number."""
    name = dice.choice(_NAME.findall(line))
    line = line.replace(name, b'"new %d":' % dice.randrange(3), dice.randrange(3))
    place = dice.choice([found.start() for found in _DIGIT.finditer(line)])
    return line[:place] + dice.choice(DIGITS) + line[place + 1 :]


def read(
    source: str, messages: list[Message], rules: TableRules
) -> tuple[dict[int, list[Any]], set[int]]:
    """The changes of the messages that are taken, and the offsets of those that are refused."""
    decoder: Any = registry.get(source).decoder(settings_for(source), rules)  # type: ignore[misc]
    taken: dict[int, list[Any]] = {}
    refused: set[int] = set()
    for message in messages:
        try:
            changes = decoder.decode(message)
        except Refusal:
            refused.add(message.offset)
            continue
        taken[message.offset] = [(change.schema.id, change) for change in changes]
    return taken, refused


@pytest.mark.parametrize("source", READ)
@properties(20)
@given(seed=st.integers(0, 2**32))
def test_a_refused_message_tells_nothing_of_its_table(source, seed):
    dice = random.Random(seed)
    good, rules = stream(source, dice, 20)
    lines: list[bytes] = []
    for line in good:
        lines += damaged(dice, line)
        if dice.random() < 0.3:
            lines.append(misled(dice, line))
    messages = [Message("topic", 0, i, None, None, line) for i, line in enumerate(lines)]
    taken, refused = read(source, messages, rules)
    alone, _ = read(source, [m for m in messages if m.offset not in refused], rules)
    assert taken == alone
