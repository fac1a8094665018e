"""A change as a few bytes, such that two that say the same have the same bytes.

What is compared is the effect on the table: which key is taken away, which key gets which row.
Names of database and schema are left out, some envelopes have no place for them. The weak digest
leaves out the row, for targets that say they cannot carry all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from operator import attrgetter
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from waybill.caches import Bounded
from waybill.records import ROW_OPERATIONS, Change, TableSchema

if TYPE_CHECKING:
    from waybill.errors import Refusal

_json = msgspec.json.Encoder().encode
_WRAP = (1 << 63) - 1


class Effect(NamedTuple):
    """One thing that a change does.

    Attributes:
        what: `put`, `take`, or the operation of a change without a row.
        table: name of the table.
        key: the key's columns and values, by name; the whole image where there is no key.
        row: the row's columns and values by name, None where there is none.
        id: the sequence id, part by part; None where there is none, as full rows have none.
    """

    what: str
    table: str | None
    key: tuple[tuple[str, str | None], ...]
    row: tuple[tuple[str, str | None], ...] | None
    id: tuple[int, ...] | None = None


class Digests(NamedTuple):
    """The digests of all effects of a change, whatever their order; that of their ids apart."""

    strong: int
    weak: int
    ids: int

    def with_bytes(self, parts: Iterable[tuple[bytes | None, ...]]) -> Digests:
        """These, where the bytes of messages count beside their ids."""
        hex_parts = [[None if one is None else one.hex() for one in part] for part in parts]
        return self._replace(ids=(self.ids + _number(_json(hex_parts))) & _WRAP)


def effects_of(change: Change) -> list[Effect]:
    """What a change does to its table.

    Raises:
        Refusal: a column of the key is not in the row.
    """
    schema, table = change.schema, change.schema.table
    id_ = None if change.full_row else change.sequence
    if change.operation not in ROW_OPERATIONS:
        return [Effect(change.operation, table, (), None, id_)]
    if change.after is None:
        return [_take(schema, change.key_image(), change.before, id_)]
    found = []
    # Where the old key was removed by a message of its own, that has this effect.
    old = None if change.moved_apart else change.old_key_image()
    if old is not None:
        found.append(_take(schema, old, None, id_))
    row = pairs(schema, change.after)
    key = change.key_image()
    found.append(Effect("put", table, row if key is None else key_pairs(schema, key), row, id_))
    return found


def _take(schema: TableSchema, key: Any, image: Any, id_: tuple[int, ...] | None) -> Effect:
    named = pairs(schema, image) if key is None else key_pairs(schema, key)
    return Effect("take", schema.table, named, None, id_)


def with_ids(effects: list[Effect], written: list[Effect] | None) -> list[Effect]:
    """The effects of a change with the ids that its messages have to carry.

    Args:
        effects: what the change does.
        written: what its messages do, written once more; None where the target has no ids.
    """
    ids = {effect.what: effect.id for effect in written or ()}
    return [effect._replace(id=ids.get(effect.what)) for effect in effects]


def pairs(schema: TableSchema, image: Any) -> tuple[tuple[str, str | None], ...]:
    """The columns of an image that are there, by name."""
    if image is None:
        return ()
    names, get, loose = _readers(schema)
    values = get(image)
    if loose:
        values = list(values)
        for i, plain in loose:
            if isinstance(values[i], str):
                values[i] = plain(values[i])
    return tuple(
        [(name, value) for name, value in zip(names, values, strict=True) if value is not UNSET]
    )


def _instant(text: str) -> str:
    """A time without zeros at the end of its fraction; envelopes that count ticks drop them."""
    if "." not in text:
        return text
    zone = "Z" if text.endswith("Z") else ""
    return text.removesuffix("Z").rstrip("0").removesuffix(".") + zone


def _float64(text: str) -> str:
    """The one text of a float: 4.9E-324 and 5e-324 are the same number."""
    try:
        return repr(float(text))
    except ValueError:
        return text


def _float32(text: str) -> str:
    try:
        return repr(unpack("<f", pack("<f", float(text)))[0])
    except (ValueError, OverflowError):
        return text


Plain = Callable[[str], str]

LOOSE: dict[str, Plain] = {
    "time": _instant,
    "timestamp": _instant,
    "timestamptz": _instant,
    "float64": _float64,
    "float32": _float32,
}
"""Types whose values have more than one text."""

ImageReaders = tuple[tuple[str, ...], Any, tuple[tuple[int, Plain], ...]]
_known: Bounded[TableSchema, ImageReaders] = Bounded()


def _readers(schema: TableSchema) -> ImageReaders:
    """Column names in order, what reads them from an image, and which of them have many texts."""
    found = _known.get(schema)
    if found is None:
        names = tuple(sorted(schema.names))
        kinds = [schema.columns[schema.index[name]].type.kind for name in names]
        loose = tuple((i, LOOSE[kind]) for i, kind in enumerate(kinds) if kind in LOOSE)
        fields = [f"f{schema.index[name]}" for name in names]
        found = _known[schema] = (names, _all(fields), loose)
    return found


def _all(fields: list[str]) -> Any:
    """Reads several fields as a tuple, also where there are one or none."""
    if len(fields) > 1:
        return attrgetter(*fields)
    return lambda image: tuple(getattr(image, field) for field in fields)


def key_pairs(schema: TableSchema, key: Any) -> tuple[tuple[str, str | None], ...]:
    """The columns of a key by name."""
    found = []
    for name, field in zip(schema.key or (), key.__struct_fields__, strict=True):
        value = getattr(key, field)
        at = schema.index.get(name)
        if at is not None and isinstance(value, str):
            plain = LOOSE.get(schema.columns[at].type.kind)
            value = value if plain is None else plain(value)
        found.append((name, value))
    return tuple(sorted(found))


def digests(effects: list[Effect]) -> Digests:
    """The digests of effects, whatever their order; one that is stated twice counts once."""
    strong = weak = ids = 0
    for effect in effects if len(effects) == 1 else dict.fromkeys(effects):
        identity = (effect.what, effect.table, effect.key)
        short = _number(_json(identity))
        weak += short
        strong += short if effect.row is None else _number(_json((*identity, effect.row)))
        # As a text: an id may be longer than numbers of JSON can be.
        ids += _number(_json((effect.what, str(effect.id))))
    return Digests(strong & _WRAP, weak & _WRAP, ids & _WRAP)


def _number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def difference(expected: list[Effect], found: list[Effect], weakened: bool) -> str | None:
    """The first difference between effects in words, None if they say the same."""
    mine, theirs = sorted(set(expected), key=_sort), sorted(set(found), key=_sort)
    if [e.what for e in mine] != [e.what for e in theirs]:
        return f"is {_named(theirs)} instead of {_named(mine)}"
    for one, other in zip(mine, theirs, strict=True):
        if one.table != other.table:
            return f"is about table {other.table!r} instead of {one.table!r}"
        if one.key != other.key and not (weakened and one.row == one.key):
            return f"has the key {dict(other.key)} instead of {dict(one.key)}"
        if one.id != other.id:
            return f"has {_shown_id(other.id)} instead of {_shown_id(one.id)}"
        if weakened or one.row == other.row:
            continue
        a, b = dict(one.row or ()), dict(other.row or ())
        for name in sorted(a.keys() | b.keys()):
            if a.get(name, UNSET) != b.get(name, UNSET):
                return (
                    f"has {_shown(b.get(name, UNSET))} in column {name!r} "
                    f"instead of {_shown(a.get(name, UNSET))}"
                )
    return None


def _sort(effect: Effect) -> tuple[str, str, str]:
    return effect.what, effect.table or "", repr(effect.key)


def _named(effects: list[Effect]) -> str:
    return " and ".join(effect.what for effect in effects) or "nothing"


def _shown_id(id_: tuple[int, ...] | None) -> str:
    return "no sequence id" if id_ is None else f"the sequence id {'.'.join(map(str, id_))}"


def _shown(value: Any) -> str:
    if value is UNSET:
        return "nothing"
    return "null" if value is None else repr(value[:80])


def broken(error: Refusal) -> str:
    """Why a message could not be read again."""
    return f"cannot be read again ({error})"
