"""Settings of envelopes that a draft sets, and those that only a person knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waybill.cli.drafts.target_trial import try_target
from waybill.cli.drafts.yaml_text import Node, scalar
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.made_ids import WITHIN

if TYPE_CHECKING:
    from waybill.cli.drafts.draft import Draft, DraftTarget
    from waybill.cli.drafts.evidence import Evidence
    from waybill.cli.drafts.reading import Help, SourceReading
    from waybill.protocol import Settings

SECRET = ("password", "secret", "token", "user_info")
"""Parts of names of settings whose values are not repeated."""

ZONE = "Europe/Berlin"
"""A time zone that shows how one is written; nobody's is assumed."""


def source_settings(draft: Draft, schemas: str | None) -> Iterator[Node]:
    """Settings of reading.

    Args:
        draft: the migration.
        schemas: the folder of schemas, where they are in one.
    """
    reading = draft.reading
    model, found = reading.envelope.decode_settings, reading.evidence
    for name, value in reading.settings.items():
        note = "as it was given"
        node = Node(name, scalar(value), note=note)
        if name in reading.setting_notes:
            node.note = ""
            node.decide = [f"whether {name} is so, which was {reading.setting_notes[name]}"]
        yield node
    if schemas is not None:
        yield Node("schemas", scalar(schemas), note="a folder is named in full here")
    yield from _helps(draft)
    yield from _zone(model, reading.settings, found)


def _helps(draft: Draft) -> Iterator[Node]:
    """Settings that would read what is refused, each with every value that does."""
    reading = draft.reading
    refused = counted(reading.evidence.refused_count, "row or message", "rows or messages")
    by_name: dict[str, list[Help]] = {}
    for one in reading.helps:
        by_name.setdefault(one.name, []).append(one)
    for name, helps in by_name.items():
        counts = ", ".join(f"{one.refused} with {scalar(one.value)}" for one in helps)
        sentence = f"what {name} is: of the sample {refused} are refused as it is, {counts}"
        values = Node(name, scalar(helps[0].value), decide=[sentence], active=False)
        if name not in reading.settings:
            yield values


def _zone(model: type[Settings], given: dict[str, Any], found: Evidence) -> Iterator[Node]:
    """The time zone of wall clocks, where the envelope writes instants so."""
    name = next((n for n in ("timezone", "column_timezone") if n in model.model_fields), None)
    if name is None or name in given:
        return
    instants, columns = instants_of(found)
    if instants:
        default = model.model_fields[name].default
        taken = f"read as {default}" if default else "refused without a zone"
        sentence = (
            f"the time zone of {counted(instants, 'time')} in {columns}: the messages show the "
            f"clock of a server and not its zone; they are {taken} unless it is named"
        )
        yield Node(name, scalar(ZONE), decide=[sentence], active=False)


def instants_of(found: Evidence) -> tuple[int, str]:
    """How many values of instants a sample has, and where."""
    places = [
        (f"{table.name}.{name}", len(column.values))
        for table in found.tables.values()
        for name, column in table.columns.items()
        if column.type.startswith("timestamptz") and column.values
    ]
    listed = ", ".join(name for name, _ in places[:3])
    more = f" and {counted(len(places) - 3, 'more column')}" if len(places) > 3 else ""
    return sum(count for _, count in places), listed + more


def target_settings(draft: Draft, target: DraftTarget) -> Iterator[Node]:
    """Settings of writing."""
    model, given = target.trial.envelope.encode_settings, target.settings
    for name, value in given.items():
        yield Node(name, scalar(value), note="as it was given")
    yield from _sequence(draft, target)
    found = draft.reading.evidence
    if "registry" in model.model_fields and "registry" not in given:
        sentence = (
            "the schema registry: readers of Confluent's framing need one; without it each message "
            "brings its schemas in headers. Its login comes from the environment"
        )
        yield Node("registry", scalar("https://registry:8081"), decide=[sentence], active=False)
    kind = draft.reading.envelope
    brings = kind.carries | kind.partly.keys() | kind.brings
    if "db_type" in model.model_fields and "db_type" not in given and "database_kind" not in brings:
        seen = " and ".join(found.dialects)
        evidence = f"types are called as by {seen}" if seen else "nothing in the sample shows it"
        sentence = (
            f"the kind of the source's database, which messages of {target.envelope} name and "
            f"those of {kind.name} do not: {evidence}"
        )
        guess = (found.dialects or ["mysql"])[0].upper()
        yield Node("db_type", scalar(guess), decide=[sentence], active=False)
    if (
        "connector" in model.model_fields
        and "connector" not in given
        and not _is_debezium(kind.name)
    ):
        seen = " and ".join(found.dialects)
        evidence = f"types are called as by {seen}" if seen else "nothing in the sample shows it"
        sentence = (
            "the connector that readers take the messages to be from, which decides how they read "
            f"rows before: {evidence}"
        )
        guess = (found.dialects or ["mysql"])[0]
        yield Node("connector", scalar(guess), decide=[sentence], active=False)
    if "timezone" in model.model_fields and "timezone" not in given:
        instants, columns = instants_of(found)
        if instants:
            sentence = (
                f"the time zone in which {counted(instants, 'time')} of {columns} are written, for "
                "readers that expect the clock of a server; UTC unless it is named"
            )
            yield Node("timezone", scalar(ZONE), decide=[sentence], active=False)


def _is_debezium(name: str) -> bool:
    return name.startswith("debezium")


def _sequence(draft: Draft, target: DraftTarget) -> Iterator[Node]:
    """Where the ids of the target come from, if the sample's changes lack them."""
    reading, found = draft.reading, draft.reading.evidence
    lacking = lacking_ids(reading, target)
    if lacking:
        changes = counted(len(found.changes), "change")
        sentence = (
            f"where ids come from: {lacking} of {changes} have no sequence id, and "
            f"{target.envelope} refuses them among others that have one; made from the position "
            "none of them is refused, and ids order a partition only"
        )
        yield Node("sequence_from", "position", decide=[sentence], active=False)
        return
    fields = target.trial.envelope.encode_settings.model_fields
    if "sequence_from" not in fields or "sequence_from" in target.settings:
        return
    if target.trial.made_ids.get(WITHIN, 0) and len(found.partitions) > 1:
        sentence = (
            f"whether ids of {target.envelope} may be made from the position, which is all there "
            f"is: the sample came from {len(found.partitions)} partitions or files, between which "
            "such ids say nothing"
        )
        yield Node("sequence_from", "position", decide=[sentence], active=False)


def lacking_ids(reading: SourceReading, target: DraftTarget) -> int:
    """How many changes a target refuses because they have no sequence id."""
    model, refused = target.trial.envelope.encode_settings, target.trial.refused.total()
    decided = "sequence_from" not in model.model_fields or "sequence_from" in target.settings
    if decided or not refused or not reading.evidence.unsequenced:
        return 0
    settings = {**target.settings, "sequence_from": "position"}
    try:
        tried = try_target(reading, target.envelope, settings, reading.evidence.changes)
    except ConfigurationError:
        return 0
    return max(0, refused - tried.refused.total())
