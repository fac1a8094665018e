"""The schemas of TUPLE topics, as settings give them: names and types of the fields in order.

The notation is that of DataHub's own `RecordSchema`: `{"fields": [{"name": …, "type": …}]}`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from waybill.envelopes.datahub.tuple.values import LOGICAL
from waybill.errors import Code, ConfigurationError

SEQUENCE, OPERATION, TABLE = "_sequence_id_", "_operation_type_", "_source_table_"
BEFORE, AFTER = "_before_image_", "_after_image_"
TIMES = ("_excute_time_", "_execute_time_")
"""The time of a change: as the DataHub document spells it, and as the DataWorks manual does."""

METADATA = (SEQUENCE, OPERATION, *TIMES, TABLE, BEFORE, AFTER)
"""The columns that DataWorks adds to those of the table."""

ANY = "*"

_HELP = 'write {"datahub": {"<topic>": {"fields": [{"name": "id", "type": "BIGINT"}]}}}'


class Field(NamedTuple):
    """One field of a topic's schema."""

    name: str
    type: str


class _Field(msgspec.Struct):
    name: str
    type: str


class _Record(msgspec.Struct):
    fields: list[_Field]


class _File(msgspec.Struct):
    datahub: dict[str, Any] | None = None
    fields: Any = None


class Topics:
    """The schemas of topics by name.

    Args:
        given: a file of schemas, the content of one (`{"datahub": {topic: schema}}`), or the one
            schema of every topic (`{"fields": […]}`); None for no schema.

    Raises:
        ConfigurationError: it cannot be read, or describes no topic.
    """

    def __init__(self, given: str | dict[str, Any] | None) -> None:
        self._fields: dict[str, tuple[Field, ...]] = {}
        if given is None:
            return
        place = given if isinstance(given, str) else "schemas"
        content = _content(given) if isinstance(given, str) else given
        try:
            wire = msgspec.convert(content, _File)
        except msgspec.ValidationError as error:
            raise _wrong(place, str(error)) from None
        found = {ANY: content} if wire.datahub is None and wire.fields is not None else wire.datahub
        for name, schema in (found or {}).items():
            self._fields[name] = _fields(schema, f"{place}, topic {name!r}")
        if not self._fields:
            raise _wrong(place, "it names no topic")

    @property
    def uniform(self) -> bool:
        """Whether all topics have one schema, or all of them have none."""
        return self._fields.keys() <= {ANY}

    def find(self, *names: str | None) -> tuple[Field, ...] | None:
        """The fields of the first name that is known; a topic may stand without its project."""
        for name in names:
            if name is None:
                continue
            for known in (name, name.replace("/", ".").rpartition(".")[2]):
                if known in self._fields:
                    return self._fields[known]
        return self._fields.get(ANY)


def _content(path: str) -> Any:
    from waybill.storage.file_store import open_store

    folder, _, name = path.rpartition("/")
    try:
        text = open_store(folder or ("/" if path.startswith("/") else ".")).read(name)
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror}): name a file of schemas"
        raise ConfigurationError(message, code=Code.SCHEMA_FILE) from error
    if text is None:
        raise ConfigurationError(
            f"there is no {path}: name a file of schemas", code=Code.SCHEMA_FILE
        )
    return _json(text, path)


def _json(text: str | bytes, place: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{place} cannot be read as JSON ({error})", code=Code.SCHEMA_FILE
        ) from None


def _fields(schema: Any, place: str) -> tuple[Field, ...]:
    if isinstance(schema, str):
        schema = _json(schema, place)
    try:
        wire = msgspec.convert(schema, _Record)
    except msgspec.ValidationError as error:
        raise _wrong(place, str(error)) from None
    fields = tuple(Field(field.name, field.type.upper()) for field in wire.fields)
    names = [field.name for field in fields]
    if not names:
        raise _wrong(place, "it has no fields")
    for name, kind in fields:
        if kind not in LOGICAL:
            raise _wrong(place, f"field {name!r} has the type {kind!r}; use {', '.join(LOGICAL)}")
        if names.count(name) > 1 or set(TIMES).issubset(names):
            twice = name if names.count(name) > 1 else TIMES[0]
            raise _wrong(place, f"{twice!r} occurs in it twice")
    return fields


def _wrong(place: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{place} is no schema of a TUPLE topic ({why}): {_HELP}", code=Code.SCHEMA_FILE
    )
