"""New names in the text of a statement, and parts that are left out; all else stays as it is.

Nothing is rephrased: what one database's SQL means in the words of another one, such as `int8`,
would be another type. Whether the text says what is meant is seen by reading it again.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from waybill.mapping.sql import (
    ANSI_QUOTES,
    EXACT,
    ParsedStatement,
    UnreadableStatement,
    parse,
    read,
    sqlglot_dialect,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlglot import Token, exp

Span = tuple[int, int]
"""Where something begins in a text, and where it has ended."""

_QUOTES = {"mysql": "``", ANSI_QUOTES: '""', "tsql": "[]"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXECUTED = re.compile(r"/\*M?!")
"""How a comment begins that MySQL and MariaDB execute."""


class Splices:
    """What changes in the text of a statement.

    Attributes:
        tree: what the statement is to say; takes each change.

    Args:
        text: the statement.
        reading: how it is read.
        dialect: the source's.
    """

    def __init__(self, text: str, reading: ParsedStatement, dialect: str) -> None:
        self.text, self._way, self._dialect = text, reading.way, dialect
        self.tree = reading.tree.copy()
        self._made: list[tuple[int, int, str]] = []

    def rename(self, node: exp.Identifier, name: str) -> None:
        """Give something another name."""
        start, end = self.span([node])
        text, quoted = self._spelled(name, node)
        self._made.append((start, end, text))
        node.set("this", name)
        node.set("quoted", quoted)

    def rename_table(self, node: exp.Table, names: Sequence[str]) -> None:
        """Give a table another name.

        Args:
            node: the table.
            names: the parts of its name, as many as are to be spelled.
        """
        from sqlglot import exp

        was = [part for part in node.parts if isinstance(part, exp.Identifier)]
        start, end = self.span(was)
        like = was[-1]
        texts: list[str] = []
        parts: list[exp.Identifier | None] = []
        for back, name in enumerate(reversed(names), 1):
            old = was[-back] if back <= len(was) else like
            if back <= len(was) and old.name == name:
                text, quoted = self.text[slice(*self.span([old]))], bool(old.args.get("quoted"))
            else:
                text, quoted = self._spelled(name, old)
            texts.insert(0, text)
            parts.append(exp.to_identifier(name, quoted=quoted))
        self._made.append((start, end, ".".join(texts)))
        for key, part in zip(("this", "db", "catalog"), (*parts, None, None), strict=False):
            node.set(key, part)

    def leave_out(self, items: Sequence[Span], kept: Sequence[bool]) -> None:
        """Leave out some items of a list, with their commas.

        Args:
            items: where the items stand, one behind the other.
            kept: which of them stay; at least one.
        """
        first = kept.index(True)
        if first:
            self._made.append((items[0][0], items[first][0], ""))
        for number in range(first + 1, len(items)):
            if not kept[number]:
                self._made.append((items[number - 1][1], items[number][1], ""))

    def leave_out_comments(self, executed_only: bool) -> None:
        """Leave out comments, which may say anything, or those that some servers execute."""
        at = 0
        for token in (*self.tokens, None):
            end = len(self.text) if token is None else token.start
            gap = self.text[at:end]
            if gap.strip() and (not executed_only or _EXECUTED.search(gap)):
                self._made.append((at, end, " "))
            at = end if token is None else token.end + 1

    @property
    def tokens(self) -> list[Token]:
        """What the statement is made of."""
        return _tokens(self.text, self._way)

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return bool(self._made)

    def span(self, nodes: Iterable[exp.Expr]) -> Span:
        """Where some parts of the statement stand, with all that is between them.

        Raises:
            UnreadableStatement: nobody knows where.
        """
        places = [(node.meta.get("start"), node.meta.get("end")) for node in nodes]
        starts = [start for start, _ in places if start is not None]
        ends = [end for _, end in places if end is not None]
        if not places or len(starts) < len(places) or len(ends) < len(places):
            raise UnreadableStatement(self.text)
        return min(starts), max(ends) + 1

    def actions(self, table: exp.Table) -> list[Span]:
        """Where the actions of an ALTER stand, and its options.

        Args:
            table: the table that it alters, of which nothing is renamed by now.
        """
        from sqlglot import TokenType

        _, behind = self.span(table.parts)
        depth, found, new = 0, [], True
        for token in self.tokens:
            if token.start < behind:
                continue
            depth += (token.token_type == TokenType.L_PAREN) - (
                token.token_type == TokenType.R_PAREN
            )
            if token.token_type == TokenType.SEMICOLON:
                break
            if token.token_type == TokenType.COMMA and not depth:
                new = True
            elif new:
                found.append((token.start, token.end + 1))
                new = False
            else:
                found[-1] = (found[-1][0], token.end + 1)
        return found

    def text_of(self) -> str | None:
        """The statement as it becomes; None where it would not say what is meant."""
        made, at = [], 0
        for start, end, text in sorted(self._made, key=lambda one: (one[0], -one[1])):
            if start < at:
                # It stands in a part that goes.
                continue
            made += [self.text[at:start], text]
            at = end
        result = "".join((*made, self.text[at:])).strip()
        again = parse(result, self._way)
        if again is None or again != self.tree or _names(again) != _names(self.tree):
            return None
        # What is left may be read in another way first; it has to say the same of tables and
        # columns then.
        found = read(result, self._dialect)
        if found is None or (found.way != self._way and not _same(found.tree, self.tree)):
            return None
        return result

    def _spelled(self, name: str, like: exp.Identifier) -> tuple[str, bool]:
        """A name as a statement spells it, and whether it is quoted.

        Args:
            name: the name.
            like: the name in whose place it stands.
        """
        start = self.text[self.span([like])[0]]
        if start not in '`"[':
            if self._reads_back(name):
                return name, False
            start = _QUOTES.get(self._way, '""')[0]
        end = "]" if start == "[" else start
        return f"{start}{name.replace(end, end * 2)}{end}", True

    def _reads_back(self, name: str) -> bool:
        """Whether a name needs no quotes."""
        from sqlglot import TokenType

        if not _PLAIN.fullmatch(name) or name.lower() in _reserved():
            return False
        if EXACT.get(self._dialect, str)(name) != name:
            return False
        return [token.token_type for token in _tokens(name, self._way)] == [TokenType.VAR]


@lru_cache(maxsize=4)
def _tokens(text: str, way: str) -> list[Token]:
    import sqlglot

    return list(sqlglot.tokenize(text, dialect=sqlglot_dialect(way)))


@lru_cache(maxsize=1)
def _reserved() -> frozenset[str]:
    from sqlglot.dialects.mysql import MySQL

    return frozenset(word.lower() for word in MySQL.generator_class.RESERVED_KEYWORDS)


def _names(tree: exp.Expr) -> list[tuple[str, bool]]:
    from sqlglot import exp

    return [(one.name, bool(one.args.get("quoted"))) for one in tree.find_all(exp.Identifier)]


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two readings name the same things in the same places."""
    from sqlglot import exp

    if type(one) is not type(other):
        return False
    places = [
        [(name.name, type(name.parent)) for name in tree.find_all(exp.Identifier)]
        for tree in (one, other)
    ]
    return places[0] == places[1]
