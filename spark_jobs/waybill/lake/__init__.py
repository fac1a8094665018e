"""The lake: Iceberg tables, written on branches and made visible by compare-and-swap.

The only package that knows Iceberg. `Lake.open(session, migration)` is the way in.
"""

from __future__ import annotations

from waybill.lake.commit import Branch, Commit
from waybill.lake.metadata import Span
from waybill.lake.settings import spark_settings
from waybill.lake.table_properties import LOG_PROPERTIES
from waybill.lake.tables import Lake
from waybill.lake.task_rows import TaskRows

__all__ = ["LOG_PROPERTIES", "Branch", "Commit", "Lake", "Span", "TaskRows", "spark_settings"]
