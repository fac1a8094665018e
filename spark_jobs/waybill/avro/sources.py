"""Finds schemas by id or GUID: in files, in a registry, in the message; each is parsed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

import msgspec

from waybill.avro import framing
from waybill.avro.fetched_schemas import Text
from waybill.avro.schema import Node, parse
from waybill.caches import Bounded
from waybill.errors import Code, ConfigurationError, Refusal
from waybill.values.values import JSON_ERRORS, check_json

if TYPE_CHECKING:
    from waybill.avro.settings import AvroReadSettings
    from waybill.records import Message
    from waybill.storage.file_store import Store


class Source(Protocol):
    """Knows schemas by their id."""

    def find(self, identity: int | UUID) -> Text | None:
        """A schema, None where there is none of this id."""


class Entry(msgspec.Struct):
    """One schema of a file; it is JSON, or the text of it."""

    schema: Any
    subject: str | None = None
    guid: str | None = None


class _File(msgspec.Struct):
    avro: dict[str, Entry] = {}


class Entries:
    """Schemas of files, each with the name of the file that has it first."""

    def __init__(self) -> None:
        self.found: dict[int | UUID, Text] = {}
        self._stated_by: dict[int | UUID, str] = {}

    def add(self, content: Any, name: str) -> None:
        """Take the schemas of a file.

        Raises:
            ConfigurationError: it is none, or a schema of it differs from an earlier one.
        """
        try:
            entries = msgspec.convert(content, _File).avro
            found: list[tuple[int | UUID, Any]] = []
            for key, entry in entries.items():
                found.append((int(key), entry.schema))
                if entry.guid is not None:
                    found.append((UUID(entry.guid), entry.schema))
        except ValueError as error:
            message = f'{name} is no file of schemas ({error}); write {{"avro": {{"1": {{"schema"'
            raise ConfigurationError(f"{message}: …}}}}}}", code=Code.SCHEMA_FILE) from None
        for identity, schema in found:
            self.take(identity, schema if isinstance(schema, str) else json.dumps(schema), name)

    def take(self, identity: int | UUID, schema: str, name: str) -> None:
        """Take one schema of a file.

        Registries count from 1 each, so that files of two of them in one folder give one id to
        different schemas; which of them a message means, nothing tells.

        Raises:
            ConfigurationError: another schema was taken for the same id or GUID.
        """
        first = self.found.setdefault(identity, Text(schema)).schema
        first_name = self._stated_by.setdefault(identity, name)
        if first != schema and _compared(first) != _compared(schema):
            which = f"schema {'id ' if isinstance(identity, int) else ''}{identity}"
            message = (
                f"{which} is one schema in {first_name} and another one in {name}: keep the "
                "schemas of each registry in a folder of its own"
            )
            raise ConfigurationError(message, code=Code.SCHEMA_FILE)

    def find(self, identity: int | UUID) -> Text | None:
        """A schema, None where there is none of this id."""
        return self.found.get(identity)


class Folder:
    """A folder of schema files; files that come later are found too."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.entries = Entries()
        self.read: set[str] = set()

    def find(self, identity: int | UUID) -> Text | None:
        """A schema, None where no file has it."""
        found = self.entries.find(identity)
        if found is not None:
            return found
        for name in self.store.names():
            stem, _, suffix = name.rpartition(".")
            if name in self.read or suffix not in ("json", "avsc"):
                continue
            content = self.store.read(name)
            if content is None:
                continue
            self.read.add(name)
            if suffix == "json":
                self.entries.add(_json(content, self.store.path(name)), self.store.path(name))
            elif stem.isascii() and stem.isdigit():
                text = content.decode("utf-8", "replace")
                self.entries.take(int(stem), text, self.store.path(name))
        return self.entries.find(identity)


def _compared(schema: str) -> str:
    """A schema without what does not count: blanks, the order of names, the notation of texts."""
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except (ValueError, RecursionError):
        return schema


