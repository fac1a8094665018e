"""Column forms of all notations, held against their single forms at the edges of every type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from tests.histories import SOURCE_TYPES, column_of
from tests.value_texts import HARD, edges_of
from waybill.bulk.arena import Arena, Texts
from waybill.bulk.value_kinds import BAD
from waybill.envelopes.canal import values as canal
from waybill.envelopes.datahub.blob import values as blob
from waybill.envelopes.datahub.blob.columns import Number
from waybill.envelopes.datahub.tuple import values as tuples
from waybill.envelopes.dms import values as dms
from waybill.envelopes.maxwell import values as maxwell
from waybill.envelopes.maxwell.settings import MaxwellSettings
from waybill.envelopes.ogg import values as ogg
from waybill.envelopes.oms import values as oms
from waybill.envelopes.oms.dataworks.values import dataworks_style
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.tidb import values as tidb
from waybill.errors import Refusal
from waybill.types import LogicalType
from waybill.values.instants import Zone
from waybill.values.json_columns import Style, notation_of
from waybill.values.mysql_types import logical_type, name_of

if TYPE_CHECKING:
    from waybill.values.notation import ColumnForm, Notation

ZONES = [ZoneInfo("UTC"), ZoneInfo("Asia/Shanghai")]
STYLES: dict[str, Style] = {
    "plain": Style(),
    "digits": Style(digits=True),
    "quoted": Style(quoted=True),
    "inferred": Style().of_inferred(),
    "ogg": ogg.STYLE,
    "dms": dms.KAFKA,
    "dms-s3": dms.FILES,
    "maxwell": maxwell.style_of(MaxwellSettings()),
    "maxwell-zone": maxwell.style_of(MaxwellSettings(timezone="Asia/Shanghai")),
    **{
        f"oms-{version}-{zeros}": style_of(version, zeros)
        for version in ("3.3.0", "earlier")
        for zeros in (False, True)
    },
    **{
        f"dataworks-{zone.key}-{numbers}": dataworks_style("3.3.0", zone, numbers)
        for zone in ZONES
        for numbers in (False, True)
    },
}
COLUMNS = [
    column_of("v", kind, dialect) for dialect, kinds in SOURCE_TYPES.items() for kind in kinds
] + [
    column_of("v", kind, "")
    for kind in ("decimal(5,0)", "decimal(3,3)", "decimal(2,5)", "decimal(60,30)", "uint64")
]
"""A column of every type that a source has, and of decimals of every shape."""
WHOLE = LogicalType("number", scale=0)


class Codec(NamedTuple):
    """One direction of a notation."""

    name: str
    kind: LogicalType
    single: Callable[[str], Any]
    form: ColumnForm


def notations() -> Iterator[tuple[str, LogicalType, Notation]]:
    for column in COLUMNS:
        for zone in ZONES:
            yield (
                f"canal-{zone.key}",
                column.type,
                canal.notation_of(column.type, column.source_type, zone),
            )
        for name, style in STYLES.items():
            yield name, column.type, notation_of(column.type, style)
    for kind in (*(column.type for column in COLUMNS), WHOLE):
        for earlier in (False, True):
            for zeros in (False, True):
                found = oms.notation_of(kind, earlier, zeros)
                yield f"oms-default-{earlier}-{zeros}", kind, found


def tidb_notations() -> Iterator[tuple[str, LogicalType, Notation]]:
    """Types of columns as TiCDC states them: with sizes, without, and with declared ones."""
    for column in COLUMNS:
        stated = name_of(column.type)
        bare = stated.partition("(")[0]
        for text, declared in ((stated, None), (bare, None), (bare, column.type)):
            held = tidb.type_held(text, declared)
            kind = declared or logical_type(held)
            for zone in ZONES:
                yield f"tidb-{zone.key}", kind, canal.notation_of(kind, held, zone)
            written = tidb.type_to_write(text)
            yield "tidb-written", column.type, canal.notation_of(column.type, written, ZONES[0])


def datahub_notations() -> Iterator[tuple[str, LogicalType, Notation]]:
    """Every type of DataHub as it is, and with every type that may be declared for it."""
    for zone in map(Zone, ("UTC", "Asia/Shanghai")):
        for column in COLUMNS:
            for kind in (*blob.LOGICAL, "OTHER"):
                found = blob.notation_of(column, kind, zone)
                # The exact reader of a plain text is never asked.
                read = None if found.reads is None else found.read
                yield f"blob-{kind}", column.type, found._replace(read=read)
                if read is not None and kind not in ("STRING", "BOOLEAN"):
                    numbers = found._replace(read=_of_number(read, kind), write=None, writes=None)
                    yield f"blob-{kind}-number", column.type, numbers
            for kind in tuples.LOGICAL:
                yield f"tuple-{kind}", column.type, tuples.notation_of(column, kind, zone)


def _of_number(read: Callable[[Any], Any], kind: str) -> Callable[[str], Any]:
    """A reader of JSON numbers; the `-0` of integers is none that columns are asked for."""
    whole = kind in ("LONG", "DATE")
    return lambda text: read(text if whole and text == "-0" else Number(text))


def codecs() -> Iterator[Codec]:
    for name, kind, notation in (*notations(), *tidb_notations(), *datahub_notations()):
        for way, single, form in (
            ("read", notation.read, notation.reads),
            ("write", notation.write, notation.writes),
        ):
            if single is None or form is None:
                continue
            if way == "read" and notation.wire == "raw" and kind.kind == "timestamp":
                single = _of_string(single)
            yield Codec(f"{name}-{kind}-{way}", kind, single, form)


def _of_string(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of texts, of one that reads JSON."""
    return lambda text: read(msgspec.json.encode(text).decode())


