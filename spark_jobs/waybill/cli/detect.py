"""`waybill detect`: the envelope of a file, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from waybill.cli.options import check_known, read_settings, rules_in
from waybill.cli.output import console, print_json, print_table, printable
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.inprocess.detect import EnvelopeVerdict, Trial, detect, sample_of
from waybill.inprocess.topic_file import open_topic

if TYPE_CHECKING:
    from collections import Counter

    from waybill.inprocess.topic_file import TopicFile
    from waybill.records import Message

LARGEST = 8 << 20
"""Bytes of the largest message that is looked at."""

SEEN = 8
"""Names that are listed."""


class Hints(Protocol):
    """Options that help to recognise messages."""

    @property
    def settings(self) -> list[str]:
        """Settings, as they were given."""

    @property
    def schemas(self) -> Path | None:
        """File of schemas."""

    @property
    def tables(self) -> Path | None:
        """File of declared tables."""


@dataclass(frozen=True)
class Detection:
    """The options of one call, as they were given."""

    input: str
    layout: str | None
    settings: list[str]
    schemas: Path | None
    tables: Path | None
    messages: int
    json: bool


def detect_command(given: Detection) -> None:
    """Name the envelope of a file; leave with 2 if nothing fits."""
    with open_topic(given.input, given.layout, LARGEST) as file:
        messages = sample_of(file.messages(), given.messages)
        verdict = judged(file, messages, given)
    answer = answer_of(file, verdict)
    if given.json:
        print_json([as_data(file, verdict, answer)])
    else:
        _print(file, verdict, answer)
    if not verdict.named:
        sys.exit(ConfigurationError.exit_code)


def judged(file: TopicFile, messages: Sequence[Message], given: Hints) -> EnvelopeVerdict:
    """What the messages are; nothing if the file is of another kind and little speaks for them.

    Raises:
        ConfigurationError: an option is wrong.
    """
    settings = read_settings(given.settings, given.schemas)
    check_known(settings)
    verdict = detect(messages, rules_in(given.tables), settings)
    if file.foreign is not None and verdict.weak:
        verdict.named = []
    return verdict


def one_envelope(file: TopicFile, messages: Sequence[Message], given: Hints) -> Trial:
    """The envelope of a file, for a command that was given none.

    Raises:
        ConfigurationError: nothing fits, or several do.
    """
    verdict = judged(file, messages, given)
    if len(verdict.named) == 1:
        return verdict.named[0]
    if not verdict.named:
        raise ConfigurationError(answer_of(file, verdict))
    raise ConfigurationError(f"{answer_of(file, verdict)}; say which with --from")


def answer_of(file: TopicFile, verdict: EnvelopeVerdict) -> str:
    """The answer as one sentence."""
    names = [trial.name for trial in verdict.named]
    path = printable(file.path)
    if not names:
        return f"{path}: no envelope fits: {_why_none(file, verdict)}"
    if verdict.mixed:
        counts = ", ".join(f"{t.best} {t.name}" for t in verdict.named)
        return f"{path} is a mixture: of {verdict.messages} messages look like {counts}"
    if len(names) > 1:
        return f"{path}: {' and '.join(names)} fit equally well"
    return f"{path}: {names[0]}"


def _why_none(file: TopicFile, verdict: EnvelopeVerdict) -> str:
    if file.foreign is not None:
        return f"it is {file.foreign}"
    if verdict.messages + verdict.empty == 0:
        return "it holds no message"
    if verdict.messages == 0:
        return f"none of its messages has a value ({verdict.empty})"
    if file.cut:
        return f"{file.layout.why}, and its first message is longer than {LARGEST >> 20} MiB"
    nearest = next((trial for trial in verdict.trials if trial.clear), None)
    if nearest is not None:
        sentence = next((sentence for sentence, _ in nearest.against.values()), "")
        messages = counted(verdict.messages, "message")
        have = counted(nearest.clear, f"of {messages} has", f"of {messages} have")
        return f"{have} the names of {nearest.name}, which refuses them: {printable(sentence)}"
    if verdict.unknown < verdict.messages:
        most = verdict.trials[0]
        messages = counted(verdict.messages, "message")
        return f"{most.name} fits {most.best} of {messages}, which is too few"
    what = file.layout.why
    messages = counted(verdict.messages, "message")
    return f"every decoder refuses all of it ({messages}; {what})"


def as_data(file: TopicFile, verdict: EnvelopeVerdict, answer: str) -> dict[str, Any]:
    """The answer for programs."""
    kind = "none" if not verdict.named else "mixed" if verdict.mixed else "one"
    if kind == "one" and len(verdict.named) > 1:
        kind = "several"
    return {
        "file": file.path,
        "answer": answer,
        "verdict": kind,
        "envelopes": [trial.name for trial in verdict.named],
        "layout": file.layout.name,
        "packing": file.packing,
        "messages": verdict.messages,
        "without_value": verdict.empty,
        "unknown": verdict.unknown,
        "candidates": [
            {
                "name": trial.name,
                "fits_best": trial.best,
                "read": trial.read,
                "known_but_not_read": trial.known,
                "refused": trial.refused,
                "seen": [name for name, _ in trial.seen.most_common()],
                "needs": list(trial.needs),
                "settings": trial.settings_found,
                "reasons": [
                    {"kind": kind, "reason": sentence, "count": count}
                    for kind, (sentence, count) in trial.against.items()
                ],
            }
            for trial in verdict.trials
        ],
    }


def _print(file: TopicFile, verdict: EnvelopeVerdict, answer: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    out.print(Text(answer, style="bold" if verdict.named else "bold red"), soft_wrap=True)
    packed = f", packed with {file.packing}" if file.packing else ""
    counts = counted(verdict.messages, "message was examined", "messages were examined")
    if verdict.empty:
        counts += f", {counted(verdict.empty, 'more has no value', 'more have no value')}"
    layout = f"layout {file.layout.name}: {file.layout.why}{packed}; {counts}"
    out.print(Padding(Text(layout), (0, 0, 0, 2), expand=False))
    for trial in verdict.named:
        first, *lines = for_it(trial, verdict)
        out.print(Padding(Text(printable(first)), (0, 0, 0, 2), expand=False))
        for line in lines:
            out.print(Padding(Text(printable(line)), (0, 0, 0, 4), expand=False))
    if verdict.weak:
        text = "the only evidence is that its decoder reads the messages"
        out.print(Padding(Text(text, style="yellow"), (0, 0, 0, 4), expand=False))
    named = {trial.name for trial in verdict.named}
    rest = [trial for trial in verdict.trials if trial.name not in named]
    if verdict.messages:
        print_table(
            ["others", "fits", "evidence against it"],
            [[t.name, f"{t.taken} of {verdict.messages}", against(t)] for t in rest],
        )


def for_it(trial: Trial, verdict: EnvelopeVerdict) -> list[str]:
    """What speaks for an envelope, line by line."""
    lines = [f"{trial.name}, {trial.envelope.title}"]
    taken = f"reads {trial.read} of {counted(verdict.messages, 'message')}"
    for kind, (sentence, count) in trial.against.items():
        taken += f"; {count} not whole ({kind}): {sentence}"
    lines.append(taken)
    if trial.seen:
        lines.append(f"its own: {_listed(trial.seen)}")
    for name, value in trial.settings_found.items():
        lines.append(f"with --set {name}={value}; without, its decoder refuses them")
    if trial.needs:
        lines.append(f"to read it, give {' or '.join(_option_for(name) for name in trial.needs)}")
    return lines


def _listed(names: Counter[str]) -> str:
    """The most frequent names, those at the top of a message first."""
    order = sorted(names, key=lambda name: ("." in name, -names[name], name))
    more = f" and {len(order) - SEEN} more" if len(order) > SEEN else ""
    return ", ".join(order[:SEEN]) + more


def _option_for(setting: str) -> str:
    """How a setting is given to the commands that work on a file."""
    return {
        "schemas": "its schemas (--schemas FILE)",
        "tables": "the types of its columns (--tables FILE)",
    }.get(setting, f"--set {setting}=…")


def against(trial: Trial) -> str:
    """What speaks against an envelope, in a few words."""
    if trial.misread:
        return "its columns would be names that another envelope writes"
    if trial.taken > trial.refused:
        if not trial.seen:
            return "it reads nearly anything; the messages have none of its own names"
        if trial.unseen:
            return f"names of its own are missing: {_listed(trial.unseen)}"
        return f"it has fewer of the names: {_listed(trial.seen)}"
    if trial.against:
        kind, (sentence, _) = max(trial.against.items(), key=lambda item: item[1][1])
        return f"{kind}: {sentence}"
    return "no evidence for it"
