"""The keys that verifications found to differ, as a reload takes them.

A reload of keys needs them as the lake has them, and rows that can be made anew one by one. Where
either is not so, a sentence says what to do instead.
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
    from waybill.merge.state import TableState
    from waybill.spec.migration import Migration


class _Line(NamedTuple):
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


class _Keys(NamedTuple):
    """Keys that are kept of a line.

    Attributes:
        texts: key images as the lake has them.
        unsure: how many are of rows that the lake lacks, and may be written otherwise in messages.
    """

    texts: frozenset[str]
    unsure: int


def keys_to_reload(lake: History, spec: Migration, tables: tuple[str, ...]) -> KeysToReload:
    """The keys of tables that differ, by the newest verification of each that compared rows.

    Args:
        lake: the lake.
        spec: the migration.
        tables: names or patterns of the tables, as the lake has them.

    Raises:
        ConfigurationError: none is known, a name or pattern is of no table, or rows of a table
            cannot be made anew one by one; says what to do instead.
    """
    merged = lake.merged_tables()
    for one in tables:
        if not any(fits(spellings(name), (one,)) for name in merged):
            raise ConfigurationError(unknown("table", one, list(merged)), code=Code.OPTION)
    named = [name for name in merged if fits(spellings(name), tables)]
    lines = _newest(lake)
    verify = spec.command("verify", "FILE", "--method", "full")
    compared = [name for name in named if name in lines]
    if not compared:
        message = (
            f"no verification has compared rows of {', '.join(named)}, so no key is known that "
            f"differs: `{verify}` finds them"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    state = position_of(lake).state
    keys: dict[str, frozenset[str]] = {}
    warnings: list[str] = []
    if others := [name for name in named if name not in lines]:
        warnings.append(
            f"no verification has compared rows of {', '.join(others)}, so nothing of them is "
            f"made anew: `{verify}` finds the keys that differ"
        )
    for name in compared:
        differing = sum(line.differing for line in lines[name])
        if not differing:
            continue
        _check(spec, name, state.table(name), name in state.held)
        found = _keys(lake, spec, name, state.table(name), lines[name])
        kept, unsure = sum(len(one.texts) for one in found), sum(one.unsure for one in found)
        keys[name] = frozenset[str]().union(*(one.texts for one in found))
        again = spec.command("run", "FILE", "--reload", name)
        if unsure:
            warnings.append(
                f"the lake lacks {counted(unsure, 'row')} of {name}, and messages may write such a "
                "key in another way than the database, so that the reload does not find it: verify "
                f"again afterwards, and make the whole table anew (`{again}`) if a row is missing "
                "still"
            )
        if kept < differing:
            warnings.append(
                f"the verification found {counted(differing, 'key')} of {name} that differ and "
                f"kept {kept}, so the reload takes these: verify again afterwards, or make the "
                f"whole table anew (`{again}`)"
            )
    if not keys:
        message = (
            f"the newest verification found no row of {', '.join(compared)} that differs, so "
            f"nothing is to be made anew: `{verify}` compares all rows"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    transactions = [one.members for one in state.open] + [one.members for one in state.rolled_back]
    unsettled = in_transactions(transactions) if transactions else ""
    return KeysToReload(keys, tuple(warnings), unsettled)


def _check(spec: Migration, name: str, known: TableState, waits: bool) -> None:
    """See that single rows of a table can be made anew.

    Raises:
        ConfigurationError: they cannot.
    """
    whole = f"make the whole table anew, `{spec.command('run', 'FILE', '--reload', name)}`"
    if not known.key:
        message = f"{name} has no key, so its rows cannot be told apart: {whole}"
    elif known.renamed:
        message = (
            f"columns of {name} were renamed, and changes brought again one by one would not show "
            f"which names they have: {whole}"
        )
    elif waits:
        message = (
            f"{name} waits for a decision (`{spec.command('status', 'FILE')}`), and its rows are "
            f"not what its changes say until then: decide first, or {whole}"
        )
    else:
        return
    raise ConfigurationError(message, code=Code.OPTION)


def _newest(lake: History) -> dict[str, list[_Line]]:
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
    found: dict[str, list[_Line]] = {}
    for label, (_, verification, figures) in sorted(newest.items()):
        one_text = figures.get("one_text", False)
        line = _Line(verification, label, figures["differing"], one_text)
        found.setdefault(figures["table"], []).append(line)
    return found


def _keys(
    lake: History, spec: Migration, name: str, known: TableState, lines: list[_Line]
) -> list[_Keys]:
    """The keys that are kept of a table.

    Raises:
        ConfigurationError: a key is kept without its values, because `map` masks it.
    """
    found = []
    for line in lines:
        wanted = {
            "kind": ["difference"],
            "verification": [line.verification],
            "table": [line.label],
        }
        bodies = (json.loads(row["body"]) for row in lake.scan(lake.log(NAME), ["body"], wanted))
        keys, unsure = set(), 0
        for body in bodies:
            image: Mapping[str, str | None] = body["key"]
            if not set(known.key or ()) <= image.keys() or MASKED in image.values():
                again = spec.command("run", "FILE", "--reload", name)
                message = (
                    f"the verification kept no key of {name} as the lake has it, because map masks "
                    f"or renames it: make the whole table anew, `{again}`"
                )
                raise ConfigurationError(message, code=Code.OPTION)
            keys.add(json_text({column: image[column] for column in known.key or ()}))
            unsure += body["what"] == MISSING_IN_LAKE and not line.one_text
        found.append(_Keys(frozenset(keys), unsure))
    return found
