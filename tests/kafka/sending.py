"""Publications for the tests: rows to send, where to, and what must have come of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.kafka.outboxes import as_sent, contents, message, read, stream
from waybill.kafka.cluster import Cluster
from waybill.publish.kafka.ledger import LedgerEntry, Owner, ensure_ledger, read_entries
from waybill.publish.kafka.part_boundaries import Limits, cut
from waybill.publish.kafka.partitions import Partitioner
from waybill.publish.kafka.sender import Group, Sending

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Publication:
    """Messages of some batches on their way to a topic.

    Attributes:
        client: properties of the clients.
        topic: where to.
        ledger: the ledger's topic.
        partitions: of the topic.
        counts: messages of each batch.
        part: messages of a part.
    """

    client: dict[str, str]
    topic: str
    ledger: str
    partitions: int = 3
    counts: tuple[int, ...] = (3000,)
    part: int = 250

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The messages: few keys, tombstones, some without key, two messages for some changes."""
        rows = []
        for group, count in enumerate(self.counts):
            for i in range(count):
                value = None if i % 9 == 0 else b'{"group":%d,"i":%d}' % (group, i)
                key = None if i % 13 == 0 else b"key-%d" % (i % 37)
                table = f"shop.t{i % 3}"
                # Every fifth change has two messages.
                number = int(i % 5 == 1)
                rows.append(
                    message(i - number, key, value, number=number, table=table, group=group)
                )
        return rows

    def sending(self, groups: int | None = None, **fields: Any) -> Sending:
        """How it is sent; `groups` leaves later batches out."""
        batches = [Group(f"b{i + 1}", count) for i, count in enumerate(self.counts)]
        given = {"timeout": 60.0, "limits": Limits(self.part), **fields}
        return Sending(
            Owner("demo", "t"),
            self.client,
            self.topic,
            self.partitions,
            1048588,
            self.ledger,
            tuple(batches[:groups]),
            **given,
        )

    def send(self, groups: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Send it here; the parts, as the task tells them."""
        rows = [row for row in self.rows if groups is None or row["group"] < groups]
        found = []
        for batch in self.sending(groups, **fields).run(stream(rows, 100)):
            found += batch.to_pylist()
        return found

    def entries(self) -> dict[tuple[str, int], LedgerEntry]:
        """What the ledger says."""
        return read_entries(self.client, self.ledger, Owner("demo", "t"))

    def check(self) -> None:
        """Every message is in the topic once and in order, and the ledger says so."""
        rows = self.rows
        chosen = Partitioner(self.partitions).choose(next(stream(rows, len(rows))))
        records = read(self.client, self.topic)
        for number, own in records.items():
            expected = [as_sent(row) for row, to in zip(rows, chosen, strict=True) if to == number]
            assert len(own) == len(expected), f"partition {number}"
            assert contents(own) == expected, f"partition {number}"
        entries = self.entries()
        parts = [(f"b{p.group + 1}", p.part, list(p.pieces)) for p in self._cut()]
        assert set(entries) == {(batch, part) for batch, part, _ in parts}
        written = {n: {r.offset() for r in own} for n, own in records.items()}
        for batch, part, pieces in parts:
            entry = entries[batch, part]
            assert entry.messages == sum(piece.num_rows for piece in pieces)
            for number, (first, last) in entry.offsets.items():
                assert {first, last} <= written[int(number)]
        assert sum(entry.messages for entry in entries.values()) == len(rows)

    def _cut(self) -> Any:
        for piece in cut(stream(self.rows), lambda group, part: None, Limits(self.part)):
            yield piece._replace(pieces=iter(list(piece.pieces)))

    def raw(self) -> int:
        """How many records are in the topic, those of given up transactions among them."""
        found = read(self.client, self.topic, "read_uncommitted")
        return sum(len(own) for own in found.values())

    def save(self, path: Path) -> Path:
        """Write it into a file, for another process."""
        path.write_text(json.dumps(vars(self)))
        return path

    @classmethod
    def load(cls, path: Path) -> Publication:
        """What `save` wrote."""
        data = json.loads(path.read_text())
        return cls(**{**data, "counts": tuple(data["counts"])})


def publication(
    client: dict[str, str], make_topic: Callable[..., str], **fields: Any
) -> Publication:
    """A publication with a topic and a ledger of its own."""
    partitions = fields.get("partitions", 3)
    topic = make_topic(partitions)
    ledger = f"{topic}.ledger"
    ensure_ledger(Cluster(client), ledger)
    return Publication(client, topic, ledger, **fields)
