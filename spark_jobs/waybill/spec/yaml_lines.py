"""YAML and JSON text as plain data that remembers the line of every field.

Of YAML the core schema of version 1.2 is read: `no`, `on`, `12:30` and `2024-01-01` stay the text
they are, so a column may be called `on`.
"""

from __future__ import annotations

import json as json_module
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import yaml

Location = tuple[str | int, ...]
"""A place in a document: field names and positions in lists."""


MOST_REPEATED = 100_000
"""How many places of a document may come from aliases (`*name`, `<<:`), all together: aliases of
aliases make a few lines stand for more than any memory holds."""


class MarkedError(Exception):
    """Text that cannot be read.

    Attributes:
        sentence: what is wrong.
        line: where, from 1.
    """

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(sentence, line)
        self.sentence = sentence
        self.line = line


@dataclass
class Marked:
    """Plain data, and the line of each of its places."""

    data: Any
    lines: dict[Location, int] = field(default_factory=dict)
    secret: set[Location] = field(default_factory=set)
    """Places whose values must not be repeated."""

    def line(self, location: Location) -> int:
        """The line of a place, or of the nearest place around it that is in the text."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_ITSELF = "an alias (*) refers to what contains it"


class _Loader(yaml.SafeLoader):
    """YAML 1.2 core schema: only what looks like JSON is not text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._built: set[yaml.Node] = set()
        self._repeated = 0

    def visit(self, node: yaml.Node) -> None:
        """Count a node that is about to be built where it was built before."""
        if node in self._built:
            self._repeat(1, node)
        self._built.add(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As in the parent; what a merge (`<<`) will copy is counted first."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for mapping in merged:
                if mapping is node:
                    raise MarkedError(_ITSELF, key.start_mark.line + 1)
                if isinstance(mapping, yaml.MappingNode):
                    self.flatten_mapping(mapping)
                    self._repeat(len(mapping.value), key)
        super().flatten_mapping(node)

    def _repeat(self, places: int, node: yaml.Node) -> None:
        self._repeated += places
        if self._repeated > MOST_REPEATED:
            sentence = (
                f"aliases (*) repeat more than {MOST_REPEATED} places: write out what is meant, or "
                "make it smaller"
            )
            raise MarkedError(sentence, node.start_mark.line + 1)


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+\Z", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?\Z", "-+.0123456789"),
    ("merge", r"<<\Z", "<"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(_pattern), list(_first))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    try:
        return int(loader.construct_scalar(node))  # 010 is ten, not eight
    except ValueError:
        line = node.start_mark.line + 1
        raise MarkedError("holds a number of too many digits; put it into quotes", line) from None


_Loader.add_constructor(f"{_TAG}int", _integer)


def read_marked(text: str, json: bool = False) -> Marked:
    """Plain data of YAML or JSON text with its lines.

    Raises:
        MarkedError: the text is not well formed, or a field occurs twice in one place.
    """
    if json:
        try:
            data = json_module.loads(text)
        except RecursionError as error:
            raise MarkedError("holds lists or mappings too deep inside each other", 1) from error
        except ValueError as error:
            line = getattr(error, "lineno", 1)
            raise MarkedError(f"is not JSON: {error}", line) from error
        # Legal JSON holds tabs only between its tokens, where YAML does not allow them.
        text = text.replace("\t", " ")
    try:
        marked = _compose(text)
        if json:
            marked.data = data  # YAML reads the two halves of an escaped character as two
        return marked
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise MarkedError(_yaml_sentence(error), mark.line + 1 if mark else 1) from error
    except RecursionError as error:
        raise MarkedError("holds lists or mappings too deep inside each other", 1) from error
    except yaml.YAMLError as error:
        raise MarkedError(f"is not YAML: {' '.join(str(error).split())}", 1) from error


def _compose(text: str) -> Marked:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        marked = Marked(None)
        marked.data = None if node is None else _build(loader, node, (), marked.lines, ())
        return marked
    finally:
        loader.dispose()


def _yaml_sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "it cannot be read"
    hint = ""
    if "cannot start any token" in problem:
        hint = "; put the value into quotes"
    return f"is not YAML: {problem}{hint}"


def _build(
    loader: _Loader,
    node: yaml.Node,
    at: Location,
    lines: dict[Location, int],
    around: tuple[yaml.Node, ...],
) -> Any:
    if node in around:
        raise MarkedError(_ITSELF, node.start_mark.line + 1)
    loader.visit(node)
    around = (*around, node)
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*at, i), lines, around) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    own = Counter(_key(key) for key, _ in node.value if key.tag != _MERGE)
    loader.flatten_mapping(node)
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line = _key(key_node), key_node.start_mark.line + 1
        if own[key] > 1 and key in data:
            raise MarkedError(f"{key} occurs twice in one place; keep one of them", line)
        lines[(*at, key)] = line
        data[key] = _build(loader, value_node, (*at, key), lines, around)
    return data


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise MarkedError("a field's name must be plain text", node.start_mark.line + 1)
    return str(node.value)
