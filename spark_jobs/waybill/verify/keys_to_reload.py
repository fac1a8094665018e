"""The keys that verifications found to differ, as a reload takes them.

A reload of keys needs them as the lake has them, and rows that can be rebuilt individually. Where
either is not so, a sentence says what to do instead, and other tables are repaired all the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.mapping.rules import fits, spellings
from waybill.merge.open_transactions import in_transactions
from waybill.merge.position import position_of
from waybill.merge.spark_rows import json_text
from waybill.stage_context import KeysToReload
from waybill.suggestions import unknown
from waybill.verify.deciding import MISSING_IN_LAKE
from waybill.verify.newest import MASKED, NAME, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.lake.history import History
    from waybill.merge.state import MergeState, TableState
    from waybill.spec.migration import Migration


class _NewestLine(NamedTuple):
    """What the newest verification of rows says of a table, or of one that becomes it with others.

    Attributes:
        verification: its id.
        label: see `waybill.verify.newest.label_of`.
        differing: how many keys it found to differ.
        one_text: see `waybill.verify.results.TableResult`; verifications of before do not say it.
    """

    verification: str
    label: str
    differing: int
    one_text: bool


class _LeftOut(NamedTuple):
    """Why nothing of a table is rebuilt.

    Attributes:
        why: the reason, with the name of the table.
        way_out: what to do instead.
    """

    why: str
    way_out: str


class _Keys(NamedTuple):
    """Keys of a table, or of one that becomes it with others.

    Attributes:
        texts: key images as the lake has them.
        kept: how many keys the verifications have kept.
        unsure: how many are of rows that the lake lacks, and may be written otherwise in messages.
    """

    texts: frozenset[str]
    kept: int
    unsure: int


def keys_to_reload(lake: History, spec: Migration, tables: tuple[str, ...]) -> KeysToReload:
    """The keys of tables that differ, by the newest verification of each that compared rows.

    Args:
        lake: the lake.
        spec: the migration.
        tables: names or patterns of the tables, as the lake has them.

    Raises:
        ConfigurationError: none is known, a name or pattern is of no table, or rows of none of the
            tables can be rebuilt individually; says what to do instead.
    """
    named, lines = _named(lake, tables), _newest(lake)
    verify = spec.command("verify", "FILE", "--method", "full")
    compared = [name for name in named if name in lines]
    others = ", ".join(name for name in named if name not in lines)
    if not compared:
        message = (
            f"no verification has compared rows of {others}, so no key is known that differs: "
            f"`{verify}` finds them"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    warnings: list[str] = []
    if others:
        warnings.append(
            f"no verification has compared rows of {others}, so none of them are rebuilt: "
            f"`{verify}` finds the keys that differ"
        )
    state = position_of(lake).state
    keys: dict[str, frozenset[str]] = {}
    left_out: list[_LeftOut] = []
    for name in compared:
        if any(line.differing for line in lines[name]):
            found = _of_table(lake, spec, name, state, lines[name])
            if isinstance(found, _LeftOut):
                left_out.append(found)
            else:
                keys[name] = found.texts
                warnings += _warnings(spec, name, found, lines[name])
    if not keys:
        message = "; ".join(f"{one.why}: {one.way_out}" for one in left_out) or (
            f"the newest verification found no row of {', '.join(compared)} that differs, so "
            f"there is nothing to rebuild: `{verify}` compares all rows"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    warnings += [f"{one.why}, and none of them is rebuilt: {one.way_out}" for one in left_out]
    transactions = [one.members for one in state.open] + [one.members for one in state.rolled_back]
    unsettled = in_transactions(transactions) if transactions else ""
    return KeysToReload(keys, tuple(warnings), unsettled)


def _named(lake: History, tables: tuple[str, ...]) -> list[str]:
    """The tables that are meant.

    Raises:
        ConfigurationError: a name or pattern is of none.
    """
    merged = [*lake.merged_tables()]
    for one in tables:
        if not any(fits(spellings(name), (one,)) for name in merged):
            raise ConfigurationError(unknown("table", one, merged), code=Code.OPTION)
    return [name for name in merged if fits(spellings(name), tables)]


def _of_table(
    lake: History, spec: Migration, name: str, state: MergeState, lines: list[_NewestLine]
) -> _Keys | _LeftOut:
    """The keys that are kept of a table, as the lake has them, or why none can be taken."""
    known = state.table(name)
    why_not = _why_not(lake, spec, name, known, name in state.held)
    if why_not is not None:
        return why_not
    texts, kept, unsure = set[str](), 0, 0
    for line in lines:
        found = _keys(lake, known, line)
        if found is None:
            why = f"the verification kept no key of {name} as the lake has it, because map masks "
            return _LeftOut(f"{why}or renames it", _whole(spec, name))
        texts |= found.texts
        kept, unsure = kept + found.kept, unsure + found.unsure
    return _Keys(frozenset(texts), kept, unsure)


def _warnings(spec: Migration, name: str, found: _Keys, lines: list[_NewestLine]) -> list[str]:
    """What a person should know about the keys of a table."""
    again = spec.command("run", "FILE", "--reload", name)
    differing = sum(line.differing for line in lines)
    warnings = []
    if found.unsure:
        warnings.append(
            f"the lake lacks {counted(found.unsure, 'row')} of {name}, and messages may write such "
            "a key in another way than the database, so that the reload does not find it: verify "
            f"again afterwards, and rebuild the whole table (`{again}`) if a row is still missing"
        )
    if found.kept < differing:
        warnings.append(
            f"the verification found {counted(differing, 'key')} of {name} that differ and kept "
            f"{found.kept}, so the reload takes these: verify again afterwards, or rebuild the "
            f"whole table (`{again}`)"
        )
    return warnings


def _whole(spec: Migration, name: str) -> str:
    """The way out where rows of a table cannot be rebuilt individually."""
    return f"rebuild the whole table, `{spec.command('run', 'FILE', '--reload', name)}`"


def _why_not(
    lake: History, spec: Migration, name: str, known: TableState, waits: bool
) -> _LeftOut | None:
    """Why single rows of a table cannot be rebuilt; None where they can."""
    whole = _whole(spec, name)
    if not known.key:
        return _LeftOut(f"{name} has no key, so its rows cannot be distinguished", whole)
    if known.renamed:
        why = (
            f"columns of {name} were renamed, and single reloaded changes would not show which "
            "names they have"
        )
        return _LeftOut(why, whole)
    if waits:
        why = (
            f"{name} waits for a decision (`{spec.command('status', 'FILE')}`), and its rows "
            "do not reflect its changes until then"
        )
        return _LeftOut(why, f"decide first, or {whole}")
    since = lake.changes_since(name)
    if since is not None:
        why = (
            f"retention has deleted changes of {name} from batches that ended before {since}, so "
            "the archive may lack messages that its rows came from"
        )
        return _LeftOut(why, "load a dump of the table with `as_of` under `full:`")
    return None


def _newest(lake: History) -> dict[str, list[_NewestLine]]:
    """The newest verification that compared rows, of each table and of each that becomes one."""
    name = lake.log(NAME)
    if not lake.exists(name):
        return {}
    newest: dict[str, tuple[Any, str, dict[str, Any]]] = {}
    rows = lake.scan(name, ["verification", "time", "table", "body"], {"kind": ["table"]})
    for row in rows:
        figures = json.loads(row["body"])
        # Of tables that were not compared, and of mere numbers, no row is known.
        if figures["method"] == "counts" or figures.get("outcome", VERIFIED) != VERIFIED:
            continue
        label = row["table"]
        if label not in newest or newest[label][0] < row["time"]:
            newest[label] = row["time"], row["verification"], figures
    found: dict[str, list[_NewestLine]] = {}
    for label, (_, verification, figures) in sorted(newest.items()):
        one_text = figures.get("one_text", False)
        line = _NewestLine(verification, label, figures["differing"], one_text)
        found.setdefault(figures["table"], []).append(line)
    return found


def _keys(lake: History, known: TableState, line: _NewestLine) -> _Keys | None:
    """The keys that are kept of a line; None where one lacks values, because `map` masks them."""
    wanted = {"kind": ["difference"], "verification": [line.verification], "table": [line.label]}
    bodies = (json.loads(row["body"]) for row in lake.scan(lake.log(NAME), ["body"], wanted))
    texts, unsure = set(), 0
    for body in bodies:
        image: Mapping[str, str | None] = body["key"]
        if not set(known.key or ()) <= image.keys() or MASKED in image.values():
            return None
        texts.add(json_text({column: image[column] for column in known.key or ()}))
        unsure += body["what"] == MISSING_IN_LAKE and not line.one_text
    return _Keys(frozenset(texts), len(texts), unsure)
