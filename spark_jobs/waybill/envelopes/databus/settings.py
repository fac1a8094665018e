"""Settings for reading and writing Databus events."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from waybill.envelopes.databus.event import MAX_SOURCE
from waybill.envelopes.sequence.written import SequenceSettings
from waybill.protocol import Settings


def _source_ids(given: dict[str, int]) -> dict[str, int]:
    """Source ids of tables: the others are those of the system's own events."""
    for name, number in given.items():
        if not 1 <= number <= MAX_SOURCE:
            raise ValueError(f"{name} has the source id {number}; write one from 1 to {MAX_SOURCE}")
    return given


Sources = Annotated[dict[str, int], AfterValidator(_source_ids)]


def _event_version(given: Any) -> Any:
    """A version as a number; as a text where it is none, which is then refused."""
    # The command line gives every number as text. Of anything else the text is taken too, since
    # `True` and `1.0` are equal to 1.
    text = str(given)
    return {"1": 1, "2": 2}.get(text, text)


class DatabusReadSettings(Settings):
    """How events are read."""

    schemas: str | dict[str, Any] | None = None
    """The Avro schemas: a folder of .avsc files named by source and version, as Databus keeps them
    (`com.acme.events.Person.1.avsc`), or a file of schemas with a list `databus`. Left out: only
    messages that bring their schema can be read."""
    sources: Sources = Field(default_factory=dict)
    """Source ids by the source's full name or the last part of it. Needed for events without a
    value and for schema ids that are versions; other events name their schema."""
    schema_ids: Literal["digest", "version"] = "digest"
    """What the schema id of an event is: the MD5 of the schema's text, or, as for REPL_DBUS, the
    version of the source's schema in its first two bytes."""
    names: Literal["fields", "columns"] = "fields"
    """What columns are called: as the fields of the Avro schema, or as the columns of the database
    that its `dbFieldName` attributes name."""
    database: str | None = None
    """The database of tables whose schema names none. Databus has no word for it."""
    windows: Literal["transactions", "ignore"] = "transactions"
    """A window is closed by its end-of-period event. `transactions` makes the window the
    transaction of its rows, which ends with it; `ignore` takes rows as they come."""
    old_writers: bool = False
    """Binary events of version 1 come from an old Databus, which set each attribute in both bytes:
    bit 8, elsewhere the flag of external replication, then says nothing."""


class DatabusWriteSettings(SequenceSettings):
    """How events are written."""

    ends_windows: ClassVar[bool] = True

    version: Annotated[Literal[1, 2], BeforeValidator(_event_version)] = 1
    """Version of the event format."""
    schemas: str | dict[str, Any] | None = None
    """The Avro schemas to write with, as for reading. A table that has none there gets a schema of
    its own, which its messages bring along. Fields of arrays, maps, records and unions of several
    types are read and not written."""
    sources: Sources = Field(default_factory=dict)
    """Source ids by table or source. A table that has none gets one made from its name."""
    schema_ids: Literal["digest", "version"] = "digest"
    """What the schema id of an event is, as for reading. A `version` needs the schema of every
    table under `schemas`, with its version and its source id."""
    headers: bool = True
    """Message headers say what an event has no room for: the schema, whether a row was inserted or
    updated, the transaction. Off: every table needs a schema under `schemas`."""
    windows: Literal["message", "commit"] = "message"
    """What closes a window: the end of each message, or the source's commits. A change that was a
    Databus event keeps its own window, unless reading took no heed of it."""


class BinaryWriteSettings(DatabusWriteSettings):
    """How binary events are written."""

    byte_order: Literal["big", "little"] = "big"
    """Byte order; Databus's clients expect big."""


class JsonWriteSettings(DatabusWriteSettings):
    """How JSON events are written."""

    values: Literal["JSON", "JSON_PLAIN"] = "JSON"
    """The value: Base64 of its Avro binary (JSON), or its Avro JSON as a text (JSON_PLAIN)."""
