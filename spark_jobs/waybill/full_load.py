"""Full loads: rows of a table dump as messages of a topic of their own.

The snapshot reads a dump into the archive as messages of the topic `full:<table>`, one JSON object
a row, with a header that says what the rows are. So a dump is archived, refused row by row and
converted like any topic. A reload begins with a message without value: what is older is void.
"""

from __future__ import annotations

import msgspec

TOPIC = "full:"
"""How the topics of full loads begin."""

BOOTSTRAP_TOPIC = "bootstrap:"
"""How the topics of rows begin that a new target starts with, as no topic of a queue does."""

HEADER = "waybill-full"
"""Name of the header."""


class FullLoad(msgspec.Struct, frozen=True):
    """What a full load is of.

    Attributes:
        table: qualified name of the source table.
        as_of: sequence id of the source up to which the dump is complete; None for the rows that
            a migration starts from, which are older than every change.
        types: logical types of its columns, where the dump's format tells them.
    """

    table: str
    as_of: tuple[int, ...] | None = None
    types: dict[str, str] = {}

    @property
    def topic(self) -> str:
        """The topic of its messages: another for every load of a table."""
        if self.as_of is None:
            return f"{TOPIC}{self.table}"
        return f"{TOPIC}{self.table}@{':'.join(str(part) for part in self.as_of)}"

    def to_header(self) -> bytes:
        """As it stands in the header of every message."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_header(value: bytes) -> FullLoad:
        """What `to_header` wrote."""
        return msgspec.json.decode(value, type=FullLoad)
