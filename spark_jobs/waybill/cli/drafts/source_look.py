"""A look at a source that no migration describes yet: where it is, how it is laid out, a sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import basename
from typing import TYPE_CHECKING, Any

from waybill.cli.drafts.file_sample import bytes_to_read, kind_of, read_files
from waybill.cli.output import byte_progress, printable
from waybill.counting import counted
from waybill.errors import ConfigurationError, WaybillError
from waybill.sources.streams import PACKED

if TYPE_CHECKING:
    from waybill.records import Message
    from waybill.sources.listing import Listing

TOPIC = "kafka:"
"""What a source begins with that is a topic; what follows may hold `*`."""

SAMPLE = 1000
"""Messages that are looked at, if nothing else is asked for."""

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".txt", ".kcat", ".parquet", ".pq")
_MAGIC = frozenset("*?[")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass
class Look:
    """What a look at a source found.

    Attributes:
        place: the source as people call it.
        fields: `files` or `kafka` of the migration's source, as plain data; paths are absolute.
        text: how much there is.
        why: what tells the layout; empty for topics.
        head: messages from the beginning.
        tail: messages from the end.
        whole: whether these are all that there are.
        notes: what a person should know.
        foreign: what the files are if they hold no messages.
        name: a name for the migration.
        narrower: a pattern of the files right in the folder, if there are others below it.
    """

    place: str
    fields: dict[str, Any]
    text: str
    why: str
    head: list[Message]
    tail: list[Message]
    whole: bool
    notes: list[str] = field(default_factory=list)
    foreign: str | None = None
    name: str = ""
    narrower: str | None = None

    @property
    def messages(self) -> list[Message]:
        """All that were looked at."""
        return [*self.head, *self.tail]

    @property
    def sampled(self) -> str:
        """What was looked at, for a person."""
        if self.whole:
            return counted(len(self.messages), "message, all there is", "messages, all there are")
        text = f"{counted(len(self.head), 'message')} from the beginning"
        return f"{text}, {len(self.tail)} from the end" if self.tail else text

    def spread(self, count: int) -> list[Message]:
        """So many messages at most, evenly among all that were looked at."""
        every = self.messages
        if len(every) <= count:
            return every
        return [every[round(i * (len(every) - 1) / (count - 1))] for i in range(count)]


def is_topic(source: str) -> bool:
    """Whether a source is a topic, by how it is written."""
    return source.startswith(TOPIC)


def look(source: str, layout: str | None, connection: str, count: int) -> Look:
    """Look at files or topics.

    Args:
        source: a file, a folder, a pattern, a URL, or a topic behind `kafka:`.
        layout: how files are laid out; None to find out.
        connection: the name of the connection to the brokers.
        count: how many messages to look at, more or less.

    Raises:
        ConfigurationError: there is nothing, or it is nothing that could be read.
        SourceError: the source cannot be read.
        UnreachableError: the servers do not answer.
    """
    _check_text(source)
    if is_topic(source):
        return _topics(source.removeprefix(TOPIC), connection, count)
    return _files(source, layout, count)


def _check_text(source: str) -> None:
    if source == "-":
        message = "a migration reads files or topics again and again: name one, not a pipe"
        raise ConfigurationError(message)
    if not source or any("\ud800" <= c <= "\udfff" or not c.isprintable() for c in source):
        message = (
            f"{printable(source) or 'an empty text'} cannot be written into a file as it is: give "
            "the source a name of printable UTF-8"
        )
        raise ConfigurationError(message)


# Files


def _files(source: str, layout: str | None, count: int) -> Look:
    from waybill.sources.cursor import FilesCursor
    from waybill.sources.files import left_out_sentence, plan
    from waybill.sources.listing import listed
    from waybill.spec.endpoints import FilesSource

    path = source if _SCHEME.match(source) else str(Path(source).expanduser().absolute())
    listing = listed(path, _SUFFIXES)
    if not listing.there:
        message = (
            f"there is no file or folder {printable(source)}; a topic of Kafka is written "
            f"{TOPIC}{printable(basename(source) or 'NAME')}"
        )
        raise ConfigurationError(message)
    single = bool(listing.files) and _MAGIC.isdisjoint(path) and basename(path) in listing.files
    if not listing.files and not single:
        listing = listed(path, ("",))
    names = sorted(name for name, (_, info) in listing.files.items() if info["size"])
    if not names:
        message = (
            f"{printable(source)} holds no message: write some there first, because the draft is "
            "made from them"
        )
        raise ConfigurationError(message)
    group, others = _largest_group(listing, names)
    kind = kind_of(listing.files[group[0]][0])
    notes = []
    if others and not single and path == listing.base:
        path = _pattern_of(path, group)
        notes.append(f"{counted(len(others), 'file')} of another kind left out, e.g. {others[0]}")
    chosen = layout or kind.layout.name
    fields = {"path": path, "layout": chosen}
    work = plan(FilesSource.model_validate(fields), FilesCursor(None, {}, 0, 0))
    if not work.tasks:
        message = (
            f"no file in {printable(source)} has a suffix that layout {chosen} reads: name them by "
            "a pattern, such as 'folder/*.log'"
        )
        raise ConfigurationError(message)
    if work.left_out:
        notes.append(left_out_sentence([printable(name) for name in work.left_out]))
    tasks = [task for task in work.tasks if task.size] or work.tasks
    with byte_progress(bytes_to_read(tasks)) as advance:
        found = read_files(tasks, chosen, count, advance)
    if not found.seen_to_end and chosen not in ("parquet", "whole"):
        notes.append("the end was not looked at: the last file is packed and large")
    size = sum(task.size for task in work.tasks)
    return Look(
        printable(source),
        {"files": fields},
        f"{counted(len(work.tasks), 'file')}, {size / 1e6:.1f} MB",
        "as --layout says" if layout else kind.layout.why,
        found.head,
        found.tail,
        found.whole,
        [printable(note) for note in notes],
        kind.foreign,
        _name_of(basename(path.rstrip("/")) if single else basename(listing.base.rstrip("/"))),
        _narrower(listing, group, kept=single or _has_magic(source)),
    )


def _has_magic(source: str) -> bool:
    return not _MAGIC.isdisjoint(source)


def _narrower(listing: Listing, group: Sequence[str], kept: bool) -> str | None:
    top = [name for name in group if "/" not in name]
    if kept or not top or len(top) == len(group):
        return None
    return _pattern_of(listing.base, top)


def _largest_group(listing: Listing, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files of the most common kind, by suffix and layout, and all others."""
    by_suffix: dict[str, list[str]] = {}
    for name in names:
        by_suffix.setdefault(_suffix_of(name), []).append(name)
    order = sorted(
        by_suffix.values(),
        key=lambda group: -sum(int(listing.files[name][1]["size"]) for name in group),
    )
    if len(order) == 1:
        return order[0], []
    layouts: dict[str, list[list[str]]] = {}
    for group in order:
        try:
            kind = kind_of(listing.files[group[0]][0])
        except WaybillError:
            continue
        if kind.foreign is None:
            layouts.setdefault(kind.layout.name, []).append(group)
    # Texts of one message stand beside topics as their explanation more often than as messages.
    for layout in ("lines", "kcat", "parquet", "whole"):
        if layout in layouts:
            best = layouts[layout][0]
            return best, [name for name in names if name not in best]
    return order[0], [name for group in order[1:] for name in group]


