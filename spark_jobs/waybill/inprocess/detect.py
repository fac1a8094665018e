"""Which envelope the messages of a file are in, and why.

Every envelope of the registry tries the first messages. What its decoder takes may be its own;
among those that take a message, the one whose names (or bytes) stand in it goes first. An envelope
that needs schemas which nobody named is still recognised: its decoder says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.errors import Refusal, WaybillError
from waybill.inprocess.shapes import CLEAR, Shapes, choices, names_in, shapes_of
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from waybill.protocol import Decoder, Envelope
    from waybill.records import Message
    from waybill.tables import TableRules

MESSAGES = 200
"""Messages that are looked at, if nothing else is asked for."""

BYTES = 1 << 20
"""Bytes of messages that are looked at; the first message is, whatever its size."""

FOREIGN_KINDS = frozenset({"json", "binary", "shape", "operation"})
"""Refusals of what is not a message of the envelope; others are of its messages that are bad."""

FEW = 10
"""One in so many messages may be of another kind without the file being a mixture."""

UNNAMED = {"table": "{topic}", "values": "json"}
"""Settings by which rows are read that name no table; the engines that write them write values of
JSON."""

_SCHEMA_SETTINGS = ("schemas", "registry", "schema")


@dataclass
class Trial:
    """What one envelope made of the messages.

    Attributes:
        envelope: its declaration.
        settings_found: without these its decoder refuses the messages; found by trying.
        needs: settings that its messages cannot be read without, by name.
        read: how many messages its decoder took.
        known: how many it would take if more were declared, or that hold a bad value.
        refused: how many are none of its own.
        best: how many messages it fits better than any other, or as well.
        clear: how many are clearly its own and are refused nevertheless.
        misread: how many messages it takes whose names, read as columns, are another's.
        most: how many names or bytes spoke for it in a message, at most.
        seen: names and bytes that speak for it, and in how many messages each was found.
        unseen: names of its own that are missing, likewise.
        against: why messages were not read: kind, sentence and count of the first reason each.
    """

    envelope: Envelope
    settings_found: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    read: int = 0
    known: int = 0
    refused: int = 0
    best: int = 0
    clear: int = 0
    misread: int = 0
    most: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    against: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The envelope's name."""
        return self.envelope.name

    @property
    def taken(self) -> int:
        """Messages that it knows as its own."""
        return self.read + self.known

    @property
    def doubtful(self) -> bool:
        """Whether nothing was read, and what spoke for it may be chance: one byte, and no pattern.

        Messages of one topic have few schemas, so that their first bytes repeat.
        """
        return not self.read and self.most == 1 and max(self.seen.values(), default=0) < 2


@dataclass
class EnvelopeVerdict:
    """What the messages are.

    Attributes:
        trials: every envelope, the best first.
        named: the envelopes that the messages are in.
        mixed: whether each of them has messages that the others do not fit.
        messages: how many messages were judged.
        empty: how many had no value, which says nothing.
        unknown: how many messages fit no envelope.
    """

    trials: list[Trial]
    named: list[Trial]
    mixed: bool
    messages: int
    empty: int
    unknown: int

    @property
    def weak(self) -> bool:
        """Whether nothing but a decoder that takes nearly everything speaks for what is named."""
        return bool(self.named) and not any(trial.seen for trial in self.named)


def sample_of(messages: Iterator[Message], count: int = MESSAGES) -> list[Message]:
    """The messages that are looked at."""
    found, size = [], 0
    for message in islice(messages, count):
        found.append(message)
        size += len(message.value or b"")
        if size >= BYTES:
            break
    return found


def detect(
    messages: Sequence[Message],
    rules: TableRules,
    settings: Mapping[str, Any] | None = None,
) -> EnvelopeVerdict:
    """Judge messages.

    Where messages are clearly of an envelope whose decoder refuses them, its other settings are
    tried, one at a time. Where nothing speaks for what takes them, they may be rows that name no
    table, as other engines write them.

    Args:
        messages: some of a file.
        rules: declared tables.
        settings: settings for the envelopes that have them.
    """
    given = dict(settings or {})
    verdict = _judged(messages, rules, given)
    if verdict.named and not verdict.weak:
        return verdict
    for trial in verdict.trials:
        for choice in choices(trial.envelope.decode_settings) if trial.clear else ():
            other = _judged(messages, rules, {**choice, **given})
            # A setting that only makes the decoder refuse them for another reason is not an answer.
            if any(found.name == trial.name and found.read > trial.read for found in other.named):
                for found in other.named:
                    found.settings_found = choice if found.name == trial.name else {}
                return other
    other = _judged(messages, rules, {**UNNAMED, **given})
    if not other.named or other.weak or not all(found.read for found in other.named):
        return verdict
    for found in other.named:
        known = found.envelope.decode_settings.model_fields
        found.settings_found = {name: value for name, value in UNNAMED.items() if name in known}
    return other


