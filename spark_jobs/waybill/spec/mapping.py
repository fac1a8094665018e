"""What a migration, or one of its targets, chooses of its tables and columns."""

from __future__ import annotations

import re
import string
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from waybill.connections import get_connection
from waybill.errors import Code, ConfigurationError
from waybill.mapping.rules import Added, Join, MappingRule, Mask, Rules
from waybill.name_patterns import is_pattern
from waybill.spec.model import Model

_PARTS = ("database", "schema", "table")

_FIELD = re.compile(r"\{\w+\}")
"""A part of the old name in a template."""


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


Patterns = Annotated[list[str], BeforeValidator(_listed)]
"""One name or pattern, or a list of them."""


class Selection(Model):
    """Which tables are included, by names or patterns such as `shop.*`.

    Changes of other tables are skipped and counted as `not selected`.
    """

    include: Patterns = Field(default_factory=list)
    """Tables that are included; unset, all are."""
    exclude: Patterns = Field(default_factory=list)
    """Tables that are left out, whatever `include` says."""


class Names(Model):
    """New names of a table, in which `{database}`, `{schema}` and `{table}` are the old ones."""

    database: str | None = None
    """Name of the database."""
    schema_: str | None = Field(default=None, alias="schema")
    """Name of the schema, for sources that have them."""
    table: str | None = None
    """Name of the table."""

    @field_validator("database", "schema_", "table")
    @classmethod
    def _template(cls, text: str | None) -> str | None:
        try:
            parsed = string.Formatter().parse(text or "")
            known = [part for _, part, _, _ in parsed if part is not None]
        except ValueError:
            known = [""]
        if any(part not in _PARTS for part in known):
            raise ValueError("only {database}, {schema} and {table} have a meaning here:")
        if text == "":
            raise ValueError("a name cannot be empty; leave it out to keep it as it is:")
        return text

    def given(self) -> dict[str, str]:
        """The templates that are there, by part."""
        parts = {"database": self.database, "schema": self.schema_, "table": self.table}
        return {part: text for part, text in parts.items() if text is not None}


class FixedText(Model):
    """A mask that is the same for all values."""

    text: str
    """What replaces every value."""


class KeyedHash(Model):
    """A mask that nobody without its key can guess."""

    hmac: str
    """Name of the connection whose password is the key."""


class ConstantColumn(Model):
    """A new column with one value."""

    constant: str
    """The value."""


_MASKS = ("null", "sha256", "last4")
_ADDED = ("database", "schema", "table", "source_time", "operation", "sequence")


def _mask_rule(given: Any) -> Any:
    """One of the words, or one of the models that is meant."""
    if given is None or given in _MASKS:
        return given or "null"
    for model in (FixedText, KeyedHash):
        if isinstance(given, model) or _has_only(given, *model.model_fields):
            return model.model_validate(given)
    raise ValueError("is not a mask: write null, sha256, last4, {text: …} or {hmac: connection};")


def _added_column(given: Any) -> Any:
    if given in _ADDED:
        return given
    if isinstance(given, ConstantColumn) or _has_only(given, "constant"):
        return ConstantColumn.model_validate(given)
    raise ValueError(f"is not a new column: write {', '.join(_ADDED)} or {{constant: …}};")


def _has_only(given: Any, name: str) -> bool:
    return isinstance(given, dict) and list(given) == [name] and isinstance(given[name], str)


MaskRule = Annotated[
    Literal["null", "sha256", "last4"] | FixedText | KeyedHash, BeforeValidator(_mask_rule)
]
AddedColumn = Annotated[
    Literal["database", "schema", "table", "source_time", "operation", "sequence"] | ConstantColumn,
    BeforeValidator(_added_column),
]


class Columns(Model):
    """How columns are mapped, by their names in the source.

    `keep`, `drop` and `mask` take patterns such as `*_note`.
    """

    keep: Patterns | None = None
    """Columns to keep; unset, all are kept. It must include the key columns."""
    drop: Patterns = Field(default_factory=list)
    """Columns to drop; key columns cannot be dropped."""
    rename: dict[str, str] = Field(default_factory=dict)
    """New names by old ones."""
    mask: dict[str, MaskRule] = Field(default_factory=dict)
    """What replaces the values: `null`, `sha256`, `last4`, `{text: …}` or `{hmac: connection}`.
    Null stays null. Key columns allow only `sha256` and `hmac`."""
    add: dict[str, AddedColumn] = Field(default_factory=dict)
    """New columns: a `{constant: …}`; the `database`, `schema` or `table` that the source names; or
    the `source_time`, `operation` or `sequence` of the change."""