def _json(content: bytes, name: str) -> Any:
    try:
        found = msgspec.json.decode(content)
        # Of an id that stands twice, the last schema alone would be left.
        check_json(content)
    except (*JSON_ERRORS, Refusal) as error:
        message = f"{name} cannot be read as JSON ({error}); name a file or folder of schemas"
        raise ConfigurationError(message, code=Code.SCHEMA_FILE) from None
    return found


def source_of(settings: AvroReadSettings) -> Source | None:
    """Where the settings say that schemas are; None where they say nothing.

    Raises:
        ConfigurationError: both are given, or a file cannot be read.
    """
    given, url = settings.schemas, settings.registry
    if given is not None and url is not None:
        raise ConfigurationError(
            "schemas and registry are both set: leave one of them out", code=Code.ENVELOPE_SETTING
        )
    if url is not None:
        from waybill.avro.registry import Registry

        return Registry(url)
    if given is None:
        return None
    if isinstance(given, dict):
        entries = Entries()
        entries.add(given, "schemas")
        return entries
    return _at_path(given)


def _at_path(path: str) -> Source:
    from waybill.storage.file_store import open_store

    if not path.endswith((".json", ".avsc")):
        return Folder(open_store(path))
    folder, _, name = path.rpartition("/")
    content = open_store(folder or ("/" if path.startswith("/") else ".")).read(name)
    if content is None:
        raise ConfigurationError(
            f"there is no {path}: name a file or folder of schemas", code=Code.SCHEMA_FILE
        )
    entries = Entries()
    entries.add(_json(content, path), path)
    return entries


class Known(NamedTuple):
    """A schema that a message named.

    Attributes:
        node: the parsed schema.
        identity: what stands for it in caches.
    """

    node: Node
    identity: bytes


class Schemas:
    """The schemas of messages, each parsed once; schemas that are not there are remembered too.

    Args:
        settings: where they are.
    """

    def __init__(self, settings: AvroReadSettings) -> None:
        self.source = source_of(settings)
        self._known: Bounded[bytes, Known | Refusal] = Bounded()

    def open(self, part: framing.Part, data: bytes, message: Message) -> tuple[Known, int]:
        """The schema of a message's key or value, and where the data begins.

        Raises:
            Refusal: it is not framed, or its schema is not known or cannot be used.
        """
        if message.headers is None and data[:1] == b"\0":
            found = self._known.get(data[:5])
            if found.__class__ is Known:
                return found, 5
        token, start, text = framing.framed(part, data, message)
        if text is not None:
            return self._find(text, lambda: Text(_decoded(text, part))), start
        return self._find(token, lambda: self._asked(token)), start

    def of_id(self, schema_id: int) -> Known | None:
        """The schema of an id that stands before data; None where it is not known or of no use."""
        token = framing.prefix_of(schema_id)
        try:
            return self._find(token, lambda: self._asked(token))
        except Refusal:
            return None

    def _find(self, identity: bytes, ask: Callable[[], Text]) -> Known:
        found = self._known.get(identity)
        if found is None:
            try:
                text = ask()
                found = Known(parse(text.schema, text.references), identity)
            except Refusal as refusal:
                found = refusal
            self._known[identity] = found
        if isinstance(found, Refusal):
            raise Refusal(found.kind, found.sentence)
        return found

    def _asked(self, token: bytes) -> Text:
        if self.source is None:
            sentence = "the schemas are neither in a file (`schemas`) nor in a registry"
            raise Refusal("schema", f"{framing.named(token)} is not known: {sentence} (`registry`)")
        found = self.source.find(framing.id_of(token))
        if found is None:
            raise Refusal("schema", f"{framing.named(token)} is not known where schemas are kept")
        return found


def _decoded(text: bytes, part: framing.Part) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Refusal("schema", f"the header {part.text_header} is not UTF-8") from None
