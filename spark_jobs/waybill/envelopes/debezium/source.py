"""The `source` block of Debezium messages and the order that it gives.

One function, `sequence_of`, knows every connector's position (Debezium connector documentation;
the positions and their ties were checked on recorded streams).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from waybill.errors import Refusal
from waybill.order import parse_digits
from waybill.sequence_layout import WIDE, SequenceLayout, optional

Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Connect's int64."""

Micros = Long
Millis = Annotated[int, Meta(ge=-(2**63) // 1000 + 1, le=2**63 // 1000 - 1)]
"""Counts of time that fit the lake, which keeps microseconds in 64 bits."""

BEFORE_ALL = -1
"""What a snapshot row has where a change has a number that is never negative."""


class Source(msgspec.Struct, gc=False):
    """What is read of a `source` block; every connector fills its own part.

    Fields stand in the order in which the connectors write them, which is what makes reading fast.
    """

    connector: str | None = None
    ts_ms: Millis | None = None
    snapshot: str | bool | None = None
    db: str | None = None
    sequence: str | None = None
    ts_us: Micros | None = None
    schema: str | None = None
    table: str | None = None
    collection: str | None = None
    txId: int | str | None = None
    lsn: int | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    commit_lsn: str | None = None
    change_lsn: str | None = None
    event_serial_no: int | None = None
    scn: str | int | None = None
    commit_scn: str | int | None = None
    txSeq: int | None = None
    ssn: int | None = None
    ord: int | None = None


CHANGING = frozenset(
    {
        *("sequence", "gtid", "query", "change_lsn", "commit_lsn", "scn", "commit_scn", "rs_id"),
        *("row_id", "redo_sql"),
    }
)
"""Texts of a source block that are others in each message."""


STREAMING = ("false", None, False, "incremental")
"""Values of `source.snapshot` of rows that take part in the order of the stream.

Rows of an incremental snapshot do: they are sent between the changes, after every change that
they hold already, and carry the position that the stream has reached.
"""


def sequence_of(source: Source) -> tuple[int, ...] | None:
    """The position of a change in its source, strongest part first; None where there is none.

    A snapshot row sorts before every change that stands at the same place, because it has a shorter
    tuple or -1 for what a change has: a row read while the stream stood at a position holds all
    changes up to it. No tuple has one part alone, so that no target takes some ids as they are and
    makes others from the position, which could not be compared.

    - MySQL, MariaDB: number of the binlog file, position, row inside the event. Binlogs are in
      the order of commits, so a snapshot is exact: later changes win, older ones lose. The number
      starts again when another server takes over or the binlog is reset.
    - PostgreSQL: the higher one of the last commit's LSN and the change's own, then its own.
      Changes come in the order of commits, and the LSN of a change that was written early in a
      long transaction is lower than what was committed before it; for one key the row lock makes
      both orders the same. The last commit is unknown (null) right after a snapshot.
    - SQL Server, Db2: commit LSN, change LSN, serial number of the event.
    - Oracle: commit SCN, SCN, place in the transaction, statement.
    - MongoDB: time of the oplog, its counter.
    - others: the numbers in `source.sequence`, which this project writes too, whatever connector
      it names.

    Raises:
        Refusal: kind `shape`, when a position is there and cannot be read.
    """
    return position(source, rule_of(source.connector))


def position(source: Source, rule: Rule) -> tuple[int, ...] | None:
    """The position of a change by the rule of its connector; see `sequence_of`."""
    try:
        found = rule(source)
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        raise Refusal("shape", f"the position in `source` cannot be read: {error}") from None
    return found if found is not None else _numbers(source)


def rule_of(connector: str | None) -> Rule:
    """How the position of a connector is read."""
    return _RULES.get(connector or "", _by_fields)


def is_snapshot(source: Source) -> bool:
    """Whether the row was read by a snapshot that is not mixed into the stream."""
    return source.snapshot not in STREAMING


def is_postgresql(source: Source) -> bool:
    """Whether positions are PostgreSQL's, where the order of commits is not that of the log."""
    connector = source.connector
    return source.lsn is not None and (connector == "postgresql" or connector not in _RULES)


def source_time(source: Source) -> int | None:
    """Microseconds since 1970 of the change in the source, None where it is not stated.

    Older versions tell milliseconds only, and MySQL's are whole seconds.
    """
    if source.ts_us is not None:
        return source.ts_us
    return None if source.ts_ms is None else source.ts_ms * 1000


Rule = Callable[[Source], tuple[int, ...] | None]
"""From a source block to a position."""


class _FileNumbers(dict[str, int]):
    """Number of a binlog file: what stands after the last dot."""

    def __missing__(self, name: str) -> int:
        number = self[name] = parse_digits(name.rpartition(".")[2])
        return number


_FILES = _FileNumbers()


def _mysql(source: Source) -> tuple[int, ...] | None:
    if not source.file or source.pos is None:
        return None
    if source.snapshot in STREAMING:
        return (_FILES[source.file], source.pos, source.row or 0)
    return (_FILES[source.file], source.pos)


def _postgresql(source: Source) -> tuple[int, ...] | None:
    if source.lsn is None:
        # The connector always tells it; rows that this project writes in its name have numbers.
        numbers = _numbers(source)
        if numbers is not None:
            return numbers
    return log_position(source)


def log_position(source: Source) -> tuple[int, ...] | None:
    """The position in PostgreSQL's log, which the two numbers of `sequence` tell."""
    lsn, last_commit = source.lsn, 0
    if source.sequence:
        commit, own = _pair(source.sequence)
        last_commit = parse_digits(commit) if commit else 0
        if own:
            lsn = parse_digits(own)
    if lsn is None:
        return None
    if source.snapshot in STREAMING:
        return (max(last_commit, lsn), lsn)
    return (lsn, BEFORE_ALL)


_pair: Callable[[str], tuple[str | None, str | None]] = msgspec.json.Decoder(
    tuple[str | None, str | None]
).decode


def _sqlserver(source: Source) -> tuple[int, ...] | None:
    if not source.commit_lsn:
        return None
    commit = _triple(source.commit_lsn)
    if source.snapshot in STREAMING and source.change_lsn:
        return (*commit, *_triple(source.change_lsn), source.event_serial_no or 0)
    return commit


def _triple(text: str) -> tuple[int, ...]:
    match = _LSN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not an LSN of three parts")
    return tuple(int(part, 16) for part in match.groups())


_LSN = re.compile(r"([0-9A-Fa-f]{1,32}):([0-9A-Fa-f]{1,32}):([0-9A-Fa-f]{1,32})")


def _oracle(source: Source) -> tuple[int, ...] | None:
    if source.scn is None and source.commit_scn is None:
        return None
    scn = parse_digits(str(source.commit_scn if source.scn is None else source.scn))
    if source.snapshot in STREAMING:
        commit = scn if source.commit_scn is None else parse_digits(str(source.commit_scn))
        return (commit, scn, source.txSeq or 0, source.ssn or 0)
    return (scn, BEFORE_ALL)


def _mongodb(source: Source) -> tuple[int, ...] | None:
    if source.ts_ms is None or source.ord is None:
        return None
    if source.snapshot in STREAMING:
        return (source.ts_ms, source.ord)
    return (source.ts_ms, BEFORE_ALL)


def _numbers(source: Source) -> tuple[int, ...] | None:
    """The numbers of `source.sequence`, one with a 0 behind it; None unless all are numbers."""
    if not source.sequence or not source.sequence.startswith("["):
        return None
    try:
        parts = [parse_digits(n) for n in msgspec.json.decode(source.sequence, type=list[str])]
        return (optional(*parts) if len(parts) == 1 else tuple(parts)) or None
    except ValueError:
        return None


def _none(_source: Source) -> None:
    return None


_RULES: dict[str, Rule] = {
    "mysql": _mysql,
    "mariadb": _mysql,
    "postgresql": _postgresql,
    "sqlserver": _sqlserver,
    "db2": _sqlserver,
    "oracle": _oracle,
    "mongodb": _mongodb,
    "waybill": _numbers,
    # The log files of Cassandra belong to one node each, so their names order nothing.
    "cassandra": _none,
}


def _by_fields(source: Source) -> tuple[int, ...] | None:
    """The position that a connector of another name gives, by the fields that it fills."""
    if source.file is not None:
        return _mysql(source)
    if source.lsn is not None:
        return _postgresql(source)
    if source.commit_lsn is not None:
        return _sqlserver(source)
    if source.scn is not None or source.commit_scn is not None:
        return _oracle(source)
    return _numbers(source)


_LOG = ("commit", "log file", "record", "change", "log file", "record", "serial number")

LAYOUTS = (
    SequenceLayout(
        ("binlog file", "position", "row"), (10, 4), 9_000, connector=("mysql", "mariadb")
    ),
    SequenceLayout(
        ("position of the commit", "position"), (WIDE,), 10**15, connector=("postgresql",)
    ),
    SequenceLayout(_LOG, (10, 5, 10, 10, 5, 10), 2**32, connector=("sqlserver", "db2")),
    SequenceLayout(
        ("commit SCN", "SCN", "place in the transaction", "statement"),
        (WIDE, 10, 10),
        10**15,
        connector=("oracle",),
    ),
    SequenceLayout(
        ("time of the oplog", "counter"), (6,), 9_000_000_000_000, connector=("mongodb",)
    ),
    SequenceLayout(("first part",), (WIDE,) * 6),
)
"""How positions become one number. Those of one connector have the same digits, whichever shape
they have: a row of a snapshot may have fewer parts. Of other connectors nothing is known."""
