"""How the merged tables are compared with the database they come from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.spec.model import Model
from waybill.spec.values import LengthOfTime, Schedule

Method = Literal["counts", "changed", "full"]
"""What is compared: numbers of rows, rows that changed since the last time and the numbers, or all
rows."""


class Verify(Model):
    """[Verification](verify.md) against the source database, in a DAG of its own."""

    database: str
    """Name of the connection of the source database, of type `postgres`, `mysql` or `mariadb`. A
    user with read permission is enough; Waybill never writes to the database."""
    schedule: Schedule | None = None
    """When the DAG runs; without a schedule, only when triggered by hand."""
    method: Method = "changed"
    """What is compared: the `counts` of rows; the rows that `changed` since the last verification,
    and the counts; or all rows (`full`)."""
    tables: dict[str, str] = Field(default_factory=dict)
    """Names of tables in the database, by their names in the lake, if the two differ."""
    connections: int = Field(default=2, ge=1, le=64)
    """How many connections read the database at the same time."""
    rows_per_second: int = Field(default=50_000, ge=1)
    """Maximum number of rows that all connections together read from the database per second."""
    wait: LengthOfTime = "0s"
    """How long to wait for a batch that decides rows that differ. The next verification decides the
    rest."""
    lag: LengthOfTime | None = None
    """The longest time between the commit of a change and its arrival in the source's topic. Only
    for databases that can be quiet and send no heartbeats: a batch that began this long after the
    database was read is then assumed to hold everything."""
