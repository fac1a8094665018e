"""What the pages of refused messages show."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted
from waybill.inprocess.detect import detect
from waybill.overview.refusals import first_refusals, history_at, message_at
from waybill.records import Message
from waybill_airflow.web.airflow_runs import DagFacts, dag_facts
from waybill_airflow.web.condition import Step, quarantine_steps
from waybill_airflow.web.form import Field, form_fields
from waybill_airflow.web.lake_reading import read_lake

if TYPE_CHECKING:
    from waybill.inprocess.detect import Trial
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

LIST = 100
"""So many refusals a page lists."""

TEXT_BYTES, HEX_BYTES = 64 << 10, 1 << 10
"""How much of a message a page shows."""

_ROW = 16
"""Bytes in a line of hex."""

_BYTE = re.compile(r"(?:\(byte |\bat byte )(\d+)(?! of a text)")
"""How a reason names the byte of the message at which it goes wrong."""

_CHARACTER = re.compile(r"\(char (\d+)\)")
"""How one names the character."""

_SHORT = re.compile(r"truncated|unexpected end")
"""What a reason says of a message that ends too early."""

_NAME = re.compile(r"column '([^']+)'|`\$[^`]*?\.(\w+)(?:\[[^`.]*\])*`")
"""How one names a column or, by its path, a field."""

ENDS = "← the message ends here"


class QuarantineView(NamedTuple):
    """The page that lists refused messages.

    Attributes:
        name: of the migration.
        rows: the first that were asked for, see `waybill.overview.refusals`.
        more: whether there are others.
        batch: which batch was asked for; empty for all.
        kind: which class of reasons; empty for all.
        table: which source table; empty for all.
        steps: what can be done about them.
        may_trigger: whether the user may start runs.
        fields: of the trigger form.
        paused: whether the DAG is paused, so that a run would wait.
    """

    name: str
    rows: list[dict[str, Any]]
    more: bool
    batch: str
    kind: str
    table: str
    steps: list[Step]
    may_trigger: bool
    fields: list[Field]
    paused: bool


class Opinion(NamedTuple):
    """What an envelope says of a message: its name, whether it would read it, and why not."""

    envelope: str
    reads: bool
    why: str


class HexLine(NamedTuple):
    """Bytes in hex: where they stand, their digits and characters, and which are at fault."""

    at: str
    digits: list[str]
    characters: list[str]
    fault: range


class MessageView(NamedTuple):
    """The page of a refused message.

    Attributes:
        name: of the migration.
        place: topic, partition and offset with slashes between.
        history: what became of it, batch by batch.
        state: that in a sentence.
        text: the value in three parts: up to the fault, the fault, behind it; None for none.
        lines: bytes around the fault, or the first.
        size: of the value in bytes; None for a tombstone.
        key: the message key as text.
        opinions: what each known envelope says of it, those that would read it first.
        command: prints the message with its exact bytes.
    """

    name: str
    place: str
    history: list[dict[str, Any]]
    state: str
    text: tuple[str, str, str] | None
    lines: list[HexLine]
    size: int | None
    key: str | None
    opinions: list[Opinion]
    command: str


def quarantine_view(
    spec: Migration, batch: str, kind: str, table: str, may_trigger: bool
) -> QuarantineView:
    """The page that lists refused messages.

    Args:
        spec: the migration.
        batch: of this batch alone; empty for all.
        kind: of this class of reasons alone; empty for all.
        table: of this source table alone; empty for all.
        may_trigger: whether the user may start runs.

    Raises:
        WaybillError: the lake cannot be read.
    """
    asked = {name: [value] for name, value in (("batch", batch), ("reason_kind", kind)) if value}

    def first(lake: History) -> list[dict[str, Any]]:
        return first_refusals(lake, asked, LIST + 1, table or None)

    rows = read_lake(spec, first, spec.command("quarantine", "list", "FILE"))
    facts = dag_facts([spec.name]).get(spec.name, DagFacts())
    return QuarantineView(
        spec.name,
        rows[:LIST],
        len(rows) > LIST,
        batch,
        kind,
        table,
        # The first is this page.
        quarantine_steps(spec)[1:],
        may_trigger,
        form_fields(),
        facts.paused,
    )


def message_view(spec: Migration, topic: str, partition: int, offset: int) -> MessageView | None:
    """The page of a refused message; None where none at this place was refused.

    Raises:
        WaybillError: the lake cannot be read.
    """

    def found(lake: History) -> Any:
        history = history_at(lake, topic, partition, offset)
        if not any("reason" in row for row in history):
            return None
        return history, None if spec.masks else message_at(lake, topic, partition, offset)

    position = f"{topic}/{partition}/{offset}"
    found_there = read_lake(spec, found, spec.command("quarantine", "show", "FILE", position))
    if found_there is None:
        return None
    history, content = found_there
    key, value = content if content is not None else (None, None)
    reasons = [row["reason"] or "" for row in history if "reason" in row]
    fault = None if value is None else fault_of(value, reasons[-1])
    return MessageView(
        name=spec.name,
        place=position,
        history=history,
        state=_state(history, content is None, spec.masks),
        text=None if value is None else _text(value, fault),
        lines=[] if value is None else hex_lines(value, fault),
        size=None if value is None else len(value),
        key=None if key is None else key.decode(errors="backslashreplace"),
        opinions=_opinions(spec, Message(topic, partition, offset, None, key, value)),
        command=spec.command("quarantine", "show", "FILE", position, "--raw"),
    )


_HIDDEN = " Its bytes are not shown, because the migration masks values; they are in the archive."


def _state(history: list[dict[str, Any]], is_gone: bool, is_hidden: bool) -> str:
    tries = {row["batch"] for row in history if "reason" in row}
    newest = history[-1]
    if "reason" not in newest:
        state = f"It was refused, and batch {newest['batch']} accepted it."
    elif len(tries) > 1:
        state = f"It was refused in {counted(len(tries), 'batch', 'batches')}, and still waits."
    else:
        state = "It was refused, and waits for another try."
    if is_hidden:
        return state + _HIDDEN
    return state + (" The archive does not hold its bytes any more." if is_gone else "")


def fault_of(value: bytes, reason: str) -> range | None:
    """Which bytes of a message are at fault; None where that is not known.

    Args:
        value: the message.
        reason: why it was refused.

    Returns:
        Indices of bytes, never beyond the end; the empty range behind the last byte where the
        message ends too early.
    """
    if match := _BYTE.search(reason):
        # Of a wrong word a decoder names the byte behind it, which may be none.
        last = len(value) - 1 if "malformed" in reason else len(value)
        return _at(value, max(0, min(int(match[1]), last)))
    if _SHORT.search(reason):
        return range(len(value), len(value))
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        # Of formats that are binary this says nothing.
        return _at(value, error.start) if "UTF-8" in reason or "JSON" in reason else None
    if match := _CHARACTER.search(reason):
        return _at(value, len(text[: int(match[1])].encode()))
    if (match := _NAME.search(reason)) and value[:1] in (b"{", b"["):
        name = json.dumps(match[1] or match[2], ensure_ascii=False)
        if (found := re.search(re.escape(name) + r"\s*:", text)) is not None:
            start = len(text[: found.start()].encode())
            return range(start, start + len(name.encode()))
    return None


def _at(value: bytes, start: int) -> range:
    """The character at a byte."""
    start = min(start, len(value))
    end = min(start + 1, len(value))
    while end < len(value) and value[start] >= 0xC0 and value[end] & 0xC0 == 0x80:
        end += 1
    return range(start, end)


def _text(value: bytes, fault: range | None) -> tuple[str, str, str]:
    shown = value[:TEXT_BYTES]
    more = "" if len(shown) == len(value) else " …"
    if fault is None or fault.stop > len(shown):
        return _plain(shown), "", more
    if not fault:
        return _plain(shown[: fault.start]), ENDS, more
    before, marked, behind = shown[: fault.start], shown[fault.start : fault.stop], fault.stop
    return _plain(before), _plain(marked), _plain(shown[behind:]) + more


def _plain(data: bytes) -> str:
    """Text that shows what it is: no bytes are left out, and none steers the page."""
    text = data.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() or c in "\n\t" else escaped(c) for c in text)


def escaped(character: str) -> str:
    """A character that cannot be seen, by its code."""
    return character.encode("unicode_escape").decode()


def hex_lines(value: bytes, fault: range | None) -> list[HexLine]:
    """Some bytes of a message, sixteen a line: around the fault, or the first."""
    begin = 0 if fault is None else max(0, (fault.start - HEX_BYTES // 2) // _ROW * _ROW)
    lines = []
    for at in range(begin, min(len(value), begin + HEX_BYTES), _ROW):
        some = value[at : at + _ROW]
        marked = range(0) if fault is None else range(fault.start - at, fault.stop - at)
        characters = [chr(byte) if 32 <= byte < 127 else "." for byte in some]
        digits = [f"{byte:02x}" for byte in some]
        lines.append(HexLine(f"{at:08x}", digits, characters, marked))
    return lines


def _opinions(spec: Migration, message: Message) -> list[Opinion]:
    if message.value is None:
        return []
    trials = detect([message], spec.rules).trials
    found = [_opinion(trial) for trial in trials]
    return sorted(found, key=lambda one: (not one.reads, one.envelope != spec.source.envelope))


def _opinion(trial: Trial) -> Opinion:
    if trial.read:
        return Opinion(trial.name, True, "")
    if trial.needs:
        return Opinion(trial.name, False, f"it needs the settings {', '.join(trial.needs)}")
    why = "; ".join(sentence for sentence, _ in trial.against.values())
    return Opinion(trial.name, False, why or "the message is not one of its own")
