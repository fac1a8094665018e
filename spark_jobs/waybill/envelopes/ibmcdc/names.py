"""Names of tables and columns as Avro names, and back.

IBM CDC names a row's record after the table, in the namespace `value.SOURCEDB.<schema>`, a key's in
`key.SOURCEDB.<schema>`. What is no legal Avro name is written with underscores, and the true name
stands beside it: `dbColumnName` at a column, `dbTableName` and its like at a record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from waybill.avro.names import legal

SOURCE_DATABASE = "SOURCEDB"
"""What stands in every namespace for the source database."""


class Place(NamedTuple):
    """A table: database, schema and name."""

    database: str | None
    schema: str | None
    table: str | None


def place_of(full_name: str, attributes: dict[str, Any]) -> Place:
    """The table of a record.

    One name between SOURCEDB and the table is taken for the database, of several the first is the
    database and the others are the schema; nothing public says more about them.
    """
    if isinstance(attributes.get("dbTableName"), str):
        names = [attributes.get(f"db{which}Name") for which in ("Database", "Schema", "Table")]
        return Place(*(name if isinstance(name, str) else None for name in names))
    *namespace, table = full_name.split(".")
    if namespace and namespace[0] in ("key", "value"):
        namespace = namespace[1:]
    if namespace and namespace[0].upper() == SOURCE_DATABASE:
        namespace = namespace[1:]
    database = namespace[0] if namespace else None
    return Place(database, ".".join(namespace[1:]) or None, table)


def record_name(part: str, place: Place) -> dict[str, Any]:
    """Name, namespace and attributes of the record of a table's rows or keys.

    Args:
        part: key or value.
        place: the table.
    """
    names = [name for name in (place.database, place.schema) if name is not None]
    namespace = ".".join([part, SOURCE_DATABASE, *map(legal, names)])
    found: dict[str, Any] = {"name": legal(place.table or ""), "namespace": namespace}
    if place_of(f"{namespace}.{found['name']}", {}) == place:
        return found
    parts = {"Database": place.database, "Schema": place.schema, "Table": place.table or ""}
    return {**found, **{f"db{which}Name": n for which, n in parts.items() if n is not None}}
