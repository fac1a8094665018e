"""What registries have sent: each is asked for a schema once in a process, and the lake keeps it.

A schema of a registry never changes under its id, so what was fetched once holds for good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple


class Text(NamedTuple):
    """A schema as a source gives it: its JSON and the schemas whose types it uses."""

    schema: str
    references: tuple[str, ...] = ()


_fetched: defaultdict[str, dict[str, Text]] = defaultdict(dict)


def fetched_from(url: str) -> dict[str, Text]:
    """The schemas fetched from a registry in this process, by id or GUID as text."""
    return _fetched[url]


def remember(url: str, schemas: Mapping[str, Text]) -> None:
    """Take what another process fetched from a registry."""
    _fetched[url].update(schemas)
