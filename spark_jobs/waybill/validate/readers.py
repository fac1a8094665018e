"""How the messages to publish are read again: with their own envelope's decoder, by known types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.errors import Code, ConfigurationError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import NO_RULES, Rules
from waybill.tables import TableRule, TableRules
from waybill.types import with_digits
from waybill.validate.message_effects import Expected, Writer, writer_of

if TYPE_CHECKING:
    from waybill.protocol import Decoder, Envelope
    from waybill.records import TableSchema
    from waybill.spec.endpoints import Source, Target


@dataclass(frozen=True)
class TargetReader:
    """How the messages of one target are read again; plain data for the tasks."""

    envelope: str
    settings: dict[str, Any]
    rules: TableRules
    writer: Writer | None = None
    """How its changes are written, where its messages have sequence ids."""
    mapping: Rules = NO_RULES
    """What the target chooses and renames of the changes before they are written."""

    def decoder(self) -> Decoder:
        """A decoder for one task."""
        envelope = registry.get(self.envelope)
        if envelope.decoder is None:
            raise ValueError(f"{self.envelope} is not read")
        return envelope.decoder(envelope.decode_settings.model_validate(self.settings), self.rules)

    def with_types_of(self, schema: TableSchema) -> TargetReader:
        """The reader of changes of one schema: it has their types, also of columns that had others.

        Without it such columns have none, because messages do not say which schema is theirs.

        Args:
            schema: as the target has it.
        """
        return replace(self, rules=rules_of([schema]))

    def expected(self) -> Expected:
        """What messages have to say, for one task."""
        return Expected(self.writer, self.decoder())

    @property
    def own_digests(self) -> tuple[str, ...]:
        """Which digests of a change are worked out for this target alone."""
        own = ("strong", "weak") if self.mapping else ()
        return (*own, *(() if self.writer is None else ("ids",)))

    def bulk_reader(self) -> Callable[[Any], Any] | None:
        """What reads messages in bulk, made of a decoder; None where each is read alone."""
        envelope = registry.get(self.envelope)
        read_settings = envelope.decode_settings.model_validate(self.settings)
        return envelope.bulk_reader if read_settings.in_bulk else None


def check_named(labels: Iterable[str], named: Iterable[str], dropped: Iterable[str]) -> None:
    """See that the gate can read every message that may be sent.

    Should its target come back before the batch is published, it would be sent unread.

    Args:
        labels: targets that messages wait for.
        named: those of the migration.
        dropped: those that it leaves out.

    Raises:
        ConfigurationError: one is neither.
    """
    strange = sorted({*labels} - {*named, *dropped})
    if strange:
        message = (
            f"messages wait for the target {strange[0]!r}, which the migration no longer names, "
            "so the gate cannot read them and let nothing through: restore the name of the target "
            f"(name: {strange[0]}), or write dropped_targets: [{strange[0]}] to leave them out"
        )
        raise ConfigurationError(message, code=Code.TARGET_REMOVED)


def readers_of(
    source: Source,
    targets: Iterable[Target],
    schemas: Iterable[TableSchema],
    ids: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, TargetReader]:
    """A reader for every target whose envelope can be read, who knows the tables' types.

    Args:
        source: the source.
        targets: the targets.
        schemas: the schemas of the changes.
        ids: settings that the targets' ids were written with, by target.
    """
    schemas = list(schemas)
    rules = rules_of(schemas)
    found = {}
    for target in targets:
        envelope = registry.get(target.envelope)
        if envelope.decoder is not None:
            settings = reading_settings(target, source)
            writer = writer_of(target, source, ids.get(target.label, {}))
            mapping = target.mapping()
            read_by = rules_of(_mapped(mapping, schemas)) if mapping else rules
            found[target.label] = TargetReader(target.envelope, settings, read_by, writer, mapping)
    return found


def _mapped(rules: Rules, schemas: Iterable[TableSchema]) -> list[TableSchema]:
    """The schemas as a target makes them, without those of tables that it leaves out."""
    mapping = ChangeMapper(rules)
    return [mapped.schema for schema in schemas if (mapped := mapping.of(schema)) is not None]


def reading_settings(target: Target, source: Source) -> dict[str, Any]:
    """Settings for reading what a target writes: those that both sides call the same.

    A topic without sequence ids stays one in the envelopes of its family.
    """
    envelope = registry.get(target.envelope)
    follows = envelope.encode_settings.following(registry.get(source.envelope), source.settings)
    written = envelope.encode_settings.model_validate({**follows, **target.settings})
    settings = common_settings(envelope, written)
    family = registry.get(source.envelope).unnumbered
    if family and family == envelope.unnumbered and "sequence_ids" in source.settings:
        settings["sequence_ids"] = source.settings["sequence_ids"]
    return settings


def common_settings(envelope: Envelope, written: Any) -> dict[str, Any]:
    """The settings of writing that reading has under the same name and takes.

    Args:
        envelope: the envelope.
        written: its settings of writing.
    """
    settings: dict[str, Any] = {}
    for name in envelope.decode_settings.model_fields:
        value = getattr(written, name, None)
        if value is None:
            continue
        try:
            envelope.decode_settings.model_validate({name: value})
        except ValidationError:
            # One that only has the same name.
            continue
        settings[name] = value
    return settings


def rules_of(schemas: Iterable[TableSchema]) -> TableRules:
    """Keys and types of the tables as the source gave them; what changed meanwhile is left out."""
    keys: dict[str, set[Any]] = {}
    types: dict[str, dict[str, set[Any]]] = {}
    for schema in schemas:
        if schema.table is None:
            continue
        for name in {schema.qualified_name, f"{schema.database}.{schema.table}"}:
            keys.setdefault(name, set()).add(schema.key)
            columns = types.setdefault(name, {})
            for column in schema.columns:
                if column.type.kind != "unknown":
                    columns.setdefault(column.name, set()).add(
                        with_digits(column.type, column.source_type)
                    )
    return TableRules(
        {
            name: TableRule(
                next(iter(keys[name])) if len(keys[name]) == 1 else None,
                {column: next(iter(found)) for column, found in columns.items() if len(found) == 1},
            )
            for name, columns in types.items()
        },
        # What is read again was taken once, whatever the limit was.
        max_columns=sys.maxsize,
    )
