"""Puts the schemas of written messages where readers find them, and gives their framing.

Ids are the registry's where one is stated. Otherwise an id is made of the schema's text (31 bits of
its SHA-256), so that every task of every run gives the same schema the same id without asking.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from waybill.avro.framing import KEY, VALUE, Part, prefix_of
from waybill.avro.schema import parse
from waybill.errors import Code, ConfigurationError, Refusal

if TYPE_CHECKING:
    from waybill.avro.schema import Node
    from waybill.avro.settings import AvroWriteSettings


class Stamp(NamedTuple):
    """What goes with data of one schema.

    Attributes:
        prefix: the bytes before it.
        headers: the headers of the message.
    """

    prefix: bytes
    headers: tuple[tuple[str, bytes | None], ...]


class Sink:
    """Where the schemas of written messages go.

    Args:
        settings: a registry, a folder, or neither: then messages carry them.
    """

    def __init__(self, settings: AvroWriteSettings) -> None:
        self.topic = settings.topic
        self.trial = settings.trial
        self.registry = self.store = None
        if settings.registry is not None and settings.schemas is not None:
            raise ConfigurationError(
                "schemas and registry are both set: leave one of them out",
                code=Code.ENVELOPE_SETTING,
            )
        if settings.registry is not None:
            from waybill.avro.registry import Registry

            self.registry = Registry(settings.registry)
        elif settings.schemas is not None:
            from waybill.storage.file_store import open_store

            self.store = open_store(settings.schemas)
        self._ids: dict[int, str] = {}
        self._texts: dict[int, str] = {}

    @property
    def in_headers(self) -> bool:
        """Whether messages carry their schemas."""
        return self.registry is None and self.store is None

    def node_of(self, schema_id: int) -> Node | None:
        """The schema that an id was given to here; None for one that cannot be read."""
        try:
            return parse(self._texts[schema_id])
        except (KeyError, Refusal):
            return None

    def key(self, name: str, text: str) -> Stamp:
        """The framing of keys of a schema."""
        return self._stamp(KEY, name, text)

    def value(self, name: str, text: str) -> Stamp:
        """The framing of values of a schema."""
        return self._stamp(VALUE, name, text)

    def _stamp(self, part: Part, name: str, text: str) -> Stamp:
        subject = f"{self.topic}-{part.name}" if self.topic is not None else name
        if self.registry is not None:
            put = self.registry.try_out if self.trial else self.registry.register
            schema_id = put(subject, text)
            self._texts[schema_id] = text
            return Stamp(prefix_of(schema_id), ())
        schema_id = id_of_text(text)
        if self._ids.setdefault(schema_id, text) != text:
            raise Refusal("encoding", _TWICE)
        self._texts[schema_id] = text
        if self.store is None:
            return Stamp(prefix_of(schema_id), ((part.text_header, text.encode()),))
        if self.trial:
            return Stamp(prefix_of(schema_id), ())
        entry = {"subject": subject, "schema": text}
        name = f"{schema_id}.json"
        if not self.store.create(name, json.dumps({"avro": {schema_id: entry}}).encode()):
            there = json.loads(self.store.read(name) or b"{}")
            if there.get("avro", {}).get(str(schema_id), {}).get("schema") != text:
                raise ConfigurationError(
                    f"{self.store.path(name)} holds another schema: {_TWICE}",
                    code=Code.SCHEMA_FILE_TAKEN,
                )
        return Stamp(prefix_of(schema_id), ())


_TWICE = "two schemas got one id; use a schema registry, which gives each its own"


def id_of_text(text: str) -> int:
    """The id of a schema where there is no registry to give one."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1 or 1
