"""Tables, keys and types that a migration declares, held against a sample of its messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.cli.findings import NOTE, OK, WRONG, Finding
from waybill.counting import counted
from waybill.errors import Refusal
from waybill.mapping.rules import fits, names_of
from waybill.row_times.typed import fault_of
from waybill.suggestions import did_you_mean
from waybill.types import TIMES, parse_type
from waybill.values.declared import check_for

if TYPE_CHECKING:
    from waybill.records import Change
    from waybill.spec.migration import Migration, Table
    from waybill.types import LogicalType


@dataclass
class SampledTable:
    """One table of the sample.

    Attributes:
        names: what a declaration may call it.
        columns: columns that its messages name.
    """

    names: tuple[str, ...]
    columns: set[str] = field(default_factory=set)


class Sampled(NamedTuple):
    """What a sample tells about tables.

    Attributes:
        changes: the changes as the migration decodes them.
        plain: the changes as they are without any declaration, so that a key column that does not
            exist does not hide the columns that do.
        whole: whether the sample is all that the source holds.
    """

    changes: list[Change]
    plain: list[Change]
    whole: bool

    def tables(self) -> dict[str, SampledTable]:
        """The tables of the sample by qualified name."""
        found: dict[str, SampledTable] = {}
        for change in (*self.changes, *self.plain):
            schema = change.schema
            if schema.table:
                table = found.setdefault(schema.qualified_name, SampledTable(names_of(schema)))
                table.columns.update(schema.names)
        return found


def check_tables(spec: Migration, sampled: Sampled) -> Iterator[Finding]:
    """Hold every declared table against the sample."""
    tables = sampled.tables()
    for name, declared in spec.tables.items():
        about = f"tables.{name}"
        fitting = [seen for seen in tables.values() if fits(seen.names, (name,))]
        if fitting:
            yield from _columns(about, declared, fitting, sampled)
        else:
            yield _unseen(about, name, list(tables), sampled.whole and name not in spec.full)


def _unseen(about: str, name: str, known: list[str], whole: bool) -> Finding:
    """What is wrong with the name of a table that the sample does not have."""
    longer = [table for table in known if table.endswith(f".{name}")]
    if longer:
        text = f"no table is called {name}: write it with its database, {' or '.join(longer)}"
        return Finding(about, WRONG, text)
    if whole and known:
        text = (
            f"no message of the source has a table {name}: fix the name, or leave it out until "
            f"there is one{did_you_mean(name, known)}"
        )
        return Finding(about, WRONG, text)
    text = (
        "no message of the sample has it, so its key and its types are not proven"
        f"{did_you_mean(name, known)}"
    )
    return Finding(about, NOTE, text)


def _columns(
    about: str, declared: Table, tables: list[SampledTable], sampled: Sampled
) -> Iterator[Finding]:
    known = sorted({column for table in tables for column in table.columns})
    for table in tables:
        for name in declared.key or ():
            if name not in table.columns:
                text = (
                    f"key: {table.names[0]} has no column {name}: name columns that its rows have"
                    f"{did_you_mean(name, known)}"
                )
                yield Finding(about, WRONG, text)
    for name in declared.columns:
        if name not in known:
            hint = did_you_mean(name, known)
            text = f"columns.{name}: no row of the sample has such a column{hint}"
            yield Finding(about, NOTE, text, {"column": name})
    types = {name: text for name, text in declared.columns.items() if name in known}
    names = {table.names[0] for table in tables}
    changes = [c for c in sampled.changes if c.schema.qualified_name in names]
    yield from _types(about, types, changes)


def _types(about: str, types: dict[str, str], changes: list[Change]) -> Iterator[Finding]:
    """Hold the values of declared columns against their types."""
    parsed = {name: parse_type(text) for name, text in types.items()}
    values: Counter[str] = Counter()
    faults: dict[str, str] = {}
    for change in changes:
        for name, text in _values(change):
            if name not in parsed or text is None:
                continue
            values[name] += 1
            if name not in faults and not is_value(text, parsed[name]):
                place = change.message
                where = f"{place.topic}/{place.partition}/{place.offset}"
                faults[name] = f"{where} says {text[:60]!r}"
    for name, fault in faults.items():
        sentence = (
            f"columns.{name}: {types[name]} does not hold the values of the sample ({fault}): "
            "declare the type that the source has"
        )
        yield Finding(about, WRONG, sentence, {"column": name})
    unproven = [name for name in types if name not in values]
    if unproven:
        sentence = f"no row of the sample has a value in {', '.join(unproven)}: types not proven"
        yield Finding(about, NOTE, sentence, {"columns": unproven})
    proven = [name for name in values if name not in faults]
    if proven:
        fit = counted(sum(values[n] for n in proven), "value fits", "values fit")
        sentence = f"{fit} the types of {', '.join(proven)}"
        yield Finding(about, OK, sentence, {"columns": proven})


def _values(change: Change) -> Iterable[tuple[str, str | None]]:
    for image in (change.before, change.after):
        if image is not None:
            yield from image_of(image).items()


def image_of(image: Any) -> Mapping[str, str | None]:
    """The columns that an image tells, with their texts."""
    plain: dict[str, str | None] = msgspec.to_builtins(image)
    return plain


def is_value(text: str, type_: LogicalType) -> bool:
    """Whether a text is a value of a declared type."""
    from waybill.merge.columns import finer_time, lake_type
    from waybill.merge.exact_casts import fits

    if finer_time(type_):
        # The lake has it as text, which anything fits; without what is finer it is a time or none.
        coarser = re.sub(r"([.]\d{6})\d+", r"\1", text, flags=re.ASCII)
        return fits(coarser, lake_type(type_._replace(precision=None)))
    if type_.kind in TIMES and fault_of(type_.kind, text) is not None:
        return False
    check = check_for(type_) if type_.is_integer or type_.kind in ("decimal", "bit") else None
    if check is not None:
        try:
            check(text)
        except Refusal:
            return False
        return True
    return fits(text, lake_type(type_))
