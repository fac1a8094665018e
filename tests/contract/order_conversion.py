"""What messages of a source become in a target, one after the other and many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.bulk.arena import Arena
from waybill.bulk.block import Block, Scanned
from waybill.envelopes import registry
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.contract.order_sources import Source
    from waybill.protocol import Encoded
    from waybill.records import Message

Row = dict[str, Any]
RULES = TableRule(("id",), {"id": parse_type("int64"), "v": parse_type("string")})
NAMES = ("shop.t", "shop.public.t", "shop.S.t", "shop.dbo.t", "SOURCEDB.shop.t")


def converter_of(
    source: Source, target: str, written: Row, refused: list[Any]
) -> tuple[Converter, Any, Any]:
    """A converter that knows nothing yet, and the envelopes."""
    reads, writes = registry.get(source.envelope), registry.get(target)
    converter = Converter(
        reads,
        writes,
        TableRules(dict.fromkeys(NAMES, RULES)),
        reads.decode_settings(**dict(source.settings)),
        writes.encode_settings(**written),
        lambda message, _, kind, why: refused.append((kind, why, message)),
    )
    return converter, reads, writes


def converted(
    source: Source, target: str, written: Row, batches: Iterable[list[Message]]
) -> tuple[list[Encoded], dict[str, int]]:
    """The written messages, each batch by a converter of its own, and the made ids of the last."""
    found: list[Encoded] = []
    made: dict[str, int] = {}
    for batch in batches:
        refused: list[Any] = []
        converter, _, _ = converter_of(source, target, written, refused)
        converter.convert(batch, found, [])
        assert not refused
        assert not converter.finish()
        made = converter.account.made_ids.counts()
    return found, made


def in_bulk(source: Source, target: str) -> bool:
    """Whether many messages can be converted at once."""
    reads, writes = registry.get(source.envelope), registry.get(target)
    return reads.bulk_reader is not None and writes.bulk_writer is not None


def converted_at_once(
    source: Source, target: str, written: Row, messages: list[Message]
) -> tuple[list[bytes], int, dict[str, int]]:
    """The written values, how many changes were converted at once, and the ids that were made."""
    converter, reads, writes = converter_of(source, target, written, [])
    bulk = BulkConverter(reads, writes, converter, fewest=1)
    found: list[bytes] = []
    for first in range(0, len(messages), 20):
        part = messages[first : first + 20]
        texts = [*(m.value or b"" for m in part), *(m.key or b"" for m in part)]
        sizes = np.array([len(text) for text in texts])
        ends = np.cumsum(sizes)
        begins, many, arena = ends - sizes, len(part), Arena(b"".join(texts))
        keys = Scanned(arena, np.where(sizes > 0, begins, -1)[many:], ends[many:])
        places = [np.array([getattr(m, n) for m in part]) for n in ("partition", "offset")]
        times = np.full(len(part), 1_700_000_000_000)
        bounds = begins[:many], ends[:many]
        block = Block(arena, *bounds, *places, times, part.__getitem__, keys)
        found += [v for v in bulk.convert(block).arrays()[1].to_pylist() if v is not None]
    return found, bulk.in_bulk, converter.account.made_ids.counts()
