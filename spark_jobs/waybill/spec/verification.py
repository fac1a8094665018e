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
    """Name of the connection of the source database (`postgres` or `mysql`). A user that may read
    is enough; nothing is ever written."""
    schedule: Schedule | None = None
    """When the DAG runs; without a schedule, only by hand."""
    method: Method = "changed"
    """What is compared: `counts` of rows, the rows that `changed` since the last verification and
    the counts, or all rows in `full`."""
    tables: dict[str, str] = Field(default_factory=dict)
    """Names that tables have in the database, by their names in the lake, where they differ."""
    connections: int = Field(default=2, ge=1, le=64)
    """How many connections read the database at once."""
    rows_per_second: int = Field(default=50_000, ge=1)
    """The most rows that are read from the database a second, all connections together."""
    wait: LengthOfTime = "0s"
    """How long to wait for a batch that decides about rows that differ. What is not decided by
    then, the next verification decides."""
    lag: LengthOfTime | None = None
    """The longest that a change needs from its commit into the source's topic. Only for databases
    that may be quiet and send no heartbeats: a batch that began so long after the database was read
    is then taken to hold everything."""
