"""Names in the lake: quoting, and table names made of names that a source gave."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 120


def quoted(*parts: str) -> str:
    """A dotted SQL identifier; every part is quoted, so that it can hold anything."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(value: str | int) -> str:
    """A SQL literal."""
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def table_name(qualified: str) -> str:
    """The table name for a source table, e.g. `shop_orders` for `shop.orders`.

    Lower case, every other character an underscore. Two source tables may get the same name; the
    lake then gives the second one `distinct_name`.
    """
    name = re.sub(r"[^a-z0-9_]", "_", qualified.lower()).strip("_") or "table"
    return name[:_LONGEST]


def distinct_name(qualified: str) -> str:
    """`table_name` with a short hash of the exact source name."""
    return f"{table_name(qualified)}_{_hash(qualified)}"


def branch_prefix(stage: str, batch: str) -> str:
    """What the branches of a stage and batch begin with; readable, and distinct for every batch."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "-", batch)[:60]
    return f"{stage}_{readable}_{_hash(batch)}_"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def split(table: str) -> tuple[str, str]:
    """Namespace and name of a full table name."""
    _catalog, namespace, name = table.split(".")
    return namespace, name
