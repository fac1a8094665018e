"""Messages of known forms are found by them, and what is found is what scanning JSON finds."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from waybill.bulk.block import JSON, Scanned, Scanner
from waybill.bulk.candidates import MOST, Candidates
from waybill.bulk.constant_bytes import Place, Skeleton

VALUES = ["", "x", 'a"b\\c\n', "列" * 5, "long " * 20, 0, -7, 12.5, 10**25, None, True, False]


def scanned(texts: list[bytes], scanner: Scanner = JSON) -> Scanned:
    ends = np.cumsum([len(text) for text in texts])
    made = Scanned(b"".join(texts), ends - [len(text) for text in texts], ends)
    return made.scan_by(scanner)


def message(dice: random.Random, columns: list[str], changed: list[str], op: str) -> bytes:
    row: dict[str, Any] = {name: dice.choice(VALUES) for name in columns}
    document: dict[str, Any] = {"op": op, "row": row, "types": dict.fromkeys(columns, "text")}
    if changed:
        document["old"] = [{name: dice.choice(VALUES) for name in changed}]
    document["n"] = dice.randrange(10**6)
    document["table"] = dice.choice(["t", "t", "t", "u"])
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def damaged(dice: random.Random, text: bytes) -> bytes:
    at = dice.randrange(len(text))
    return dice.choice(
        [
            text[:at],
            text[:at] + bytes([dice.randrange(256)]) + text[at + 1 :],
            text + b" ",
            text.replace(b'"n":', b'"n":-0', 1),
            text.replace(b":", b": ", 1),
            b"",
        ]
    )


def form_of(texts: Scanned, number: int, dice: random.Random) -> Skeleton:
    """A form in which most values may differ, some of them in kind."""
    place = Place(texts, number)
    free = {slot for slot in range(len(place.kinds)) if dice.random() < 0.6}
    allowed = [
        0b11111110 if slot in free and dice.random() < 0.8 else 1 << kind
        for slot, kind in enumerate(place.kinds)
    ]
    return Skeleton(place, allowed, free)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_found_by_forms_is_what_is_there(seed):
    dice = random.Random(seed)
    columns = dice.sample(["a", "b", "op", "old", "列", "a b"], dice.randrange(1, 5))
    looks = [
        (dice.sample(columns, dice.randrange(len(columns) + 1)), dice.choice(["c", "u", "d"]))
        for _ in range(6)
    ]
    sound = [message(dice, columns, *dice.choice(looks)) for _ in range(80)]
    texts = [damaged(dice, text) if dice.random() < 0.15 else text for text in sound]
    plain = scanned(texts)
    candidates = Candidates()
    known = scanned(sound)
    for number in dice.sample(range(len(sound)), 12):
        candidates.add(form_of(known, number, dice), int(known.forms[number]))
    by_forms = scanned(texts, candidates)
    assert by_forms.counts.tolist() == plain.counts.tolist()
    everyone = np.arange(len(texts))
    fits = np.array([form.fits(plain, everyone) for form in candidates.forms])
    found = by_forms.known
    if found is not None:
        assert (found >= 0).tolist() == fits.any(axis=0).tolist()
    for number, count in enumerate(plain.counts.tolist()):
        if count < 0:
            continue
        assert by_forms.forms[number] == plain.forms[number]
        for name in ("starts", "stops", "kinds"):
            one, other = getattr(by_forms, name), getattr(plain, name)
            assert one[number, :count].tolist() == other[number, :count].tolist()
        if found is not None and found[number] >= 0:
            assert fits[found[number], number]


def test_most_messages_are_found_by_their_forms():
    """Otherwise the test above would say nothing."""
    dice = random.Random(1)
    texts = [message(dice, ["a", "b"], ["b"], "u") for _ in range(50)]
    known = scanned(texts)
    kinds = [0b11111110] * int(known.counts[0])
    candidates = Candidates()
    candidates.add(Skeleton(Place(known, 0), kinds, range(len(kinds))), int(known.forms[0]))
    by_forms = scanned(texts, candidates)
    assert by_forms.counts.tolist() == known.counts.tolist()
    assert by_forms.known is not None
    assert (by_forms.known == 0).all()


def test_what_stands_apart_is_not_found():
    texts = [b'{"a":1}', b'{"a":2}', b'{"a":3}']
    known = scanned(texts)
    candidates = Candidates()
    candidates.add(Skeleton(Place(known, 0), [0b1000], [0]), int(known.forms[0]))
    ends = np.cumsum([len(text) for text in texts])
    apart = np.array([False, True, False])
    by_forms = Scanned(b"".join(texts), ends - 7, ends, apart)
    by_forms.scan_by(candidates)
    assert by_forms.counts.tolist() == [1, -1, 1]
    assert by_forms.known is not None
    assert by_forms.known.tolist() == [0, -1, 0]


def test_no_more_forms_than_can_be_tried():
    known = scanned([b'{"a":1}'])
    candidates = Candidates()
    for _ in range(MOST + 5):
        candidates.add(Skeleton(Place(known, 0), [0b1000], [0]), 7)
    assert len(candidates.forms) == MOST
    assert JSON.paths(b'{"a":1}') == candidates.paths(b'{"a":1}')


def test_a_message_of_more_values_than_any_form_is_found_beside_those_of_known_forms():
    """Places are kept for as many values as known forms have, until another message comes."""
    few = [b'{"a":%d}' % n for n in range(6)]
    many = json.dumps({f"c{n}": n for n in range(40)}, separators=(",", ":")).encode()
    candidates = Candidates()
    known = scanned(few)
    candidates.add(Skeleton(Place(known, 0), [0b1000], [0]), int(known.forms[0]))
    assert scanned(few, candidates).starts.shape == (6, 1)
    plain, by_forms = (scanned([*few, many], scanner) for scanner in (JSON, candidates))
    assert by_forms.known is not None
    assert by_forms.known.tolist() == [0] * 6 + [-1]
    for name in ("starts", "stops", "kinds"):
        one, other = getattr(by_forms, name), getattr(plain, name)
        assert one[:, 0].tolist() == other[:, 0].tolist()
        assert one[6, :40].tolist() == other[6, :40].tolist()
