"""Names of the assets that a migration updates.

Every merged table and every target is one: `<migration>/tables/<table>` and
`<migration>/targets/<target>`. Which tables there are shows only when a batch comes, so that the
publish task names one alias, which carries the migration's name, and the assets are added to it.
"""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import AssetAlias


def alias_of(migration: str) -> AssetAlias:
    """What stands for all assets of a migration."""
    return AssetAlias(migration)


def table_asset(migration: str, table: str) -> str:
    """Name of the asset of a merged table."""
    return f"{migration}/tables/{quote(table, safe='')}"


def target_asset(migration: str, target: str) -> str:
    """Name of the asset of a target."""
    return f"{migration}/targets/{quote(target, safe='')}"
