"""The lake: Iceberg tables, written on branches and made visible by compare-and-swap.

The only package that knows Iceberg. `Lake.open(session, migration)` is the way in.
"""

from __future__ import annotations

from waybill.lake.commit import Branch, Commit
from waybill.lake.settings import spark_settings
from waybill.lake.tables import LOG_PROPERTIES, Lake, Span

__all__ = ["LOG_PROPERTIES", "Branch", "Commit", "Lake", "Span", "spark_settings"]
