"""One conversion of a file: what is read, what is written, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.inprocess.converter import Converter, Refuse
from waybill.inprocess.lines import STANDARD
from waybill.suggestions import did_you_mean
from waybill.tables import TableRules

if TYPE_CHECKING:
    from waybill.inprocess.block_converter import BulkConverter
    from waybill.mapping.changes import ChangeMapper
    from waybill.mapping.rules import Rules
    from waybill.protocol import Envelope, Settings


@dataclass(frozen=True)
class ConvertJob:
    """A conversion; plain data, so that it crosses to worker processes.

    Attributes:
        source: name of the envelope that is read.
        target: name of the envelope that is written.
        input: a file, or `-`.
        output: a file, or `-`.
        decode_settings: settings for reading.
        encode_settings: settings for writing.
        rules: declared tables.
        mappings: what becomes of changes before they are written, one after the other; names of
            each are those that the one before it gives.
    """

    source: str
    target: str
    input: str
    output: str
    decode_settings: Mapping[str, Any] = field(default_factory=dict)
    encode_settings: Mapping[str, Any] = field(default_factory=dict)
    rules: TableRules = field(default_factory=TableRules)
    mappings: tuple[Rules, ...] = ()

    @property
    def topic(self) -> str:
        """Name of the topic that the input stands for: the file's name before its first dot."""
        return stem(self.input)

    @property
    def target_topic(self) -> str:
        """Name of the topic that the output stands for."""
        return stem(self.output)

    def declared_losses(self) -> dict[str, str]:
        """What the target cannot carry, as the declarations say it."""
        source, target = registry.get(self.source), registry.get(self.target)
        return source.losses_to(target, self.encode_settings, self.decode_settings)

    def converter(self, refuse: Refuse, keep_halves: bool = False, wait: bool = False) -> Converter:
        """A converter for this job.

        Args:
            refuse: see `Converter`, as for the others.
            keep_halves: whether halves that are open are left to the caller.
            wait: whether rows after wait for their row before.

        Raises:
            ConfigurationError: an envelope is not known, not read or not written, or a setting is
                wrong.
        """
        source, target = registry.get(self.source), registry.get(self.target)
        return Converter(
            source,
            target,
            self.rules,
            checked_settings(source.decode_settings, self.decode_settings, source, "from"),
            checked_settings(target.encode_settings, self.encode_settings, target, "to"),
            refuse,
            keep_halves,
            wait,
            self._mappers(),
        )

    def _mappers(self) -> list[ChangeMapper]:
        if not self.mappings:
            return []
        from waybill.mapping.changes import ChangeMapper

        # Types are declared by the source's names, and go with their columns from there.
        first, *others = self.mappings
        return [ChangeMapper(first, self.rules), *map(ChangeMapper, others)]

    @property
    def by_bulk(self) -> bool:
        """Whether both envelopes can convert messages in bulk, with their settings."""
        source, target = registry.get(self.source), registry.get(self.target)
        if self.mappings or source.bulk_reader is None or target.bulk_writer is None:
            return False
        checked = checked_settings(source.decode_settings, self.decode_settings, source, "from")
        return checked.in_bulk

    @property
    def lines_by_bulk(self) -> bool:
        """Whether lines can be converted in bulk.

        Messages that are not JSON may hold line feeds, and are looked at individually.
        """
        source, target = registry.get(self.source), registry.get(self.target)
        return self.by_bulk and not source.is_binary and not target.is_binary

    def bulk(self, converter: Converter) -> BulkConverter:
        """A converter of messages in bulk, where `by_bulk` holds.

        Args:
            converter: one of this job, which takes what has to be converted on its own.
        """
        from waybill.inprocess.block_converter import BulkConverter

        return BulkConverter(registry.get(self.source), registry.get(self.target), converter)


def checked_settings(
    model: type[Settings], values: Mapping[str, Any], envelope: Envelope, side: str
) -> Settings:
    """Settings of an envelope from plain values.

    Raises:
        ConfigurationError: names every wrong setting of them.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        wrong = []
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            name = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                hint = did_you_mean(name, model.model_fields)
                wrong.append(f"{side}.{name} is not a setting of {envelope.name}{hint}")
            elif item["type"] == "missing":
                wrong.append(f"{side}.{name} is missing: {envelope.name} requires it")
            else:
                sentence = item["msg"].removeprefix("Value error, ")
                wrong.append(f"{side}.{name}: {sentence}")
        raise ConfigurationError("\n".join(wrong)) from error


def stem(path: str) -> str:
    """The topic that a file stands for."""
    if path == STANDARD:
        return "messages"
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return name.split(".", 1)[0] or "messages"
