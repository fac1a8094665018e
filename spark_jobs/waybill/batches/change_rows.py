"""Messages as rows of `changes`, decoded individually: the exact way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.lake_columns import CHANGE_PLACE, CHANGES
from waybill.records import NO_TABLE, ROW_OPERATIONS, Change, Message, TableSchema
from waybill.row_times.typed import times_check

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.envelopes.pairs import PairJoiner
    from waybill.protocol import Decoder
from waybill.batches.messages import decode_message
from waybill.batches.record_batches import record_batch

_json = msgspec.json.Encoder().encode


class ChangeRows:
    """Decodes archive batches into rows of `changes`, individually and exactly.

    Args:
        decoder: the source envelope's decoder.
        batch_id: the batch that brings the messages.
        joiner: joins the halves of updates, None where the envelope has none.

    Attributes:
        messages: messages decoded so far.
        decoded: changes that they held.
    """

    def __init__(
        self,
        decoder: Decoder,
        batch_id: str,
        joiner: PairJoiner | None = None,
    ) -> None:
        self.decoder = decoder
        self.batch_id = batch_id
        self.joiner = joiner
        self.messages = 0
        self.decoded = 0
        self._emitted: Bounded[TableSchema, bool] = Bounded()
        self._emitted[NO_TABLE] = True

    def changes(self, messages: Iterator[Message]) -> Iterator[Change]:
        """Changes of messages, halves of updates joined where both are here."""
        decoder, joiner = self.decoder, self.joiner
        for message in messages:
            changes = decode_message(decoder, message)
            self.messages += 1
            self.decoded += len(changes)
            if joiner is None:
                yield from changes
                continue
            for change in changes:
                if change.half is None:
                    yield change
                else:
                    yield from joiner.push(change)

    def rows(self, changes: Iterator[Change] | list[Change]) -> pa.RecordBatch:
        """One record batch of `changes`; a schema that is new here brings a row of its own."""
        return self.batch_of(self.tuples(changes))

    @staticmethod
    def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """A record batch of rows of `changes`."""
        return record_batch(rows, CHANGES)

    def tuples(self, changes: Iterable[Change]) -> list[tuple[Any, ...]]:
        """The rows of changes, a schema that is new here before its first one."""
        rows: list[tuple[Any, ...]] = []
        row = self._row
        for change in changes:
            if change.schema not in self._emitted:
                rows += self.schema_rows(change)
            rows.append(row(change))
        return rows

    def schema_rows(self, change: Change) -> list[tuple[Any, ...]]:
        """The row that tells the schema of a change, where none has done so yet."""
        known, schema = self._emitted, change.schema
        if schema in known:
            return []
        # One that was forgotten is emitted twice, which is harmless.
        known[schema] = known[NO_TABLE] = True
        message = change.message
        place = (message.topic, message.partition, message.offset, change.index, self.batch_id)
        first = dict(zip((*CHANGE_PLACE, "batch"), place, strict=True))
        return [tuple(schema_row(schema, first).values())]

    def _row(self, change: Change) -> tuple[Any, ...]:
        message, schema = change.message, change.schema
        outcome, kind, reason = change.outcome, change.reason_kind, change.reason
        key = old_key = None
        if outcome == "ok" and change.operation in ROW_OPERATIONS:
            try:
                key, old_key = change.key_image(), change.old_key_image()
                fit = times_check(schema)
                if fit is not None:
                    fit(change)
            except Refusal as refusal:
                outcome, kind, reason = "refused", refusal.kind, refusal.sentence
            if change.half is not None and outcome == "ok":
                outcome = "waiting"
        kept = outcome in ("refused", "waiting")
        return (
            message.topic,
            message.partition,
            message.offset,
            change.index,
            self.batch_id,
            change.operation,
            schema.database,
            schema.schema,
            schema.table,
            None if key is None else _json(key),
            None if old_key is None else _json(old_key),
            None if change.before is None else _json(change.before),
            None if change.after is None else _json(change.after),
            change.order_key,
            change.source_time,
            change.transaction,
            change.ddl_text,
            None if schema is NO_TABLE else schema.id,
            change.extra,
            change.half,
            outcome,
            kind,
            reason,
            message.key if kept else None,
            message.value if kept else None,
        )


def schema_row(schema: TableSchema, first: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `changes` that tells a schema.

    Args:
        schema: the schema.
        first: place and batch of the change that it comes with.
    """
    row: dict[str, Any] = dict.fromkeys(CHANGES.names)
    row.update(
        {name: first[name] for name in (*CHANGE_PLACE, "batch")},
        operation="other",
        database=schema.database,
        schema=schema.schema,
        table=schema.table,
        schema_id=schema.id,
        extra=schema.to_json().decode(),
        outcome="schema",
    )
    return row
