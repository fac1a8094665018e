"""Runs suites through Great Expectations, over profiles of a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from waybill.validate.great_expectations_context import in_memory, loaded, raised_by
from waybill.validate.result import Checked
from waybill.validate.suites import is_waivable

if TYPE_CHECKING:
    from waybill.validate.suites import Suite

ROW_NAMES = {"changes": "topic", "tables": "table", "trends": "name"}
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
    with over_profiles(profiles, parameters) as run:
        return [check for suite in suites for check in run(suite)]


@contextmanager
def over_profiles(
    profiles: Mapping[str, Sequence[Mapping[str, Any]]], parameters: Mapping[str, Any]
) -> Iterator[Callable[[Suite], list[Checked]]]:
    """Loads Great Expectations; gives what checks one suite after the other.

    Args:
        profiles: see `run_suites`, as for what is raised by what is given.
        parameters: see there, too.
    """
    with in_memory() as context:
        numbers = count()
        yield lambda suite: _run(context, suite, next(numbers), profiles, parameters)


def _run(
    context: Any,
    suite: Suite,
    number: int,
    profiles: Mapping[str, Sequence[Mapping[str, Any]]],
    parameters: Mapping[str, Any],
) -> list[Checked]:
    """The results of a suite; its number tells it apart in the context."""
    import great_expectations as gx
    import pandas as pd

    rows = list(profiles[suite.over.name])
    if not rows:
        return [nothing_to_check(suite, item) for item in suite.expectations]
    source = context.data_sources.add_pandas(f"profile {number}")
    batch = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    data = gx.ValidationDefinition(
        name=f"{suite.name} {number}", data=batch, suite=context.suites.add(loaded(suite, number))
    )
    result: Any = context.validation_definitions.add(data).run(
        batch_parameters={"dataframe": pd.DataFrame(rows)},
        expectation_parameters=dict(parameters),
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": [ROW_NAMES[suite.over.name]],
        },
    )
    return [_checked(suite, item) for item in result.to_json_dict()["results"]]


def _checked(suite: Suite, item: dict[str, Any]) -> Checked:
    config, result = item["expectation_config"], item.get("result") or {}
    kwargs = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    raised = raised_by(item)
    return Checked(
        suite=suite.name,
        profile=suite.over.name,
        type=config["type"],
        arguments=kwargs,
        severity=config.get("severity") or "critical",
        description=config.get("description") or "",
        look=(config.get("meta") or {}).get("look", ""),
        success=bool(item["success"]),
        observed=_observed(suite, kwargs, result),
        error=raised if not item["success"] else None,
        waivable=is_waivable(config),
    )


def _observed(suite: Suite, kwargs: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was found where it should not be: names of rows with their values."""
    if "observed_value" in result:
        return [{"where": "", "value": result["observed_value"]}]
    name, column = ROW_NAMES[suite.over.name], kwargs.get("column")
    found = []
    for row in result.get("unexpected_index_list") or []:
        value = row.get(column) if column else {k: v for k, v in row.items() if k != name}
        found.append({"where": row.get(name, ""), "value": value})
    return found


def nothing_to_check(suite: Suite, item: Mapping[str, Any], note: str = "") -> Checked:
    """The result of an expectation where there is nothing to look at.

    Args:
        suite: its suite.
        item: the expectation, as the suite has it.
        note: why there is nothing.
    """
    return Checked(
        suite=suite.name,
        profile=str(suite.over),
        type=item["type"],
        arguments=dict(item.get("kwargs", {})),
        severity=item.get("severity", "critical"),
        description=item.get("description", ""),
        look=item.get("meta", {}).get("look", ""),
        success=True,
        observed=[],
        error=None,
        table=suite.over.table,
        note=note,
        waivable=is_waivable(item),
    )
