"""Whether anybody wants to know the lineage."""

from __future__ import annotations


def is_on() -> bool:
    """Whether the provider of OpenLineage is installed and configured where to send events.

    Raises:
        ValueError: its settings cannot be read.
    """
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    return not conf.is_disabled()
