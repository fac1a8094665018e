"""Options that several commands read the same way: settings of envelopes, schemas, tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.inprocess.job import checked_settings
from waybill.suggestions import did_you_mean
from waybill.tables import MAX_COLUMNS, TableRules

if TYPE_CHECKING:
    from pydantic import BaseModel

    from waybill.protocol import Decoder, Envelope


def setting_value(text: str) -> Any:
    """The value of a setting: lists and mappings are JSON, everything else is text.

    Raises:
        ConfigurationError: it begins like JSON and is none.
    """
    if text[:1] in "[{" and text:
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"--set …={text} is not JSON: {error}") from error
    return text


def read_settings(texts: Sequence[str], schemas: Path | None) -> dict[str, Any]:
    """Settings of the envelope that is read, as `KEY=VALUE` or `from.KEY=VALUE`, and its schemas.

    Raises:
        ConfigurationError: one is written otherwise, or the schemas cannot be read.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.removeprefix("from.")
        if not (equals and name) or "." in name:
            raise ConfigurationError(f"--set {text}: write --set KEY=VALUE")
        settings[name] = setting_value(value)
    if schemas is not None:
        settings["schemas"] = schemas_in(schemas)
    return settings


def check_known(settings: Mapping[str, Any]) -> None:
    """Refuse settings that no envelope takes.

    Raises:
        ConfigurationError: none has a setting of that name, or none takes its value.
    """
    readable = [envelope for envelope in registry.all_envelopes() if envelope.decoder is not None]
    names = sorted({name for one in readable for name in one.decode_settings.model_fields})
    for name, value in settings.items():
        having = [one for one in readable if name in one.decode_settings.model_fields]
        if not having:
            message = f"--set {name}: no envelope has such a setting{did_you_mean(name, names)}"
            raise ConfigurationError(message)
        faults = [fault_of(one.decode_settings, name, value) for one in having]
        if None not in faults:
            raise ConfigurationError(f"--set {name}: {faults[0]}")


def fault_of(model: type[BaseModel], name: str, value: Any) -> str | None:
    """What is wrong with the value of one setting; None if nothing is."""
    try:
        model.model_validate({name: value})
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            if item["loc"][:1] == (name,):
                return item["msg"].removeprefix("Value error, ")
    return None


def schemas_in(file: Path) -> Any:
    """The content of a file of schemas, or the name of a folder of them.

    Raises:
        ConfigurationError: it cannot be read.
    """
    if file.is_dir():
        return str(file)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{file} cannot be read as JSON ({error}); name a file of schemas"
        raise ConfigurationError(message) from error


def check_takes_schemas(envelope: Envelope) -> None:
    """Refuse `--schemas` for an envelope whose messages say all.

    Raises:
        ConfigurationError: it is one of those.
    """
    if "schemas" not in envelope.decode_settings.model_fields:
        message = f"messages of {envelope.name} describe themselves: leave --schemas out"
        raise ConfigurationError(message)


def rules_in(tables: Path | None, max_columns: int = MAX_COLUMNS) -> TableRules:
    """The tables that a file declares; none without a file.

    Args:
        tables: the file.
        max_columns: how many columns a message may describe.
    """
    if tables is None:
        return TableRules(max_columns=max_columns)
    from waybill.spec.file import load_tables

    rules = load_tables(tables)
    rules.max_columns = max_columns
    return rules


def reading(
    name: str, settings: Sequence[str], schemas: Path | None, tables: Path | None
) -> tuple[Envelope, Decoder]:
    """An envelope and its decoder, as the options describe it.

    Raises:
        ConfigurationError: there is no such envelope, it is not read, or an option is wrong.
    """
    envelope = registry.get(name)
    if envelope.decoder is None:
        raise ConfigurationError(f"{name!r} cannot be read; see `waybill envelopes`")
    if schemas is not None:
        check_takes_schemas(envelope)
    checked = checked_settings(
        envelope.decode_settings, read_settings(settings, schemas), envelope, "from"
    )
    return envelope, envelope.decoder(checked, rules_in(tables))
