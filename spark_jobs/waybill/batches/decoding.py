"""Arrow batches through decoders and encoders: the unit that Spark and the command line share.

`ChangeBatches` turns archive batches into rows of `changes`, `MessageBatches` turns rows of
`changes` into rows of `outbox`. Both keep per-task state, so one object serves one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waybill.batches.bulk_threshold import Worth
from waybill.caches import Bounded
from waybill.envelopes.protocol import Decoder, Encoded, Encoder
from waybill.errors import Refusal, WaybillError
from waybill.lake_columns import CHANGES, OUTBOX, columns_of
from waybill.order import read_order_key
from waybill.records import NO_TABLE, ROW_OPERATIONS, Change, Message, TableSchema, refused
from waybill.typed_values import times_check
from waybill.zoned_times import count_zones

if TYPE_CHECKING:
    from waybill.batches.bulk_decoding import BulkChangeBatches
    from waybill.batches.bulk_encoding import BulkMessageBatches
    from waybill.bulk.readings import BulkReader
    from waybill.bulk.templates import BulkWriter
    from waybill.envelopes.pairs import PairJoiner

CHANGE = columns_of(
    CHANGES,
    *("topic", "partition", "offset", "index", "operation", "old_key", "before", "after"),
    *("order_key", "transaction", "ddl_text", "schema_id", "extra", "source_time"),
)
"""What encoders need of a row of `changes`, in the order in which `changes_of` unpacks it."""

_json = msgspec.json.Encoder().encode


def messages_of(batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages of an archive batch; columns that are missing count as null."""
    # Often one message is asked for: each look at the schema would take longer than its values.
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    nulls: list[Any] = [None] * batch.num_rows

    def column(name: str) -> list[Any]:
        found = columns.get(name)
        return nulls if found is None else found.to_pylist()

    times = nulls
    if "timestamp" in columns:
        micros = columns["timestamp"].view(pa.int64()).to_pylist()
        times = [None if t is None else t // 1000 for t in micros]
    told = columns.get("headers")
    headers = nulls if told is None or told.null_count == batch.num_rows else told.to_pylist()
    for topic, partition, offset, timestamp, key, value, header in zip(
        column("topic"),
        column("partition"),
        column("offset"),
        times,
        column("key"),
        column("value"),
        headers,
        strict=True,
    ):
        pairs = [(h["key"], h["value"]) for h in header] if header else None
        yield Message(topic, partition, offset, timestamp, key, value, pairs)


def decode_message(decoder: Decoder, message: Message) -> list[Change]:
    """The changes of a message; a message that cannot be taken becomes one refused row."""
    try:
        return decoder.decode(message)
    except Refusal as refusal:
        return [refused(message, refusal)]
    except WaybillError:
        raise
    except Exception as error:
        raise _fault("reading the message", message, error) from error


def _fault(doing: str, message: Message, error: Exception) -> WaybillError:
    place = f"{message.topic}, partition {message.partition}, offset {message.offset}"
    return WaybillError(
        f"{doing} at {place} failed with {type(error).__name__}: {error}; this is a fault of the "
        "envelope's code, not of the message: please report it"
    )


class ChangeBatches:
    """Decodes archive batches into rows of `changes`.

    Args:
        decoder: the source envelope's decoder.
        batch_id: the batch that brings the messages.
        joiner: joins the halves of updates, None where the envelope has none.
        bulk_reader: made of the decoder, says what the values of many messages mean; None where
            every message is decoded on its own.

    Attributes:
        messages: messages decoded so far.
        decoded: changes that they held.
    """

    def __init__(
        self,
        decoder: Decoder,
        batch_id: str,
        joiner: PairJoiner | None = None,
        bulk_reader: Callable[[Any], BulkReader] | None = None,
    ) -> None:
        self.decoder = decoder
        self._worth = Worth(None if bulk_reader is None else lambda: self._by_bulk(bulk_reader))
        self.batch_id = batch_id
        self.joiner = joiner
        self.messages = 0
        self.decoded = 0
        self._told: Bounded[TableSchema, bool] = Bounded()
        self._told[NO_TABLE] = True

    def convert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `changes` for every message of `batches`, halves without partner last."""
        for batch in batches:
            bulk = self._worth.of(batch.nbytes)
            if bulk is None:
                yield self.rows(self.changes(messages_of(batch)))
            else:
                yield bulk.rows(batch)
        if self.joiner is not None:
            rest = self.joiner.rest()
            if rest:
                yield self.rows(rest)

    def _by_bulk(self, reader: Callable[[Any], BulkReader]) -> BulkChangeBatches:
        from waybill.batches.bulk_decoding import BulkChangeBatches

        return BulkChangeBatches(self, reader(self.decoder))

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
        return _record_batch(rows, CHANGES)

    def tuples(self, changes: Iterable[Change]) -> list[tuple[Any, ...]]:
        """The rows of changes, a schema that is new here before its first one."""
        rows: list[tuple[Any, ...]] = []
        row = self._row
        for change in changes:
            if change.schema not in self._told:
                rows += self.schema_rows(change)
            rows.append(row(change))
        return rows

    def schema_rows(self, change: Change) -> list[tuple[Any, ...]]:
        """The row that tells the schema of a change, where none has done so yet."""
        told, schema = self._told, change.schema
        if schema in told:
            return []
        # One that was forgotten is told twice, which is harmless.
        told[schema] = told[NO_TABLE] = True
        return [self._schema_row(change)]

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

    def _schema_row(self, change: Change) -> tuple[Any, ...]:
        message, schema = change.message, change.schema
        row: dict[str, Any] = dict.fromkeys(CHANGES.names)
        row.update(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            index=change.index,
            batch=self.batch_id,
            operation="other",
            database=schema.database,
            schema=schema.schema,
            table=schema.table,
            schema_id=schema.id,
            extra=schema.to_json(),
            outcome="schema",
        )
        return tuple(row.values())


class MessageBatches:
    """Encodes rows of `changes` into rows of `outbox` for one target.

    Args:
        encoder: the target envelope's encoder.
        target: name of the target in the migration.
        batch_id: the batch that the messages belong to.
        schemas: every schema of the batch by its id.
        bulk_writer: made of the encoder, says where the values of many messages come from; None
            where every change is encoded on its own.
    """

    def __init__(
        self,
        encoder: Encoder,
        target: str,
        batch_id: str,
        schemas: dict[str, TableSchema],
        bulk_writer: Callable[[Any], BulkWriter] | None = None,
    ) -> None:
        self.encoder = encoder
        self.target = target
        self.batch_id = batch_id
        self.schemas = schemas
        self._worth = Worth(None if bulk_writer is None else lambda: self._by_bulk(bulk_writer))

    def convert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `outbox` for every change of `batches`."""
        for batch in batches:
            bulk = self._worth.of(batch.nbytes)
            if bulk is None:
                rows, _ = self.tuples(batch)
                yield self.batch_of(rows)
            else:
                yield bulk.rows(batch)

    def _by_bulk(self, writer: Callable[[Any], BulkWriter]) -> BulkMessageBatches:
        from waybill.batches.bulk_encoding import BulkMessageBatches

        return BulkMessageBatches(self, writer(self.encoder))

    @staticmethod
    def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """A record batch of rows of `outbox`."""
        return _record_batch(rows, OUTBOX)

    def tuples(self, batch: pa.RecordBatch) -> tuple[list[tuple[Any, ...]], list[int]]:
        """The rows of the changes of a batch, and how many each change has."""
        rows: list[tuple[Any, ...]] = []
        counts: list[int] = []
        for change in changes_of(batch, self.schemas):
            made = self._rows(change)
            rows += made
            counts.append(len(made))
        return rows, counts

    def _rows(self, change: Change) -> list[tuple[Any, ...]]:
        losses: list[str] = []
        outcome, kind, reason = "ok", None, None
        written: list[Encoded] = []
        try:
            written = self.encoder.encode(change, losses)
            if written:
                count_zones(change, losses)
        except Refusal as refusal:
            outcome, kind, reason = "refused", refusal.kind, refusal.sentence
            # What is refused is lost nowhere: it stands in quarantine.
            losses.clear()
        except WaybillError:
            raise
        except Exception as error:
            raise _fault("writing the change", change.message, error) from error
        else:
            if not written:
                outcome = "skipped"
        message = change.message
        # The lake keeps no time of the queue beside a change, but that of the source.
        micros = change.source_time if message.timestamp is None else message.timestamp * 1000
        return [
            (
                self.target,
                message.topic,
                message.partition,
                message.offset,
                change.index,
                i,
                self.batch_id,
                change.schema.qualified_name,
                change.order_key,
                micros,
                out.key,
                out.value,
                None if out.headers is None else [{"key": k, "value": v} for k, v in out.headers],
                (losses or None) if i == 0 else None,
                outcome,
                kind,
                reason,
            )
            for i, out in enumerate(written or _NO_MESSAGE)
        ]


_NO_MESSAGE = [Encoded(None, None)]


def changes_of(batch: pa.RecordBatch, schemas: dict[str, TableSchema]) -> Iterator[Change]:
    """The changes that rows of `changes` stand for (accepted rows only)."""
    columns = {name: batch.column(name) for name in CHANGE.names}
    columns["source_time"] = columns["source_time"].cast(pa.int64())
    for row in zip(*(column.to_pylist() for column in columns.values()), strict=True):
        (
            topic,
            partition,
            offset,
            index,
            operation,
            old_key,
            before,
            after,
            order,
            transaction,
            ddl_text,
            schema_id,
            extra,
            source_time,
        ) = row
        schema = NO_TABLE if schema_id is None else schemas[schema_id]
        decode = schema.image_decoder.decode
        moved_from = None
        if old_key is not None:
            moved_from = msgspec.json.decode(old_key, type=schema.Key)
        sequence, rank, full_row = read_order_key(order)
        yield Change(
            operation,
            schema,
            Message(topic, partition, offset, None, None, None),
            index,
            None if before is None else decode(before),
            None if after is None else decode(after),
            sequence,
            rank,
            full_row,
            None,
            moved_from,
            source_time,
            transaction,
            ddl_text,
            None if extra is None else extra.encode(),
        )


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = []
    for values, field in zip(columns, schema, strict=True):
        if pa.types.is_string(field.type):
            # JSON texts come as UTF-8 bytes; the view spares decoding and encoding them again.
            arrays.append(_text_array(values))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text_array(values: Sequence[Any]) -> pa.Array[Any]:
    try:
        return pa.array(values, pa.binary()).view(pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([v.decode() if isinstance(v, bytes) else v for v in values], pa.string())
