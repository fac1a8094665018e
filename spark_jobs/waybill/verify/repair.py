"""Which rows a reload takes that is to repair what a verification found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waybill.errors import Code, ConfigurationError
from waybill.mapping.rules import fits
from waybill.merge.position import position_of
from waybill.verify.newest import NAME, label_of, last_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.batches.kept_tables import RowKeys
    from waybill.lake.history import History
    from waybill.merge.state import TableState
    from waybill.spec.migration import Migration


def keys_to_reload(spec: Migration, lake: History, tables: Sequence[str]) -> RowKeys:
    """The keys of the rows that the newest verification of some tables found to differ.

    Args:
        spec: the migration.
        lake: its lake.
        tables: names or patterns of the tables.

    Raises:
        ConfigurationError: no row is known to differ; more differ than the lake keeps; or the table
            has no key, or one whose columns got other names, by which changes are not found.
    """
    found: dict[str, set[frozenset[tuple[str, str | None]]]] = {}
    newest = [one for one in last_results(lake) if fits((one["table"],), tuple(tables))]
    state = position_of(lake).state
    for one in newest:
        if one["method"] == "counts" or not one["differing"]:
            continue
        table = one["table"]
        asked = {
            "kind": ["difference"],
            "verification": [one["verification"]],
            "table": [label_of(table, one.get("shard"))],
        }
        keys = [
            json.loads(row["body"])["key"] for row in lake.scan(lake.log(NAME), ["body"], asked)
        ]
        whole = spec.command("run", "FILE", "--reload", table)
        if len(keys) < one["differing"]:
            message = (
                f"{one['differing']} rows of {table} differ, and the lake keeps the keys of "
                f"{len(keys)}: reload the whole table, `{whole}`"
            )
            raise ConfigurationError(message, code=Code.OPTION)
        _check_key(table, state.table(table), whole)
        found.setdefault(table, set()).update(frozenset(key.items()) for key in keys)
    if not found:
        again = spec.command("verify", "FILE")
        message = (
            f"no row of {', '.join(tables)} is known to differ: `{again}` finds those that do, "
            "and without --differing all rows are reloaded"
        )
        raise ConfigurationError(message, code=Code.OPTION)
    return {table: frozenset(keys) for table, keys in found.items()}


def _check_key(table: str, known: TableState, whole: str) -> None:
    if not known.key:
        message = f"{table} has no key to choose rows by: reload the whole table, `{whole}`"
        raise ConfigurationError(message, code=Code.OPTION)
    renamed = {new for one in known.renamed for new in one.names.values()}
    if renamed.intersection(known.key):
        message = (
            f"the key columns of {table} were renamed, and older changes have the names of before: "
            f"reload the whole table, `{whole}`"
        )
        raise ConfigurationError(message, code=Code.OPTION)