class Shards(Model):
    """How tables are joined into one; see [Shards](mapping.md#shards)."""

    column: str = Field(pattern=r"^\w+$")
    """A new column with the name of the table that a row is from, such as `shop_1.orders_1`."""
    keys: Literal["by_shard", "distinct"] = "by_shard"
    """`by_shard` adds the column to the key. `distinct` declares that no two tables share a key; a
    batch in which two do stops."""
    defaults: Literal["stop", "shared"] = "stop"
    """What a statement does that adds a column with a default to one of the tables: the batch
    stops, or rows of all tables get the default (`shared`)."""

    def rule(self) -> Join:
        """It as plain data."""
        return Join(self.column, self.keys == "by_shard", self.defaults == "shared")


class TableMapping(Model):
    """How the tables that a rule names are mapped.

    All rules that name a table apply; if two set the same thing, the first one counts.
    """

    tables: Patterns = Field(min_length=1)
    """Names or patterns of tables, as the source names them."""
    rename: Names = Field(default_factory=Names)
    """New names of the tables."""
    columns: Columns = Field(default_factory=Columns)
    """How their columns are mapped."""
    where: str | None = Field(default=None, min_length=1)
    """A [condition](mapping.md#rows) in SQL that rows must meet; names are those of the source."""
    join: Shards | None = None
    """Joins all matching tables into [one](mapping.md#shards). Only in the migration's `map`, not
    in that of a target."""

    @model_validator(mode="after")
    def _one_name_each(self) -> TableMapping:
        """Refuse a rule that gives many tables one name, unless it joins them."""
        given = self.rename.given()
        if self.join is not None:
            if "{table}" in given.get("table", "{table}"):
                raise ValueError("join needs a rename.table that is the same for all tables:")
            return self
        many = [pattern for pattern in self.tables if is_pattern(pattern.rpartition(".")[2])]
        if "table" in given and many and "{table}" not in given["table"]:
            message = (
                f"rename.table would give all tables of {many[0]!r} one name; write {{table}} "
                "where the old name belongs, e.g. '{table}_v2':"
            )
            raise ValueError(message)
        return self

    def rule(self) -> MappingRule:
        """The rule as plain data.

        Raises:
            ConfigurationError: a connection with the key of a mask is missing, or has no password.
        """
        columns = self.columns
        return MappingRule(
            tuple(self.tables),
            self.rename.given(),
            None if columns.keep is None else tuple(columns.keep),
            tuple(columns.drop),
            dict(columns.rename),
            {name: _mask(mask) for name, mask in columns.mask.items()},
            {name: _added(what) for name, what in columns.add.items()},
            self.where,
            None if self.join is None else self.join.rule(),
        )

    @property
    def connections(self) -> list[str]:
        """Names of the connections with keys of masks."""
        return [mask.hmac for mask in self.columns.mask.values() if isinstance(mask, KeyedHash)]


def check_joins(tables: list[TableMapping]) -> None:
    """See that rules which make one table join it in one way.

    Raises:
        ValueError: two do not.
    """
    first: dict[tuple[tuple[str, str], ...], tuple[int, Shards]] = {}
    for number, table in enumerate(tables):
        if table.join is None:
            continue
        name = tuple(sorted(table.rename.given().items()))
        other, join = first.setdefault(name, (number, table.join))
        if join != table.join:
            message = (
                f"map[{other}] and map[{number}] make one table and join it in two ways; give both "
                "the same join, or other names under rename:"
            )
            raise ValueError(message)


def joined_names(tables: list[TableMapping]) -> tuple[str, ...]:
    """Names or patterns of the tables that several become, as the lake names them."""
    found = []
    for one in tables:
        if one.join is None:
            continue
        given = {part: _FIELD.sub("*", text) for part, text in one.rename.given().items()}
        table = given["table"]
        for pattern in one.tables:
            space = given.get("database") or pattern.rpartition(".")[0] or "*"
            if "schema" in given:
                found.append(f"{space.partition('.')[0]}.{given['schema']}.{table}")
            else:
                # The source may have a schema between the two.
                found += [f"{space}.{table}", f"{space}.*.{table}"]
    return tuple(dict.fromkeys(found))


def rules_of(select: Selection, tables: list[TableMapping]) -> Rules:
    """A mapping as plain data.

    Raises:
        ConfigurationError: see `TableMapping.rule`.
    """
    return Rules(
        tuple(select.include), tuple(select.exclude), tuple(table.rule() for table in tables)
    )


def _mask(mask: str | FixedText | KeyedHash) -> Mask:
    if isinstance(mask, str):
        return Mask(mask)
    if isinstance(mask, FixedText):
        return Mask("text", mask.text)
    key = get_connection(mask.hmac).password
    if not key:
        message = (
            f"the connection {mask.hmac} has no password, and a mask takes its key from there: set "
            "the password of the connection"
        )
        raise ConfigurationError(message, code=Code.CONNECTION_INVALID)
    return Mask("hmac", key)


def _added(what: str | ConstantColumn) -> Added:
    return Added(what) if isinstance(what, str) else Added("constant", what.constant)
