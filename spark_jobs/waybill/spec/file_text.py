"""The text of a migration's file as it may be kept and shown: what looks like a secret is left out.

A file names variables and connections, and their values are never in its text. Nothing stops people
from writing a password into it all the same, for example among settings of Spark.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

HIDDEN = "(hidden)"
"""Stands where a value was left out."""

MOST = 100_000
"""Characters of a file that are kept."""

_SECRET = (
    r"(?:password|passwd|passphrase|secret|token|credentials?"
    r"|(?:access|private|api|account)[._-]?key)"
)
_NAME = rf"""["']?[\w.\-/]{{0,80}}{_SECRET}[\w.\-/]{{0,80}}["']?[ \t]*:"""
_FIELD = re.compile(
    rf"""(?P<name>{_NAME})(?P<gap>[ \t]*)
    (?P<value>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\{{[^{{}}]*\}}|\[[^\[\]]*\]
    |\$\{{[^{{}}]*\}}[^\s,}}\]]*|[^\s,}}\]][^,}}\]\n]*)""",
    re.IGNORECASE | re.VERBOSE,
)
"""A field whose name says that its value is secret, in YAML of either style and in JSON."""

_BLOCK = re.compile(
    rf"""^(?P<indent>[ \t]*(?:-[ \t]+)?)(?P<name>{_NAME})[ \t]*
    (?:[|>][^\n]*)?\n(?:[ \t]*\n)*(?P<deeper>(?P=indent)(?:[ \t]+|-[ \t])[^\n]*(?:\n|\Z))
    (?:(?P=indent)(?:[ \t]+|-[ \t])[^\n]*(?:\n|\Z)|[ \t]*\n)*""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
"""The same with all that stands in further lines."""

_LOGIN = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,40}://)[^\s/@:\"']{0,200}:[^\s/@\"']{1,500}@"
)
"""A login within a URL."""
_CONFIGURED = re.compile(
    r"(?P<name>(?:password|passwd|secret|token|_key)[ \t]*=[ \t]*)"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;,\"'}]+)",
    re.IGNORECASE,
)
"""An assignment within a value, such as one of Kafka's JAAS."""
_ONLY_A_VARIABLE = re.compile(r"[\"']?\$\{[A-Za-z_][A-Za-z0-9_]*\}[\"']?\s*(?:#.*)?")


class FileText(NamedTuple):
    """The text of a file, and a digest of it."""

    digest: str
    text: str

    @classmethod
    def of(cls, written: str) -> FileText:
        """What is kept of a file."""
        text = without_secrets(written[:MOST])
        content = text.encode("utf-8", "backslashreplace")
        return cls(hashlib.sha256(content).hexdigest()[:16], text)


def without_secrets(text: str) -> str:
    """The text of a file without values that look secret; names of variables stay."""
    text = _BLOCK.sub(lambda m: f"{m['indent']}{m['name']} {HIDDEN}\n", text)
    text = _FIELD.sub(_field, text)
    text = _LOGIN.sub(lambda m: f"{m['scheme']}{HIDDEN}@", text)
    return _CONFIGURED.sub(_assigned, text)


def _field(found: re.Match[str]) -> str:
    if _ONLY_A_VARIABLE.fullmatch(found["value"].rstrip()):
        return found[0]
    return f"{found['name']}{found['gap'] or ' '}{HIDDEN}"


def _assigned(found: re.Match[str]) -> str:
    if _ONLY_A_VARIABLE.fullmatch(found["value"]):
        return found[0]
    return f"{found['name']}{HIDDEN}"
