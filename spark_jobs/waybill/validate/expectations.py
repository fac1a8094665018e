"""Runs suites through Great Expectations, over profiles of a few rows.

The context lives in memory: nothing is written, no telemetry is sent, and the suites stay the
hand-written files they are.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.validate.result import Checked

if TYPE_CHECKING:
    from waybill.validate.suites import Suite

ROW_NAMES = {"changes": "topic", "tables": "table"}
"""The column that names a row of each profile."""


def run_suites(
    suites: Sequence[Suite],
    profiles: Mapping[str, Sequence[Mapping[str, Any]]],
    parameters: Mapping[str, Any],
) -> list[Checked]:
    """Check profiles.

    Args:
        suites: what is expected.
        profiles: the rows of each profile.
        parameters: values for `{"$PARAMETER": name}` in the suites.

    Returns:
        One result per expectation, in the order of the suites.

    Raises:
        ConfigurationError: an expectation is not known, or its arguments are wrong.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    import pandas as pd
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = gx.get_context(mode="ephemeral", project_config=config)
        checked = []
        for number, suite in enumerate(suites):
            rows = list(profiles[suite.profile])
            if not rows:
                checked += [_nothing_to_check(suite, item) for item in suite.expectations]
                continue
            source = context.data_sources.add_pandas(f"profile {number}")
            batch = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
            data = gx.ValidationDefinition(
                name=f"{suite.name} {number}", data=batch, suite=_loaded(gx, context, suite, number)
            )
            result: Any = context.validation_definitions.add(data).run(
                batch_parameters={"dataframe": pd.DataFrame(rows)},
                expectation_parameters=dict(parameters),
                result_format={
                    "result_format": "COMPLETE",
                    "unexpected_index_column_names": [ROW_NAMES[suite.profile]],
                },
            )
            checked += [_checked(suite, item) for item in result.to_json_dict()["results"]]
    return checked


def _loaded(gx: Any, context: Any, suite: Suite, number: int) -> Any:
    """The suite as Great Expectations has it, all of it."""
    # It logs a traceback for an expectation of an unknown type and drops it; that is said below.
    log = logging.getLogger("great_expectations.core.expectation_suite")
    logging_off, log.disabled = log.disabled, True
    try:
        loaded = gx.ExpectationSuite(
            name=f"{suite.name} {number}", expectations=[dict(item) for item in suite.expectations]
        )
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        message = f"suite {suite.name} cannot be loaded: {text}; see expectations/README.md"
        raise ConfigurationError(message, code=Code.SUITE) from error
    finally:
        log.disabled = logging_off
    if len(loaded.expectations) != len(suite.expectations):
        known = {item.expectation_type for item in loaded.expectations}
        lost = [item["type"] for item in suite.expectations if item["type"] not in known]
        message = (
            f"suite {suite.name} has {counted(len(suite.expectations), 'expectation')} and only "
            f"{len(loaded.expectations)} could be loaded; not known: {', '.join(lost)}"
        )
        raise ConfigurationError(message, code=Code.SUITE)
    return context.suites.add(loaded)


def _checked(suite: Suite, item: dict[str, Any]) -> Checked:
    config, result = item["expectation_config"], item.get("result") or {}
    kwargs = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    raised = (item.get("exception_info") or {}).get("exception_message")
    if raised is None:
        # With several metrics the account of what was raised is one level deeper.
        inner = [v for v in (item.get("exception_info") or {}).values() if isinstance(v, dict)]
        raised = next((v["exception_message"] for v in inner if v.get("raised_exception")), None)
    return Checked(
        suite=suite.name,
        profile=suite.profile,
        type=config["type"],
        arguments=kwargs,
        severity=config.get("severity") or "critical",
        description=config.get("description") or "",
        look=(config.get("meta") or {}).get("look", ""),
        success=bool(item["success"]),
        observed=_observed(suite, kwargs, result),
        error=raised if not item["success"] else None,
    )


def _observed(suite: Suite, kwargs: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was found where it should not be: names of rows with their values."""
    if "observed_value" in result:
        return [{"where": "", "value": result["observed_value"]}]
    name, column = ROW_NAMES[suite.profile], kwargs.get("column")
    found = []
    for row in result.get("unexpected_index_list") or []:
        value = row.get(column) if column else {k: v for k, v in row.items() if k != name}
        found.append({"where": row.get(name, ""), "value": value})
    return found


def _nothing_to_check(suite: Suite, item: dict[str, Any]) -> Checked:
    return Checked(
        suite=suite.name,
        profile=suite.profile,
        type=item["type"],
        arguments=dict(item.get("kwargs", {})),
        severity=item.get("severity", "critical"),
        description=item.get("description", ""),
        look=item.get("meta", {}).get("look", ""),
        success=True,
        observed=[],
        error=None,
    )
