"""The text of a drafted migration: fields with what they are, decisions with their evidence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.drafts.evidence import TableSeen
from waybill.cli.drafts.settings_to_decide import source_settings, target_settings
from waybill.cli.drafts.yaml_text import Node, comment, scalar, written
from waybill.connections import variable_of
from waybill.counting import counted
from waybill.envelopes import registry

if TYPE_CHECKING:
    from waybill.cli.drafts.draft import Draft, DraftTarget

LISTED = 60
"""Tables that stand in the comment at the top."""


def migration_text(draft: Draft) -> str:
    """The whole file."""
    nodes = _nodes(draft)
    lines = [*_head(draft), "", *_apart(nodes)]
    return "\n".join(lines) + "\n"


def decisions_of(draft: Draft) -> list[str]:
    """What a person has to decide, a sentence each."""
    return [sentence for node in _nodes(draft) for sentence in node.sentences()]


def _apart(nodes: list[Node]) -> Iterator[str]:
    """The fields, with an empty line before those that have parts."""
    for node in nodes:
        if node.is_there:
            if node.parts or node.decide:
                yield ""
            yield from written([node])


def _nodes(draft: Draft) -> list[Node]:
    return [
        Node("name", scalar(draft.name), note="names the DAG and the tables of the lake"),
        Node(
            "schedule",
            scalar("@hourly"),
            decide=["when it runs: a preset or a cron text; without one, only by hand"],
            active=False,
        ),
        _source(draft),
        _order(draft),
        _halves(draft),
        _tables(draft),
        _publish(draft),
        *_losses(draft),
        _lake(draft),
    ]


# The comment at the top


def _head(draft: Draft) -> Iterator[str]:
    look, found = draft.look, draft.reading.evidence
    yield from comment(
        f"Drawn up by `waybill init` from {look.place} ({look.text}); looked at: {look.sampled}."
    )
    yield from comment(
        "DECIDE: is for a person; take the # away from a field below it to set it. "
        "All fields: docs/migrations.md."
    )
    for note in look.notes:
        yield from comment(f"Note: {note}.")
    yield "#"
    changes = counted(len(found.changes), "change")
    events = ", ".join(f"{count} {name}" for name, count in sorted(found.events.items()))
    yield from comment(f"The sample holds {changes}{f', of them {events}' if events else ''}.")
    for kind, refused in sorted(found.refused.items()):
        first = f"the first at {refused.place}; `waybill show` of the source says why"
        yield from comment(f"Refused: {refused.rows} ({kind}), {first}.")
    yield from _table_lines(draft)


def _table_lines(draft: Draft) -> Iterator[str]:
    tables = draft.reading.evidence.tables
    rows = [("table", "key", "columns", "operations", "order")]
    for name in sorted(tables)[:LISTED]:
        table = tables[name]
        operations = ", ".join(f"{count} {what}" for what, count in table.operations.most_common())
        key = ", ".join(table.key or ()) or "none stated"
        rows.append((name, key, str(len(table.columns)), operations, table.order))
    widths = [min(40, max(len(row[i]) for row in rows)) for i in range(4)]
    for row in rows:
        line = "  ".join([*(row[i].ljust(widths[i]) for i in range(4)), row[4]])
        # Not wrapped: a table is read in columns.
        yield f"#   {''.join(c if c.isprintable() else '?' for c in line)}"
    if len(tables) > LISTED:
        yield f"#   … and {len(tables) - LISTED} more"


# The source


def _source(draft: Draft) -> Node:
    look, reading = draft.look, draft.reading
    parts = []
    if "files" in look.fields:
        files = look.fields["files"]
        path = draft.relative(files["path"])
        parts.append(
            Node(
                "files",
                parts=[
                    Node("path", scalar(path), note=look.text),
                    Node("layout", scalar(files["layout"]), note=look.why),
                ],
            )
        )
    else:
        parts.append(_kafka_source(draft, look.fields["kafka"]))
    envelope = Node("envelope", scalar(reading.envelope.name), note=reading.envelope.title)
    if reading.doubtful:
        envelope.decide.append(f"whether it is {reading.envelope.name}: {reading.doubtful}")
    if reading.others:
        others = ", ".join(other for other, _ in reading.others[:4])
        envelope.note += f"; others read some of it, too: {others}"
    parts.append(envelope)
    folder, given = None, reading.schemas_file
    if given is not None and Path(given).is_dir():
        folder = given
    elif given is not None:
        file = Node("file", scalar(draft.relative(given)), note="as it was given")
        parts.append(Node("schemas", parts=[file]))
    parts.append(Node("settings", parts=list(source_settings(draft, folder))))
    return Node("source", parts=parts)


def _kafka_source(draft: Draft, kafka: dict[str, Any]) -> Node:
    parts = [_connection(draft, kafka["connection"])]
    if "topics" in kafka:
        parts.append(Node("topics", scalar(kafka["topics"]), note=draft.look.text))
    else:
        note = f"topics that match when a batch begins; now {draft.look.text}"
        parts.append(Node("pattern", scalar(kafka["pattern"]), note=note))
    parts.append(
        Node("start", "earliest", note="where the first batch begins; latest, a time or offsets")
    )
    return Node("kafka", parts=parts)


def _connection(draft: Draft, name: str) -> Node:
    node = Node("connection", scalar(name), note="holds brokers, login and TLS; never this file")
    if draft.bootstrap is not None:
        node.decide.append(
            f"the connection: none is called {name} yet; this look went to {draft.bootstrap} "
            f"without one. Add it in Airflow, or set {variable_of(name)}"
        )
    return node


# Order, halves, tables


def _order(draft: Draft) -> Node:
    """What decides where the sample has keys whose order nothing tells."""
    found = draft.reading.evidence
    node = Node("order", parts=[])
    if found.unsequenced and len(found.partitions) > 1:
        # Each file is a partition, too: where a file ends says nothing of what came before.
        places = "files" if "files" in draft.look.fields else "partitions"
        seen = (
            f"{counted(found.split_keys, 'key')} of the sample came from several {places}"
            if found.split_keys
            else f"no key of the sample came from two of its {len(found.partitions)} {places}"
        )
        node.parts.append(
            Node(
                "ambiguous",
                "source_time",
                note="or partition; fail, the default, stops the batch",
                decide=[
                    f"which change is newer where a key comes from several {places}, because "
                    f"{counted(found.unsequenced, 'change')} of the sample "
                    f"{'has' if found.unsequenced == 1 else 'have'} no sequence id; {seen}"
                ],
                active=False,
            )
        )
    return node


def _halves(draft: Draft) -> Node:
    node = Node("halves", parts=[])
    halves = draft.reading.evidence.halves
    if halves["after"] and not halves["before"]:
        sentence = (
            f"whether updates come without the row before: {counted(halves['after'], 'row')} after "
            "an update came, and none before one. Then take them at once; by default they wait"
        )
        node.parts = [
            Node("longest_wait", "0s", active=False, decide=[sentence]),
            Node("then", "take", active=False),
        ]
    return node


def _tables(draft: Draft) -> Node:
    tables = draft.tables
    names = {table.name for table in tables}
    # What options declare and the sample does not have: patterns, and tables that come later.
    others = [name for name in {**draft.keys, **draft.types} if name not in names]
    tables = [*tables, *(TableSeen(name, key=()) for name in sorted(others))]
    return Node("tables", parts=[_table(draft, table) for table in tables])


def _table(draft: Draft, table: TableSeen) -> Node:
    parts = [_key(draft, table)]
    known_types = draft.types.get(table.name, {})
    guesses = draft.guesses.get(table.name, {})
    types = []
    for column, declared in known_types.items():
        guess = guesses.get(column)
        seen = guess is not None and guess.type == declared
        note = guess.why if guess is not None and seen else "as it was declared"
        types.append(Node(column, scalar(declared), note=note))
    guesses = {name: guess for name, guess in guesses.items() if name not in known_types}
    for column, guess in guesses.items():
        types.append(Node(column, scalar(guess.type), note=guess.why, active=False))
    if guesses:
        columns = counted(len(guesses), "column")
        kind = "a string" if len(guesses) == 1 else "strings"
        sentence = (
            f"the types of {table.name}: the messages do not state {columns}, which become {kind} "
            "in the lake; these types hold every value of the sample, and one that does not fit "
            "later is refused"
        )
        next(node for node in types if not node.active).decide.append(sentence)
    parts.append(Node("columns", parts=types))
    return Node(table.name, parts=[part for part in parts if part.is_there])


def _key(draft: Draft, table: TableSeen) -> Node:
    if table.name in draft.keys:
        key = draft.keys[table.name]
        note = "its key" if key else "it has no key: rows are never updated or deleted"
        return Node("key", scalar(key), note=note)
    if table.key or not table.rows:
        # The messages state it, or there are none: nothing to say.
        return Node("key")
    guesses = table.key_guesses
    if not guesses:
        seen = "no column or pair of columns is different in every new row of the sample"
        if not table.new_rows:
            seen = "the sample has no new row that shows it"
        sentence = f"the key of {table.name}, which no message states: {seen}. [] is for no key"
        return Node("key", "[]", decide=[sentence], active=False)
    others = [" + ".join(guess.columns) for guess in guesses[1:4]]
    more = f"; so would {', '.join(others)}" if others else ""
    sentence = (
        f"the key of {table.name}, which no message states; without one its rows cannot be merged. "
        f"{guesses[0].sentence}{more}"
    )
    return Node("key", scalar(list(guesses[0].columns)), decide=[sentence], active=False)


# Targets


def _publish(draft: Draft) -> Node:
    if draft.targets:
        return Node("publish", parts=[_target(draft, target) for target in draft.targets])
    envelope = draft.reading.envelope
    ranked = ranking(draft)
    path = draft.relative(draft.output_folder(ranked[0][0]))
    sentence = (
        "where to publish, in which envelope; without a target the tables are merged into the lake "
        f"only. {ranked[0][0]} gives up least of what {envelope.name} has "
        f"({_given_up(ranked[0][1])}), then {ranked[1][0]} ({_given_up(ranked[1][1])}) and "
        f"{ranked[2][0]} ({_given_up(ranked[2][1])}); `waybill envelopes` lists all"
    )
    files = [Node("path", scalar(path))]
    if registry.get(ranked[0][0]).is_binary:
        files.append(Node("layout", scalar("parquet"), note="messages are binary"))
    item = Node("", parts=[Node("envelope", scalar(ranked[0][0])), Node("files", parts=files)])
    return Node("publish", parts=[item], decide=[sentence], active=False)


def ranking(draft: Draft) -> list[tuple[str, int]]:
    """Envelopes other than the source's, and how much each gives up; what gives up least first."""
    source = draft.reading.envelope
    found = [
        (envelope.name, len(source.losses_to(envelope, {}, draft.reading.settings)))
        for envelope in registry.all_envelopes()
        if envelope.encoder is not None and envelope.name != source.name
    ]
    return sorted(found, key=lambda one: (one[1] + _asks_for_schemas(one[0]), one[0]))