CODECS = {codec.name: codec for codec in {(c.single, c.form, c.kind): c for c in codecs()}.values()}
"""Those that many styles share are there once."""

NUMBERS = [
    *("0", "-0", "00", "007", "-007", "1", "-1", "+1", "1.", ".5", "1.0", "-1.50", "-0.0", "-", ""),
    *("1e5", "1E5", "1.5e-3", "1e400", "NaN", "Infinity", "-Infinity", "abc", "0x1", "1,5", "１"),
    *(str(sign * 2**size + by) for size in (7, 8, 15, 16, 31, 32, 53, 63, 64) for by in (-1, 0, 1)
      for sign in (1, -1)),
    *("9" * size for size in (14, 15, 16, 17, 18, 19, 20, 21, 40, 5000)),
    *(f"0.{'0' * zeros}1" for zeros in (0, 1, 2, 4, 5, 9, 29, 30)),
    *("99.999", "999.99", "0.999", "0.12345", "100.00", "1.10", "123456.789012345", "1e+16"),
]  # fmt: skip
TIMES = [
    f"{day}{between}{clock}{zone}"
    for day in ("2024-02-29", "2023-02-29", "0000-00-00", "0001-01-01", "9999-12-31", "1969-12-31")
    for between in " T:"
    for clock in ("00:00:00", "23:59:59", "24:00:00", "01:02", "12:34:56.5", "12:34:56.500000",
                  "12:34:56.123456789", "12:34:56.1234567890", "12:34:56.", "23:59:60")
    for zone in ("", "Z", "+08:00", " +00:00", " Asia/Shanghai")
]  # fmt: skip
CLOCKS = ["00:00:00", "23:59:59.999999", "-838:59:59", "838:59:59.000", "12:30:00.50", "1:2:3", ""]
WORDS = ["true", "false", "True", "TRUE", "1", "0", "2", "", "null", "t"]
TEXTS = ["", " ", "a", "Änn 🚚", 'a"\\b\n\t', "\x01", "infinity", "2024-11-03 01:30:00"]


def texts_for(kind: LogicalType) -> list[str]:
    found = [*edges_of(kind), *HARD.get(kind.kind, [])] if kind != WHOLE else []
    return list(dict.fromkeys([*found, *NUMBERS, *TIMES, *CLOCKS, *WORDS, *TEXTS]))


def in_json(text: str) -> bytes:
    """A text as it stands in the JSON of a message, without quotes."""
    return msgspec.json.encode(text)[1:-1]


def one_by_one(codec: Codec, text: str) -> bytes | None:
    """What the single form makes of a text; None if it refuses it."""
    try:
        found = codec.single(text)
    except (Refusal, ValueError, IndexError, ArithmeticError):
        return None
    if found is None:
        return None
    return in_json(found) if isinstance(found, str) else msgspec.json.encode(found)


@pytest.mark.parametrize("name", sorted(CODECS))
def test_the_column_form_is_the_single_form(name):
    codec = CODECS[name]
    texts = texts_for(codec.kind)
    arena = Arena(b"")
    data = [in_json(text) for text in texts]
    starts = np.array([arena.add(text) for text in data], np.int64)
    given = Texts(starts, np.array([len(text) for text in data], np.int64))
    found = codec.form.convert()(arena, given)
    taken = 0
    for row, text in enumerate(texts):
        if found.lengths[row] != BAD:
            assert arena.text(found, row) == one_by_one(codec, text), repr(text)[:80]
            taken += 1
    assert taken, "the column form takes no text at all"


def test_every_form_is_used_and_loads():
    """A form whose name is wrong, or that no notation has, is found here."""
    assert len({codec.form.maker for codec in CODECS.values()}) >= 9
