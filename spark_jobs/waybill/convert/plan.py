"""What a migration converts from and to, checked before anything moves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from waybill.convert.full_loads import WithFullLoads
from waybill.envelopes import registry
from waybill.errors import Code, ConfigurationError, LossError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import NO_RULES, Rules, fits
from waybill.storage.open import open_storage
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from waybill.batches.encoding import MessageBatches
    from waybill.batches.mapped_encoding import MappedMessageBatches
    from waybill.mapping.changes import Bags
    from waybill.protocol import Encoder, Envelope, Settings
    from waybill.records import TableSchema
    from waybill.spec.migration import Migration
    from waybill.tables import TableRules


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """How messages are decoded; plain data, so that it crosses to the workers.

    Rows of table dumps are among them: the archive keeps those that the file may name no more.
    """

    envelope: Envelope
    settings: Settings
    rules: TableRules
    mapping: Rules = NO_RULES
    """What is chosen and renamed of what they say."""

    @property
    def bags(self) -> Bags:
        """How changes of tables without a key are distinguished; see `ChangeMapper`."""
        envelope = self.envelope
        ids = "sequence_id" in envelope.carries or "sequence_id" in envelope.partly
        return "id" if ids else "place"

    def decoder(self) -> WithFullLoads:
        """A decoder for one task."""
        if self.envelope.decoder is None:
            message = f"{self.envelope.name!r} cannot be read; see `waybill envelopes`"
            raise ConfigurationError(message, code=Code.ENVELOPE)
        return WithFullLoads(self.envelope.decoder(self.settings, self.rules), self.rules)

    def bulk_reader(self) -> Callable[[Any], Any] | None:
        """What reads messages in bulk, made of a decoder; None where each is read alone."""
        make = self.envelope.bulk_reader if self.settings.in_bulk else None
        return None if make is None else lambda decoder: make(decoder.decoder)


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """How changes are encoded for one target; plain data, so that it crosses to the workers."""

    label: str
    envelope: Envelope
    settings: Settings
    mapping: Rules = NO_RULES
    """What is chosen and renamed for it."""

    def encoder(self, trial: bool = False) -> Encoder:
        """An encoder for one task, or for messages that go nowhere."""
        if self.envelope.encoder is None:
            message = f"{self.envelope.name!r} cannot be written; see `waybill envelopes`"
            raise ConfigurationError(message, code=Code.ENVELOPE)
        return self.envelope.encoder(self.settings.for_trial() if trial else self.settings)

    def check_names(
        self, schemas: Iterable[TableSchema], names: Mapping[str, str] | None
    ) -> dict[str, str] | None:
        """See that the mapping fits the tables of a batch, and gives no two tables one name.

        Args:
            schemas: those of the batch.
            names: what tables were called before, the lake's names by those of the target; None
                where no table ever got another name.

        Returns:
            The same with the tables of the batch.

        Raises:
            ConfigurationError: it does not fit, or gives two one name, of this batch or earlier
                ones.
        """
        mapper = ChangeMapper(self.mapping)
        mapper.names.update(names or {})
        for schema in schemas if self.mapping or names else ():
            mapper.of(schema)
        return None if names is None else mapper.names

    def names_at_first(self, tables: Iterable[str]) -> dict[str, str]:
        """What tables are called that a target may have got before anything was renamed.

        Args:
            tables: those of the lake by then, by its names.
        """
        return {name: name for name in tables if self.mapping.chooses(name)}

    def batches(
        self, batch_id: str, schemas: dict[str, TableSchema]
    ) -> MessageBatches | MappedMessageBatches:
        """What encodes rows of `changes`, for one task.

        Args:
            batch_id: the batch that the messages belong to.
            schemas: every schema of the batch by its id.
        """
        from waybill.batches.encoding import MessageBatches

        given = (self.encoder(), self.label, batch_id, schemas, self.envelope.bulk_writer)
        if not self.mapping:
            return MessageBatches(*given)
        from waybill.batches.mapped_encoding import MappedMessageBatches

        return MappedMessageBatches(self.mapping, *given)


@dataclass(frozen=True, slots=True)
class ConvertPlan:
    """What a migration converts from and to."""

    reading: DecodePlan
    writings: tuple[EncodePlan, ...]


def make_plan(spec: Migration) -> ConvertPlan:
    """The plan of a migration.

    Raises:
        ConfigurationError: an envelope is not known, not read or not written, or a setting is
            wrong.
        LossError: a target cannot carry what the source holds, and `on_loss: fail` is set.
    """
    source = registry.get(spec.source.envelope)
    _check_reloads(spec, source)
    given = dict(spec.source.settings)
    if spec.source.schemas is not None and spec.source.schemas.file is not None:
        given["schemas"] = _schemas(spec.source.schemas.file, source)
    reading = DecodePlan(
        source,
        settings_of(source.decode_settings, given, source, "source.settings"),
        spec.rules,
        spec.mapping(),
    )
    if source.pairs and reading.mapping.conditions:
        message = (
            f"map.where: messages of {source.name} bring an update in two halves, of which neither "
            "shows alone whether the row meets a condition: move where to the targets, which get "
            "whole updates"
        )
        raise ConfigurationError(message, code=Code.MAPPING)
    _check_dumps(spec, reading.mapping)
    reading.decoder()
    writings = []
    for number, target in enumerate(spec.publish):
        envelope = registry.get(target.envelope)
        if spec.on_loss == "fail":
            _refuse_losses(source, envelope, target.settings, spec.source.settings)
        place = f"publish[{number}].settings"
        settings = settings_of(envelope.encode_settings, target.settings, envelope, place)
        settings = settings.for_source(source, reading.settings)
        writings.append(EncodePlan(target.label, envelope, settings, target.mapping()))
        writings[-1].encoder()
    return ConvertPlan(reading, tuple(writings))


def _check_dumps(spec: Migration, mapping: Rules) -> None:
    for table in spec.full:
        for rule in mapping.of_tables:
            if rule.join is not None and fits((table,), rule.tables):
                message = (
                    f"full.{table}: a dump replaces the rows of the joined table, of which those "
                    "of this one are a part: leave it out, and have the source send full rows"
                )
                raise ConfigurationError(message, code=Code.MAPPING)


def _check_reloads(spec: Migration, source: Envelope) -> None:
    reloads = [table for table, dump in spec.full.items() if dump.as_of is not None]
    if reloads and "sequence_id" not in source.carries and "sequence_id" not in source.partly:
        message = (
            f"full.{reloads[0]}.as_of: the messages of {source.name} have no sequence id that it "
            "could be compared with: leave it out, and load the table under a new migration name"
        )
        raise ConfigurationError(message, code=Code.DUMP_WITHOUT_SEQUENCE)


def settings_of(
    model: type[Settings], given: dict[str, Any], envelope: Envelope, place: str
) -> Settings:
    """An envelope's settings from plain data.

    Raises:
        ConfigurationError: names every setting that is wrong.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        wrong = []
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            name = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                hint = did_you_mean(name, model.model_fields)
                wrong.append(f"{place}.{name} is not a setting of {envelope.name}{hint}")
            else:
                wrong.append(f"{place}.{name}: {item['msg']}")
        raise ConfigurationError("; ".join(wrong), code=Code.ENVELOPE_SETTING) from error


def _schemas(path: str, envelope: Envelope) -> Any:
    if "schemas" not in envelope.decode_settings.model_fields:
        message = f"messages of {envelope.name} describe themselves: leave source.schemas out"
        raise ConfigurationError(message, code=Code.ENVELOPE_SETTING)
    fs, name = open_storage(path)
    try:
        with fs.open(name, "rb") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read as JSON ({error}); name a file in source.schemas.file"
        raise ConfigurationError(message, code=Code.SCHEMA_FILE) from error


def _refuse_losses(
    source: Envelope, target: Envelope, settings: dict[str, Any], read: dict[str, Any]
) -> None:
    losses = source.losses_to(target, settings, read)
    if losses:
        sentences = "; ".join(losses.values())
        message = (
            f"{source.name} to {target.name} would lose something, and on_loss: fail forbids it "
            f"({sentences}): publish another envelope, or set on_loss: report"
        )
        raise LossError(message)
