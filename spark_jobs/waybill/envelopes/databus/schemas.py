"""The Avro schemas that events are written with, and the ids that events name them by.

An id is the MD5 of a schema's text as it was registered. A registry sends the text as Avro's own
library prints it, which is not how a file holds it; so a schema is known by the MD5 of its text as
it stands, without blanks around it, without blanks between its tokens, and as Avro prints it.
"""

from __future__ import annotations

import json
import re
from hashlib import md5
from pathlib import Path
from typing import Annotated, Any

import msgspec

from waybill.envelopes.databus.event import MAX_SOURCE, checksum
from waybill.errors import Code, ConfigurationError, Refusal

_VERSION = re.compile(r"\.([0-9]{1,9})\Z")
_RECORD_PROPERTIES = frozenset({"type", "name", "namespace", "doc", "fields", "aliases"})
_FIELD_PROPERTIES = frozenset({"name", "type", "doc", "default", "order", "aliases"})
MAX_SCHEMA = 4_000_000
"""Longest schema text that a message may bring, in bytes."""


class Registered(msgspec.Struct, frozen=True, eq=False):
    """One schema.

    Attributes:
        text: as it was registered.
        schema: the same, as JSON data.
        source: full name of the source, e.g. `com.acme.events.Person`.
        version: version in the registry, 0 where it is not stated.
        source_id: source id, None where it is not stated.
        database: database of the table, None where it is not stated.
        table: table, None where it is not stated.
    """

    text: str
    schema: dict[str, Any]
    source: str
    version: int = 0
    source_id: int | None = None
    database: str | None = None
    table: str | None = None

    @property
    def id(self) -> bytes:
        """What an event names the schema by: the MD5 of the text."""
        return digest(self.text)

    @property
    def ids(self) -> set[bytes]:
        """Every id that an event may name it by."""
        texts = {self.text, self.text.strip(), json_text(self.schema), avro_text(self.schema)}
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        sums = {checksum(data).to_bytes(4, "big") for data in encoded}
        return {md5(data, usedforsecurity=False).digest() for data in encoded} | sums


class SchemaBook:
    """Every schema that is known before the first message.

    Attributes:
        by_id: schemas by MD5 and CRC-32.
        by_source: the newest schema of each source id.
        by_version: schemas by source id and version.
        by_table: the newest schema of each table and of each source's full name.
    """

    def __init__(self, schemas: list[Registered]) -> None:
        self.by_id: dict[bytes, Registered] = {}
        self.by_source: dict[int, Registered] = {}
        self.by_version: dict[tuple[int, int], Registered] = {}
        self.by_table: dict[str, Registered] = {}
        for registered in sorted(schemas, key=lambda schema: (schema.source, schema.version)):
            for id_ in registered.ids:
                self.by_id.setdefault(id_, registered)
            if registered.source_id is not None:
                self.by_source[registered.source_id] = registered
                self.by_version[registered.source_id, registered.version] = registered
            name = registered.table or plain_table(registered)
            place = f"{registered.database}.{name}" if registered.database else name
            for known in (registered.source, name, place):
                self.by_table[known] = registered


def digest(text: str) -> bytes:
    """The MD5 that names a schema."""
    return md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def plain_table(registered: Registered) -> str:
    """The table of a schema that names none: the last part of its source."""
    return registered.source.rpartition(".")[2]


# Where schemas come from


def schema_book(given: str | dict[str, Any] | None, sources: dict[str, int]) -> SchemaBook:
    """The schemas of a setting.

    Args:
        given: a folder of .avsc files (`com.acme.events.Person.1.avsc`: source and version), a
            file of schemas or its content, or None.
        sources: source ids by the source's full name or its last part.

    Raises:
        ConfigurationError: there is no such place, or what is there is no schema.
    """
    if given is None:
        found = []
    elif isinstance(given, str):
        found = _at(Path(given))
    else:
        found = _listed(given)
    return SchemaBook([_numbered(registered, sources) for registered in found])


def _numbered(registered: Registered, sources: dict[str, int]) -> Registered:
    number = sources.get(registered.source, sources.get(plain_table(registered)))
    if number is None or registered.source_id is not None:
        return registered
    return msgspec.structs.replace(registered, source_id=number)


def _at(path: Path) -> list[Registered]:
    if path.is_dir():
        files = sorted(path.glob("*.avsc"))
        if not files:
            raise ConfigurationError(
                f"there is no .avsc file in {path}; put the schemas there", code=Code.SCHEMA_FILE
            )
        return [_file(file) for file in files]
    if path.suffix == ".avsc":
        return [_file(path)]
    return _listed(_json(_content(path), str(path)))


def _file(path: Path) -> Registered:
    text = _content(path)
    name = path.name.removesuffix(".avsc")
    version = _VERSION.search(name)
    schema = record_of(_json(text, str(path)))
    if schema is None:
        raise ConfigurationError(
            f"{path} is no Avro schema of a record with fields", code=Code.SCHEMA_FILE
        )
    source = name[: version.start()] if version else name
    return Registered(text, schema, source, int(version[1]) if version else 0)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        message = f"the schemas at {path} cannot be read ({error}); name a folder of .avsc files"
        raise ConfigurationError(message, code=Code.SCHEMA_FILE) from error


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place} is not JSON: {error}", code=Code.SCHEMA_FILE) from error


