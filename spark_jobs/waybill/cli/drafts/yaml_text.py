"""YAML with comments: fields that are set, and fields that stand there to be decided."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waybill.cli.output import printable

DECIDE = "DECIDE:"
"""What a comment begins with that a person has to answer."""

WIDTH = 100
"""Columns of the longest line of a comment."""

_PLAIN = re.compile(r"[A-Za-z/._][\w./@+-]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scalar(value: Any) -> str:
    """A value as YAML on one line, such that it is read back as it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{field_text(k)}: {scalar(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(scalar, value))}]"
    # A variable of the environment would be filled in here.
    return field_text(str(value).replace("${", "$${"))


def field_text(text: str) -> str:
    """The name of a field, or any text without variables."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


@dataclass
class Node:
    """A field, or an item of a list where it has no name.

    Attributes:
        label: its name; empty for an item.
        value: on one line; None where it has parts.
        parts: the fields inside of it.
        note: what it is, at the end of its line.
        decide: what a person has to know to decide about it, a sentence each; lines below the
            first of one are its details.
        active: whether it is set. What is not stands behind a `#` without a blank, which only has
            to be taken away; so does a field with parts of which none is set.
    """

    label: str
    value: str | None = None
    parts: list[Node] = field(default_factory=list)
    note: str = ""
    decide: list[str] = field(default_factory=list)
    active: bool = True

    @property
    def is_set(self) -> bool:
        """Whether it, or anything inside of it, is set."""
        there = [part for part in self.parts if part.is_there]
        return self.active and (not there or any(part.is_set for part in there))

    @property
    def is_there(self) -> bool:
        """Whether there is anything to write."""
        return self.value is not None or any(part.is_there for part in self.parts)

    def sentences(self) -> Iterator[str]:
        """Everything to decide, also of the fields inside."""
        yield from self.decide
        for part in self.parts:
            yield from part.sentences()


def written(nodes: Sequence[Node]) -> Iterator[str]:
    """The lines of fields, one after the other."""
    for node in nodes:
        if node.is_there:
            yield from _lines(node)


def comment(text: str, more: str = "  ") -> Iterator[str]:
    """A comment of as many lines as it needs; what is in it can end no line."""
    return iter(
        textwrap.wrap(
            printable(text),
            WIDTH,
            initial_indent="# ",
            subsequent_indent=f"# {more}",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _lines(node: Node) -> Iterator[str]:
    """The lines of a field and of what is in it, without the indent of where it stands."""
    sentences = node.decide if node.is_set else node.sentences()
    for sentence in sentences:
        first, *details = sentence.split("\n")
        yield from comment(f"{DECIDE} {first}")
        for detail in details:
            yield from comment(f"  {detail}", "    ")
    if not node.is_set:
        yield from (f"#{line}" for line in _plain_lines(node))
    elif node.label:
        yield _line(node)
        yield from (f"  {line}" for line in written(node.parts))
    else:
        yield from _dashed(written(node.parts))


def _plain_lines(node: Node) -> Iterator[str]:
    """The same as if everything were set, and without sentences."""
    inside = (line for part in node.parts if part.is_there for line in _plain_lines(part))
    if node.label:
        yield _line(node)
        yield from (f"  {line}" for line in inside)
    else:
        yield from _dashed(inside)


def _dashed(lines: Iterator[str]) -> Iterator[str]:
    """An item of a list: the first line that is not a comment has the dash."""
    dash = "- "
    for line in lines:
        if line.startswith("#"):
            yield f"  {line}"
        else:
            yield f"{dash}{line}"
            dash = "  "


def _line(node: Node) -> str:
    text = f"{field_text(node.label)}:"
    if node.value is not None:
        text += f" {node.value}"
    return f"{text}  # {printable(node.note)}" if node.note else text