def _judged(
    messages: Sequence[Message], rules: TableRules, settings: Mapping[str, Any]
) -> EnvelopeVerdict:
    judge = _EnvelopeJudge(rules, settings)
    judged = empty = 0
    for message in messages:
        if message.value is None:
            empty += 1
            judge.take_empty(message)
            continue
        judged += 1
        judge.take(message)
    return judge.verdict(judged, empty)


class _EnvelopeJudge:
    def __init__(self, rules: TableRules, settings: Mapping[str, Any]) -> None:
        self.trials: list[Trial] = []
        self._decoders: dict[str, Decoder] = {}
        self._shapes: dict[str, Shapes] = {}
        self._sets: list[frozenset[str]] = []
        for envelope in registry.all_envelopes():
            if envelope.decoder is None:
                continue
            trial = Trial(envelope)
            self.trials.append(trial)
            self._shapes[envelope.name] = shapes_of(envelope.name)
            known = envelope.decode_settings.model_fields
            given = {name: value for name, value in settings.items() if name in known}
            try:
                model = envelope.decode_settings.model_validate(given)
                self._decoders[envelope.name] = envelope.decoder(model, rules)
            except (ValidationError, WaybillError):
                trial.needs = _required(envelope)

    def take_empty(self, message: Message) -> None:
        """Let decoders see a message without value, which may be a delete."""
        for decoder in self._decoders.values():
            _attempt(decoder, message)

    def take(self, message: Message) -> None:
        """Judge a message."""
        names = names_in(message.value or b"")
        attempts: dict[str, _Attempt] = {}
        places: dict[str, _Nearness] = {}
        refusing: dict[str, _Nearness] = {}
        outsiders: dict[str, _Nearness] = {}
        for trial in self.trials:
            attempt = _attempt(self._decoders.get(trial.name), message)
            likeness = self._shapes[trial.name].likeness(message, names, attempt.row)
            if not attempt.read and attempt.own and not likeness.found:
                # What nothing speaks for and cannot be read is not its own, whatever is wrong.
                attempt = attempt._replace(own=False)
            place = _Nearness(likeness.found, -likeness.missing, attempt.read)
            if self._count(trial, attempt):
                attempts[trial.name], places[trial.name] = attempt, place
                trial.most = max(trial.most, likeness.found)
                trial.seen.update(likeness.seen)
                trial.unseen.update(likeness.unseen)
            else:
                refusing[trial.name] = place
                if likeness.clear:
                    outsiders[trial.name] = place
        best = max(places.values(), default=NOWHERE)
        clearer = _foremost(
            {n: place for n, place in outsiders.items() if _is_clearer(place, best)}
        )
        winners = set() if clearer else _foremost(places)
        misread: set[str] = set()
        if len(winners) > 1 or not best.found:
            misread = {name for name in winners if self._misread(attempts[name])}
        if misread and misread == winners and not best.found:
            # Nothing stands there but names of an envelope that refuses the message.
            clearer, winners = _foremost(refusing), set()
        winners = winners - misread or winners
        for trial in self.trials:
            trial.misread += trial.name not in winners and trial.name in misread
            trial.clear += trial.name in clearer
            trial.best += trial.name in winners
        self._sets.append(frozenset(winners))

    def _misread(self, attempt: _Attempt) -> bool:
        """Whether what a decoder took for columns are the names that an envelope writes."""
        return any(
            len(shape & attempt.columns) >= CLEAR
            for shapes in self._shapes.values()
            for shape in shapes.all
        )

    def _count(self, trial: Trial, attempt: _Attempt) -> bool:
        """Take an attempt into the account; whether the message is one of the envelope's own."""
        refusal = attempt.refusal
        if refusal is not None:
            sentence, count = trial.against.get(refusal.kind, (refusal.sentence, 0))
            trial.against[refusal.kind] = sentence, count + 1
            if attempt.own and refusal.kind == "schema":
                trial.needs = trial.needs or _lacking(trial.envelope)
        trial.read += attempt.read
        trial.known += attempt.own and not attempt.read
        trial.refused += not attempt.own
        return attempt.own

    def verdict(self, judged: int, empty: int) -> EnvelopeVerdict:
        """What it comes to."""
        doubtful = {trial.name for trial in self.trials if trial.doubtful}
        for trial in self.trials:
            trial.best *= trial.name not in doubtful
        self._sets = [names - doubtful for names in self._sets]
        unknown = sum(not names for names in self._sets)
        order = sorted(self.trials, key=lambda t: (-t.best, -t.clear, -t.taken))
        named, mixed = self._named(order, judged)
        return EnvelopeVerdict(order, named, mixed, judged, empty, unknown)

    def _named(self, order: list[Trial], judged: int) -> tuple[list[Trial], bool]:
        """The envelopes of the messages, and whether they are a mixture.

        One envelope that fits nearly all messages is the answer, and so are several that fit the
        same ones equally well. If there is none, those that nearly all messages need together are.
        """
        left = [names for names in self._sets if names]
        if 2 * len(left) < judged or not left:
            return [], False
        chosen: list[Trial] = []
        first: list[Trial] = []
        while not chosen or (len(left) > 1 and len(left) * FEW > len(self._sets)):
            counts = Counter(name for names in left for name in names)
            most = max(counts.values())
            best = next(trial for trial in order if counts[trial.name] == most)
            # As many messages, but others, make a mixture.
            equal = [
                trial
                for trial in order
                if all((trial.name in names) == (best.name in names) for names in left)
            ]
            first = first or equal
            chosen += equal
            left = [names for names in left if not any(trial.name in names for trial in equal)]
        return chosen, len(chosen) > len(first)