def _suffix_of(name: str) -> str:
    """The suffix that a pattern would name, packing included."""
    name = basename(name)
    packed = next((suffix for suffix in PACKED if name.endswith(suffix)), "")
    plain = name[: len(name) - len(packed)]
    dot = plain.rfind(".")
    return (plain[dot:] if dot > 0 else "") + packed


def _pattern_of(folder: str, group: Sequence[str]) -> str:
    """A pattern of the files of one kind in a folder."""
    deep = "**/" if any("/" in name for name in group) else ""
    return f"{folder.rstrip('/')}/{deep}*{_suffix_of(group[0])}"


# Topics


def _topics(text: str, connection: str, count: int) -> Look:
    from waybill.batches.messages import messages_of
    from waybill.sources.kafka.sample import sample_topics
    from waybill.spec.endpoints import KafkaSource

    names = [name.strip() for name in text.split(",") if name.strip()]
    strange = [name for name in names if re.fullmatch(r"[\w.*-]{1,249}", name, re.ASCII) is None]
    if not names or strange:
        message = (
            f"{TOPIC}{printable(text)} names no topic: write {TOPIC}orders, {TOPIC}orders,items or "
            f"{TOPIC}shop.*"
        )
        raise ConfigurationError(message)
    fields: dict[str, Any] = {"connection": connection}
    if any("*" in name for name in names):
        fields["pattern"] = "|".join(_expression(name) for name in names)
    else:
        fields["topics"] = names
    source = KafkaSource.model_validate(fields)
    at_end = count // 4
    found = sample_topics(source, count - at_end, at_end)
    messages: list[Message] = []
    with byte_progress(None) as advance:
        for batch in found.batches:
            messages += messages_of(batch)
            if advance is not None:
                advance(batch.nbytes)
    if not messages:
        message = (
            f"{TOPIC}{printable(text)} holds no message ({found.text}): write some there first, "
            "because the draft is made from them"
        )
        raise ConfigurationError(message)
    whole = found.details["offsets"] <= count
    heads, tails = _parted(messages, found.details["tails"])
    name = names[0].replace("*", "")
    notes = [printable(note) for note in found.notes]
    return Look(
        printable(f"{TOPIC}{text}"),
        {"kafka": fields},
        found.text,
        "",
        heads,
        tails,
        whole,
        notes,
        name=_name_of(name),
    )


def _expression(name: str) -> str:
    """The regular expression of a name with `*`."""
    return ".*".join(re.escape(part) for part in name.split("*"))


def _parted(
    messages: Sequence[Message], tails: dict[tuple[str, int], int]
) -> tuple[list[Message], list[Message]]:
    """Messages from the beginnings and from the ends of partitions."""
    heads: list[Message] = []
    ends: list[Message] = []
    for message in messages:
        begin = tails.get((message.topic, message.partition))
        (heads if begin is None or message.offset < begin else ends).append(message)
    return heads, ends


def _name_of(text: str) -> str:
    """A name for a migration, made from a file's, folder's or topic's."""
    plain = text
    for suffix in (*PACKED, *_SUFFIXES):
        plain = plain.removesuffix(suffix)
    name = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:60]
    if not name or not name[0].isalpha():
        name = f"topic_{name}".strip("_")
    return name.removesuffix("_log") or "topic"
