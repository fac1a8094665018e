"""Blanks around a message of JSON say nothing, and nothing of them is carried on."""

from __future__ import annotations

import pytest

from tests.contract.outcomes import good_streams, outcome
from tests.contract.test_bulk import READ
from waybill.envelopes import registry
from waybill.records import Message


@pytest.mark.parametrize("blanks", [(b"", b" "), (b"", b"\r\n"), (b"\t ", b""), (b" ", b"\n")])
@pytest.mark.parametrize("source", READ)
def test_blanks_around_a_message_say_nothing(source, blanks):
    """Every golden message twice, so that it is read the fast way too."""
    for messages, rules, settings in good_streams(source):
        found = []
        for first, last in (blanks, (b"", b"")):
            decoder = registry.get(source).decoder(settings, rules)  # type: ignore[misc]
            for message in messages * 2:
                if not message.value:
                    continue
                value = first + message.value + last
                spaced = Message("t", 0, message.offset, None, message.key, value, message.headers)
                made = outcome(decoder, spaced)
                if isinstance(made, tuple):
                    made = made[0]  # sentences of broken JSON tell places
                else:
                    for change in made:
                        change.message = message
                found.append(made)
        half = len(found) // 2
        assert found[:half] == found[half:]