class _Nearness(NamedTuple):
    """How near a message is to an envelope; the nearest is the largest.

    Attributes:
        found: how many of its names stand there.
        lacking: minus how many do not.
        read: whether its decoder takes the message.
    """

    found: int
    lacking: int
    read: bool


NOWHERE = _Nearness(0, 0, False)


def _foremost(places: Mapping[str, _Nearness]) -> set[str]:
    """The names of the nearest."""
    best = max(places.values(), default=NOWHERE)
    return {name for name, place in places.items() if place == best}


def _is_clearer(outsider: _Nearness, best: _Nearness) -> bool:
    """Whether a message that an envelope refuses is rather its own than that of the best one.

    Of two that as many names speak for it is not what is missing that tells, but which can read it:
    a heartbeat may have next to none of the names of other messages.
    """
    return outsider.found > best.found if best.read else outsider > best


class _Attempt(NamedTuple):
    """What a decoder made of a message.

    Attributes:
        read: whether it took it, or some of its rows.
        own: whether it is a message of the envelope, read or not.
        refusal: why not all of it was taken.
        row: whether it holds a row, None if that is not known.
        columns: names of the columns of its rows.
    """

    read: bool
    own: bool
    refusal: Refusal | None = None
    row: bool | None = None
    columns: frozenset[str] = frozenset()


def _attempt(decoder: Decoder | None, message: Message) -> _Attempt:
    """Let a decoder try a message; None is one that could not be made without settings."""
    if decoder is None:
        return _Attempt(False, True)
    try:
        changes = decoder.decode(message)
    except WaybillError as error:
        why = error if isinstance(error, Refusal) else Refusal("shape", str(error))
        return _Attempt(False, why.kind not in FOREIGN_KINDS, why)
    bad = [
        Refusal(change.reason_kind or "shape", change.reason or "")
        for change in changes
        if change.outcome == "refused"
    ]
    refusal = next(iter(bad), None)
    if refusal is not None and len(bad) == len(changes):
        # A damaged row in front does not make the others foreign.
        refusal = next((one for one in bad if one.kind not in FOREIGN_KINDS), refusal)
        return _Attempt(False, refusal.kind not in FOREIGN_KINDS, refusal)
    columns = {name for change in changes for name in change.schema.names}
    row = any(change.operation in ROW_OPERATIONS for change in changes)
    return _Attempt(True, True, refusal, row, frozenset(columns))


def _required(envelope: Envelope) -> tuple[str, ...]:
    """Settings that an envelope cannot do without."""
    fields = envelope.decode_settings.model_fields
    return tuple(n for n, f in fields.items() if f.is_required()) or _lacking(envelope)


def _lacking(envelope: Envelope) -> tuple[str, ...]:
    """Settings that tell an envelope its schemas; `tables` where it has none."""
    fields = envelope.decode_settings.model_fields
    return tuple(name for name in _SCHEMA_SETTINGS if name in fields) or ("tables",)
