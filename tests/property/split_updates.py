"""Histories whose updates are two messages, cut into files and batches in every way there is.

The messages are those of the tiny envelope of `tests/spark`. A key change sends its halves to two
partitions, because each goes where its own key belongs; so one may come long before the other,
and either one first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Choose = Callable[[int], int]

LOST = 8
"""One half of every so many updates never comes."""


@dataclass
class SplitHistory:
    """A small database, and what it sent.

    Attributes:
        rows: by key as a JSON text: what the changes make of the table that came whole.
        messages: in the order of the source.
        alone: half and key of each half whose partner is lost.
    """

    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    messages: list[dict] = field(default_factory=list)
    alone: set[tuple[str, str]] = field(default_factory=set)


def key_of(row: dict[str, str]) -> str:
    return f'{{"id":"{row["id"]}"}}'


def split_history(choose: Choose, steps: int, first: int = 0, keys: int = 4) -> SplitHistory:
    """Inserts, updates with and without another key, and deletes.

    Args:
        choose: gives a number from 0 to below n.
        steps: how many statements.
        first: lowest key and, times a thousand, lowest sequence id.
        keys: how many keys there are.
    """
    made = SplitHistory()
    there: dict[int, dict[str, str]] = {}
    for step in range(steps):
        sequence = first * 1000 + step
        what = choose(5)
        number = first + choose(keys)
        if number not in there:
            there[number] = {"id": str(number), "v": f"{sequence}"}
            made.messages.append({"op": "insert", "seq": sequence, "row": there[number]})
            made.rows[key_of(there[number])] = there[number]
        elif what == 0:
            row = there.pop(number)
            made.messages.append({"op": "delete", "seq": sequence, "row": row})
            made.rows.pop(key_of(row), None)
        else:
            free = [n for n in range(first, first + keys) if n not in there]
            target = free[choose(len(free))] if free and what < 3 else number
            old = there.pop(number)
            there[target] = new = {"id": str(target), "v": f"{sequence}"}
            _update(choose, made, sequence, old, new)
    return made


def _update(choose: Choose, made: SplitHistory, sequence: int, old: dict, new: dict) -> None:
    lost = choose(2 * LOST)
    for number, (which, row) in enumerate((("before", old), ("after", new))):
        if lost == number:
            continue
        made.messages.append({"op": "update", "half": which, "seq": sequence, "row": row})
        if lost == 1 - number:
            made.alone.add((which, key_of(row)))
    if lost > 1:
        made.rows.pop(key_of(old), None)
        made.rows[key_of(new)] = new


def cut(
    choose: Choose, histories: list[SplitHistory], batches: int, files: int
) -> list[list[list[dict]]]:
    """The messages of several histories in batches of files: in any order, some of them twice."""
    found: list[list[list[dict]]] = [[[] for _ in range(files)] for _ in range(batches)]
    for history in histories:
        sent = list(history.messages)
        if sent:
            sent += [sent[choose(len(sent))] for _ in range(choose(6))]
        for i in range(len(sent) - 1, 0, -1):
            j = choose(i + 1)
            sent[i], sent[j] = sent[j], sent[i]
        for message in sent:
            found[choose(batches)][choose(files)].append(message)
    return found
