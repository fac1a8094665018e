"""How the messages of a sample are read: their envelope, and the settings that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waybill.cli.detect import against, for_it
from waybill.cli.drafts.evidence import Evidence, changes_of, evidence_of
from waybill.cli.drafts.yaml_text import scalar
from waybill.cli.options import check_known
from waybill.cli.output import printable
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.errors import ConfigurationError, WaybillError
from waybill.inprocess.detect import MESSAGES, EnvelopeVerdict, Trial, detect
from waybill.inprocess.job import checked_settings
from waybill.inprocess.shapes import choices

if TYPE_CHECKING:
    from waybill.cli.drafts.source_look import Look
    from waybill.protocol import Envelope
    from waybill.records import Message
    from waybill.tables import TableRules

VALUE = "value"
"""Class of refusals whose sentences name values of rows."""

ENGINE = {"table", "values"}
"""Settings that `detect` finds for rows of other engines, which name no table."""


@dataclass(frozen=True)
class Help:
    """A setting with which more of the sample is read.

    Attributes:
        name: of the setting.
        value: what it is set to.
        refused: how many rows or messages are still refused with it.
    """

    name: str
    value: Any
    refused: int


@dataclass
class SourceReading:
    """How a source is read.

    Attributes:
        envelope: its declaration.
        settings: those for reading, without the schemas.
        setting_notes: why each setting that nobody gave is set, by name.
        schemas: the schemas, or the name of the folder of them, where they are given.
        schemas_file: the file or folder that they were given by.
        why: the evidence for the envelope, in lines.
        others: other envelopes that could fit, and what speaks against each.
        doubtful: whether the choice is one that a person has to confirm, and why.
        helps: settings that would read what is refused.
        evidence: what the sample tells.
    """

    envelope: Envelope
    settings: dict[str, Any]
    setting_notes: dict[str, str] = field(default_factory=dict)
    schemas: Any = None
    schemas_file: str | None = None
    why: list[str] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)
    doubtful: str = ""
    helps: list[Help] = field(default_factory=list)
    evidence: Evidence = field(default_factory=lambda: Evidence(0))

    def all_settings(self) -> dict[str, Any]:
        """The settings for reading, with the schemas."""
        return {**self.settings, **({} if self.schemas is None else {"schemas": self.schemas})}


class NoneFits(ConfigurationError):
    """The messages are of no envelope, or of several at once."""


class Lacking(ConfigurationError):
    """Nothing of the sample can be read without something that was not given.

    Attributes:
        name: the envelope.
        needs: names of settings, any of which would do.
    """

    def __init__(self, sentence: str, name: str = "", needs: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.name = name
        self.needs = list(needs)


class SeveralFit(ConfigurationError):
    """Several envelopes fit equally well.

    Attributes:
        names: theirs.
    """

    def __init__(self, sentence: str, names: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.names = list(names)


def read(
    look: Look,
    name: str | None,
    settings: Mapping[str, Any],
    schemas: Any,
    rules: TableRules,
) -> SourceReading:
    """Find out how to read a sample.

    Args:
        look: the sample.
        name: the envelope; None to find out.
        settings: what is given of its settings.
        schemas: the schemas, where they are given.
        rules: tables that options declare.

    Raises:
        SeveralFit: several envelopes fit equally well.
        NoneFits: none fits, or the messages are a mixture.
        Lacking: something is not given without which nothing can be read.
        ConfigurationError: a setting is wrong.
    """
    given = {**settings, **({} if schemas is None else {"schemas": schemas})}
    check_known(given)
    first = detect(look.spread(MESSAGES), rules, given)
    verdict = _untied(first, look, rules, given)
    trials = {trial.name: trial for trial in verdict.trials}
    if name is None:
        name = _chosen(look, verdict)
    trial = trials.get(name) or Trial(_readable(name))
    reading = SourceReading(trial.envelope, dict(settings), schemas=schemas)
    for setting, value in trial.settings_found.items():
        if setting not in reading.settings:
            reading.settings[setting] = value
            reasons = next((t.against for t in first.trials if t.name == name), {})
            described = [_described(kind, sentence) for kind, (sentence, _) in reasons.items()]
            refused = "".join(f" ({text})" for text in described[:1])
            why = "the rows name no table" if setting in ENGINE else "without it all is refused"
            reading.setting_notes[setting] = (
                f"found by trying: {why}{'' if setting in ENGINE else refused}"
            )
    reading.why = [printable(line) for line in for_it(trial, verdict)[1:]]
    reading.others = [
        (other.name, printable(against(other)))
        for other in verdict.trials
        if other.name != name and other.taken
    ]
    if verdict.weak and any(t.name == name for t in verdict.named):
        reading.doubtful = "the only evidence is that its decoder reads the messages"
    elif all(t.name != name for t in verdict.named):
        reading.doubtful = "you named it, and the sample looks like " + (
            " or ".join(t.name for t in verdict.named) or "no known envelope"
        )
    _decode(reading, trial, look, rules)
    return reading


def _described(kind: str, sentence: str) -> str:
    """What the file may say of a refusal: those of values name some."""
    return f"refused as {kind}" if kind == VALUE else sentence


def _untied(
    verdict: EnvelopeVerdict, look: Look, rules: TableRules, given: Mapping[str, Any]
) -> EnvelopeVerdict:
    """The verdict with a setting that tells apart envelopes of which none reads anything."""
    if len(verdict.named) < 2 or verdict.mixed or any(t.read or t.needs for t in verdict.named):
        return verdict
    for choice in choices(verdict.named[0].envelope.decode_settings):
        other = detect(look.spread(MESSAGES), rules, {**choice, **given})
        if len(other.named) == 1 and other.named[0].read:
            other.named[0].settings_found = choice
            return other
    return verdict


def _chosen(look: Look, verdict: EnvelopeVerdict) -> str:
    """The one envelope of the messages; errors as `read`."""
    if verdict.messages == 0:
        message = f"{look.place}: none of its messages has a value, so nothing shows the envelope"
        raise ConfigurationError(f"{message}; name it with --envelope")
    if look.foreign is not None and (not verdict.named or verdict.weak):
        raise ConfigurationError(f"{look.place} holds no messages: it is {look.foreign}")
    named = [trial.name for trial in verdict.named]
    if not named:
        raise NoneFits(_none_fits(look, verdict.trials, verdict.messages))
    if verdict.mixed:
        counts = " and ".join(f"{t.best} {t.name}" for t in verdict.named)
        message = (
            f"{look.place} is a mixture: of {verdict.messages} messages look like {counts}; name "
            "files or topics of one envelope, or say with --envelope which one counts, and the "
            "others are refused"
        )
        raise NoneFits(message)
    if len(named) > 1:
        raise SeveralFit(_several_fit(look, verdict.named), named)
    return named[0]


def _readable(name: str) -> Envelope:
    envelope = registry.get(name)
    if envelope.decoder is None:
        raise ConfigurationError(f"{name!r} cannot be read; see `waybill envelopes`")
    return envelope


def _several_fit(look: Look, trials: Sequence[Trial]) -> str:
    names = " and ".join(trial.name for trial in trials)
    seen = sorted(set[str]().union(*(trial.seen for trial in trials)))
    found = f" ({', '.join(seen[:3])})" if seen else ""
    needs = {need for trial in trials for need in trial.needs}
    schemas = ", or give the schemas, which decide" if needs & {"schemas", "registry"} else ""
    ways = " (--schemas FILE or --set registry=URL)" if schemas else ""
    fit = f"{look.place}: {names} fit equally well{found}"
    return f"{fit}: say which with --envelope{schemas}{ways}"


def _none_fits(look: Look, trials: Sequence[Trial], messages: int) -> str:
    """Why no envelope fits, in one sentence."""
    nearest = next((trial for trial in trials if trial.clear), None)
    if nearest is not None:
        sentence = next((sentence for sentence, _ in nearest.against.values()), "")
        return (
            f"{look.place}: no envelope fits: {counted(nearest.clear, 'message')} of {messages} "
            f"have the names of {nearest.name}, which refuses them: {printable(sentence)}"
        )
    best = max(trials, key=lambda trial: trial.best)
    why = look.why or "values of a topic"
    fits = (
        f"{best.name} fits {best.best} of {messages}, which is too few"
        if best.best
        else (f"every decoder refuses all of it ({counted(messages, 'message')}; {why})")
    )
    return f"{look.place}: no envelope fits: {fits}; `waybill detect` says more of a file"


# Reading


def _decode(reading: SourceReading, trial: Trial, look: Look, rules: TableRules) -> None:
    """Read the sample, with what is given and with what would help.

    Raises:
        ConfigurationError: nothing can be read.
    """
    messages = look.messages
    try:
        found = attempt(reading, reading.all_settings(), messages, rules)
    except WaybillError as error:
        raise _lacking(look, reading, trial, error.sentence) from error
    if found.refused:
        reading.helps = _helps(reading, messages, rules, found)
    if not found.changes and reading.helps:
        # Without it there is nothing to show; which one is right is for a person to say.
        best = reading.helps[0]
        reading.settings[best.name] = best.value
        kind, first = next(iter(found.refused.items()))
        same = [scalar(one.value) for one in reading.helps[1:] if one.name == best.name]
        more = f"; {' and '.join(same)} would do, too" if same else ""
        reading.setting_notes[best.name] = (
            f"found by trying: without it all is refused ({_described(kind, first.sentence)}){more}"
        )
        reading.helps = []
        found = attempt(reading, reading.all_settings(), messages, rules)
    if not found.changes:
        skipped = "every message is skipped, such as a tombstone"
        sentence = next((one.sentence for one in found.refused.values()), skipped)
        raise _lacking(look, reading, trial, sentence)
    reading.evidence = found


def attempt(
    reading: SourceReading,
    settings: Mapping[str, Any],
    messages: Sequence[Message],
    rules: TableRules,
) -> Evidence:
    """What messages tell if they are read with settings and declared tables.

    Raises:
        ConfigurationError: a setting is wrong.
    """
    envelope = reading.envelope
    assert envelope.decoder is not None, "only envelopes that are read are tried"
    checked = checked_settings(envelope.decode_settings, dict(settings), envelope, "from")
    return evidence_of(changes_of(envelope.decoder(checked, rules), messages), len(messages))


def _helps(
    reading: SourceReading, messages: Sequence[Message], rules: TableRules, base: Evidence
) -> list[Help]:
    """Settings with which less is refused, the best first."""
    found = []
    for choice in choices(reading.envelope.decode_settings):
        ((name, value),) = choice.items()
        if name in reading.settings:
            continue
        try:
            tried = attempt(reading, {**reading.all_settings(), **choice}, messages, rules)
        except WaybillError:
            continue
        if tried.refused_count < base.refused_count and len(tried.changes) > len(base.changes):
            found.append(Help(name, value, tried.refused_count))
    return sorted(found, key=lambda one: one.refused)


def _lacking(look: Look, reading: SourceReading, trial: Trial, sentence: str) -> Lacking:
    """Why nothing of a sample can be read, and what to give."""
    name = reading.envelope.name
    needs = [need for need in trial.needs if need not in reading.all_settings()]
    ways = {
        "schemas": "its schemas (--schemas FILE)",
        "tables": "the types of its columns (--tables FILE)",
        "registry": "the schema registry (--set registry=URL)",
    }
    give = " or ".join(ways.get(need, f"--set {need}=…") for need in needs)
    end = f"give {give}" if give else "give what is missing by --set, --key or --tables"
    reason = f"nothing of the sample can be read as {name} ({printable(sentence)})"
    return Lacking(f"{look.place}: {reason}: {end}", name, needs)
