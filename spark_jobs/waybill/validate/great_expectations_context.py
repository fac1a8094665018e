"""Great Expectations as the gate uses it: in memory, silent, over the suites as they are written.

Nothing is written, no telemetry is sent, and the suites stay the files they are.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError

if TYPE_CHECKING:
    from waybill.validate.suites import Suite


@contextmanager
def in_memory() -> Iterator[Any]:
    """A context that lives as long as the block, in which nothing is logged.

    What it logs of a metric that cannot be computed holds values of rows.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
    )

    quiet: Any = {"globally": False}
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars=quiet,
    )
    log = logging.getLogger("great_expectations")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield gx.get_context(mode="ephemeral", project_config=config)
    finally:
        log.setLevel(level)


def loaded(suite: Suite, number: int = 0) -> Any:
    """The suite as Great Expectations has it, all of it.

    Args:
        suite: the suite.
        number: tells it apart in its context.

    Raises:
        ConfigurationError: an expectation is not known, or its arguments are wrong.
    """
    import great_expectations as gx

    try:
        # It drops an expectation of an unknown type; that is said below.
        found = gx.ExpectationSuite(
            name=f"{suite.name} {number}", expectations=[dict(item) for item in suite.expectations]
        )
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        message = f"suite {suite.name} cannot be loaded: {text}; see expectations/README.md"
        raise ConfigurationError(message, code=Code.SUITE) from error
    if len(found.expectations) != len(suite.expectations):
        known = {item.expectation_type for item in found.expectations}
        lost = [item["type"] for item in suite.expectations if item["type"] not in known]
        message = (
            f"suite {suite.name} has {counted(len(suite.expectations), 'expectation')} and only "
            f"{len(found.expectations)} could be loaded; not known: {', '.join(lost)}"
        )
        raise ConfigurationError(message, code=Code.SUITE)
    return found


def raised_by(result: dict[str, Any]) -> str | None:
    """What was raised while an expectation was checked, by its result as plain data."""
    account = result.get("exception_info") or {}
    raised: str | None = account.get("exception_message")
    if raised is None:
        # With several metrics the account of what was raised is one level deeper.
        inner = [value for value in account.values() if isinstance(value, dict)]
        raised = next((v["exception_message"] for v in inner if v.get("raised_exception")), None)
    return raised