def _listed(given: Any) -> list[Registered]:
    listed = given.get("databus") if isinstance(given, dict) else None
    if not isinstance(listed, list):
        message = 'a file of schemas has a list "databus" of {"srcId", "source", "schema", …}'
        raise ConfigurationError(message, code=Code.SCHEMA_FILE)
    return [_entry(entry, place) for place, entry in enumerate(listed)]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    schema: Any
    srcId: Annotated[int, msgspec.Meta(ge=1, le=MAX_SOURCE)] | None = None
    version: int = 0
    table: str | None = None
    database: str | None = None


def _entry(data: Any, place: int) -> Registered:
    try:
        entry = msgspec.convert(data, _Entry)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"databus[{place}] of the schemas: {error}", code=Code.SCHEMA_FILE
        ) from error
    text = entry.schema if isinstance(entry.schema, str) else json_text(entry.schema)
    schema = record_of(_json(text, f"databus[{place}].schema of the schemas"))
    if schema is None:
        message = f"databus[{place}].schema of the schemas is no Avro schema of a record"
        raise ConfigurationError(message, code=Code.SCHEMA_FILE)
    return Registered(
        text, schema, entry.source, entry.version, entry.srcId, entry.database, entry.table
    )


def schema_in_message(text: bytes, id_: bytes) -> Registered:
    """The schema that came with a message.

    Raises:
        Refusal: kind `schema`; it is no schema, or not the one that the event names.
    """
    if len(text) > MAX_SCHEMA:
        raise Refusal("schema", f"the schema beside the message has {len(text)} bytes; too many")
    try:
        decoded = text.decode()
        schema = record_of(json.loads(decoded))
    except (ValueError, RecursionError) as error:
        raise Refusal("schema", f"the schema beside the message is not JSON: {error}") from None
    if schema is None:
        raise Refusal("schema", "the schema beside the message is no Avro schema of a record")
    name = schema["name"]
    source = name if "." in name else ".".join(filter(None, (schema.get("namespace"), name)))
    registered = Registered(decoded, schema, source)
    if id_ not in registered.ids:
        message = f"the schema beside the message is {registered.id.hex()}, not {id_.hex()}"
        raise Refusal("schema", message)
    return registered


def record_of(data: Any) -> dict[str, Any] | None:
    """The schema if it is one of a record with fields, as far as can be seen at a glance."""
    if not isinstance(data, dict) or data.get("type") not in ("record", "error"):
        return None
    fields, name, space = data.get("fields"), data.get("name"), data.get("namespace")
    named = isinstance(name, str) and (space is None or isinstance(space, str))
    if not named or not isinstance(fields, list) or not fields:
        return None
    good = (isinstance(f, dict) and isinstance(f.get("name"), str) and "type" in f for f in fields)
    return data if all(good) else None


# Texts


def json_text(data: Any) -> str:
    """JSON without blanks."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def avro_text(schema: Any) -> str:
    """A schema as Avro's Java library prints it; its text where that is unknown."""
    try:
        return json_text(_printed(schema, None))
    except (TypeError, KeyError, AttributeError, RecursionError):
        return json_text(schema)


def _printed(schema: Any, space: str | None) -> Any:
    if isinstance(schema, list):
        return [_printed(branch, space) for branch in schema]
    if isinstance(schema, str):
        return schema
    kind = schema["type"]
    if kind == "array":
        return {"type": kind, "items": _printed(schema["items"], space)}
    if kind == "map":
        return {"type": kind, "values": _printed(schema["values"], space)}
    if kind in ("record", "error", "enum", "fixed"):
        return _printed_name(schema, kind, space)
    rest = {name: value for name, value in schema.items() if name != "type"}
    return {"type": kind, **rest} if rest else kind


def _printed_name(schema: dict[str, Any], kind: str, space: str | None) -> dict[str, Any]:
    name, own = schema["name"], schema.get("namespace", space)
    if "." in name:
        own, _, name = name.rpartition(".")
    printed: dict[str, Any] = {"type": kind, "name": name}
    if own and own != space:
        printed["namespace"] = own
    if schema.get("doc") is not None:
        printed["doc"] = schema["doc"]
    known = _RECORD_PROPERTIES
    if kind in ("record", "error"):
        printed["fields"] = [_printed_field(field, own) for field in schema["fields"]]
    else:
        inner = "symbols" if kind == "enum" else "size"
        printed[inner] = schema[inner]
        known = known | {inner}
    printed.update((name, value) for name, value in schema.items() if name not in known)
    if "aliases" in schema:
        printed["aliases"] = schema["aliases"]
    return printed


def _printed_field(field: dict[str, Any], space: str | None) -> dict[str, Any]:
    printed = {"name": field["name"], "type": _printed(field["type"], space)}
    for name in ("doc", "default"):
        if name in field:
            printed[name] = field[name]
    if str(field.get("order", "ascending")).lower() != "ascending":
        printed["order"] = field["order"]
    if "aliases" in field:
        printed["aliases"] = field["aliases"]
    printed.update((n, value) for n, value in field.items() if n not in _FIELD_PROPERTIES)
    return printed