def _asks_for_schemas(name: str) -> bool:
    """Whether readers of an envelope need its schemas, too."""
    return "schemas" in registry.get(name).encode_settings.model_fields


def _given_up(count: int) -> str:
    return counted(count, "thing") if count else "nothing"


def _target(draft: Draft, target: DraftTarget) -> Node:
    trial = target.trial
    parts = [Node("envelope", scalar(target.envelope), note=trial.envelope.title)]
    if target.name is not None:
        parts.append(Node("name", scalar(target.name), note="in reports"))
    if target.topic is not None:
        connection = _connection(draft, target.connection)
        topic = Node("topic", scalar(target.topic), note="has to exist")
        parts.append(Node("kafka", parts=[connection, topic]))
    else:
        parts.append(_files(draft, target))
    parts.append(Node("settings", parts=list(target_settings(draft, target))))
    return Node("", parts=parts)


def _files(draft: Draft, target: DraftTarget) -> Node:
    trial = target.trial
    path = Node("path", scalar(draft.relative(str(target.path))), note="belongs to this target")
    why = "one message value a line" if target.layout == "lines" else "keys, values and headers"
    layout = Node("layout", scalar(target.layout), note=why)
    if target.layout == "lines" and (trial.headers or trial.tombstones):
        layout.decide.append(
            f"the layout: of {counted(trial.messages, 'message')} of the sample {trial.headers} "
            f"have headers and {trial.tombstones} are tombstones, which lines do not hold; parquet "
            "does"
        )
    return Node("files", parts=[path, layout])


def _losses(draft: Draft) -> list[Node]:
    sentences = [_lost(target) for target in draft.targets if target.trial.declared]
    if not sentences:
        return []
    note = "fail refuses to start where anything could be lost"
    return [Node("on_loss", "report", note=note, decide=sentences)]


def _lost(target: DraftTarget) -> str:
    """What a target loses: of the sample with counts and reasons, else by name."""
    trial = target.trial
    seen = {name: count for name, count in trial.losses.items() if name in trial.declared}
    lines = [f"whether {target.name or target.envelope} may lose what it cannot carry:"]
    lines += [f"{name}, {seen[name]} in the sample: {trial.declared[name]}" for name in seen]
    rest = [name for name in trial.declared if name not in seen]
    if rest:
        lines.append(f"none in the sample: {', '.join(rest)}; `waybill check` says what is meant")
    return "\n".join(lines)


def _lake(draft: Draft) -> Node:
    warehouse = draft.warehouse
    if warehouse is None:
        return Node("lake")
    note = "tables, archive and cursors"
    path = Node("warehouse", scalar(draft.relative(warehouse)), note=note)
    return Node("lake", parts=[path])
