"""Runs a suite through Great Expectations over rows in Spark.

First every expectation is checked, and nothing but counts leaves Spark: of what looks at one value
at a time Great Expectations makes one aggregate, so however many rules a suite has, it is one job.
What compares rows with each other (unique values, values in order) and SQL take jobs of their own.
Only of what is not met rows are fetched, ten for each expectation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.suggestions import did_you_mean
from waybill.validate.expectations import nothing_to_check
from waybill.validate.great_expectations_context import in_memory, loaded, raised_by
from waybill.validate.metering import metered
from waybill.validate.result import FIGURES, Cost
from waybill.validate.suites import QUERY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.validate.result import Checked
    from waybill.validate.suites import Over, Suite

NAME = "_waybill_key"
"""The column that names a row; suites do not see it."""

SHOWN = 10
"""How many rows that do not meet an expectation are shown."""

LONGEST = 100
"""Characters of a value that are shown."""

_ALONE = re.compile(r"expect_column_value(s_to|_lengths)_(?!.*(unique|creasing|z_score|outlier))")
"""Expectations that look at one value at a time."""

_LENGTHS = "value_lengths"
"""In the types of those that look at lengths of values."""

_OF_NONE = re.compile(r"expect_table_|unexpected_rows_")
"""Expectations that mean something where there are no rows."""

_NUMBER = "number"
"""In the meta of an expectation: its place in the suite."""

_INDEX = "partial_unexpected_index_list"
"""In the result of an expectation on rows: some that do not meet it."""

_LACKS = re.compile(r'column "([^"]*)" in BatchData does not exist')
_WITHOUT_VALUES = re.compile(r"\w+ metrics cannot be computed on column of type \w+\S*")
_CONDITION = re.compile(r"(?:^|Exception: )\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]([^;\n]*)")
_ANALYSED = ("UNRESOLVED_", "PARSE_", "DATATYPE_MISMATCH", "TABLE_OR_VIEW_NOT_FOUND")
"""Conditions of Spark that it finds in a query before it looks at a row."""
_JAVA = re.compile(r"\bjava\.[\w.]+(?:Exception|Error)\b")


class RowsJudged(NamedTuple):
    """What a suite found in rows, and what that took."""

    checks: list[Checked]
    cost: Cost


def run_row_suite(suite: Suite, rows: DataFrame, kept: bool) -> RowsJudged:
    """Check rows.

    Args:
        suite: what is expected of them.
        rows: the columns that the suite sees, and `NAME`.
        kept: whether the rows are few enough to be kept in memory, where they are read often.

    Returns:
        One result per expectation, in the order of the suite.

    Raises:
        ConfigurationError: an expectation is not known, or its arguments are wrong.
    """
    kept = kept and _passes(suite) > 1
    with metered(rows.sparkSession) as meter, in_memory() as context:
        numbered = _numbered(suite)
        rows = rows.persist() if kept else rows
        try:
            count = rows.count()
            if not count:
                numbered = {n: c for n, c in numbered.items() if _OF_NONE.match(c.type)}
            checks = _checked(context, suite, numbered, rows)
        finally:
            if kept:
                rows.unpersist()
    cost = Cost(suite.name, str(suite.over), count, meter.seconds, meter.jobs)
    return RowsJudged(checks, cost)


def _checked(
    context: Any, suite: Suite, numbered: dict[int, Any], rows: DataFrame
) -> list[Checked]:
    """The results of a suite, of which some expectations are asked and the others have no rows."""
    found = _validated(context, numbered, rows.drop(NAME), {"result_format": "BOOLEAN_ONLY"})
    failed = [config for number, config in numbered.items() if _to_show(found[number])]
    queries = [config for config in failed if QUERY in config.kwargs]
    others = [config for config in failed if QUERY not in config.kwargs]
    # With it a query is repeated whole, which may be as long as the table; of other expectations
    # Great Expectations would then fetch all rows that do not meet them.
    shown = [("COMPLETE", queries), ("SUMMARY", others)]
    for format_, configs in shown:
        wanted = {
            "result_format": format_,
            "partial_unexpected_count": SHOWN,
            "unexpected_index_column_names": [NAME],
            "return_unexpected_index_query": False,
        }
        again = {config.meta[_NUMBER]: config for config in configs}
        found |= _validated(context, again, rows, wanted)
    columns = [column for column in rows.columns if column != NAME]
    return [
        _check(suite, number, found[number], columns)
        if number in found
        else nothing_to_check(suite, item, "there are no rows")
        for number, item in enumerate(suite.expectations)
    ]


def _to_show(result: dict[str, Any]) -> bool:
    return not result["success"] and raised_by(result) is None


def _numbered(suite: Suite) -> dict[int, Any]:
    """The expectations as Great Expectations configures them, each with its place in its meta."""
    configs = {}
    for number, expectation in enumerate(loaded(suite).expectations):
        config = expectation.configuration
        config.meta = {**(config.meta or {}), _NUMBER: number}
        configs[number] = config
    return configs


def _validated(
    context: Any, configs: dict[int, Any], rows: DataFrame, wanted: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """What came of each expectation, as plain data."""
    if not configs:
        return {}
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.validator.validator import Validator

    engine = SparkDFExecutionEngine(spark=rows.sparkSession, persist=False)
    engine.load_batch_data("rows", rows)
    validator = Validator(execution_engine=engine, data_context=context)
    results = validator.graph_validate(
        list(configs.values()), runtime_configuration={"result_format": wanted}
    )
    # A view of this name is what queries read.
    rows.sparkSession.catalog.dropTempView("tmp_view")
    found = {}
    for result in results:
        config: Any = result.expectation_config
        number = config.meta[_NUMBER]
        # Not as JSON, which has no room for some values.
        found[number] = {
            "success": bool(result.success),
            "result": result.result or {},
            "exception_info": result.exception_info or {},
        }
    return found


def _check(suite: Suite, number: int, found: dict[str, Any], columns: Sequence[str]) -> Checked:
    item, result = suite.expectations[number], found["result"]
    check = nothing_to_check(suite, item)
    if found["success"]:
        return check
    raised = raised_by(found)
    unexpected, observed = None, []
    if raised is None:
        observed = _observed(suite.over, item["type"], check.arguments, result)
        if _INDEX in result:
            unexpected = result["unexpected_count"]
        elif QUERY in check.arguments:
            unexpected = result["observed_value"]
    return replace(
        check,
        success=False,
        observed=observed,
        unexpected=unexpected,
        error=None if raised is None else without_values(raised, columns),
    )


def _observed(
    over: Over, type_: str, arguments: dict[str, Any], result: dict[str, Any]
) -> list[dict[str, Any]]:
    """Names of rows, with those of their values that may be shown; or a figure."""
    rows = result.get(_INDEX)
    if rows is None and QUERY in arguments:
        rows = (result.get("details") or {}).get("unexpected_rows")
    if rows is not None:
        # A query that counts or groups has rows of its own.
        named = [row for row in rows[:SHOWN] if row.get(NAME) is not None]
        return [_row(over, row) for row in named]
    if "observed_value" not in result:
        return []
    named = [arguments[name] for name in ("column", "column_A", "column_B") if name in arguments]
    columns = [*named, *(arguments.get("column_list") or [])]
    if FIGURES.match(type_) or (columns and all(map(over.shows, columns))):
        value = result["observed_value"]
        return [{"where": "", "value": value if isinstance(value, int | float) else _text(value)}]
    return []


def _row(over: Over, row: dict[str, Any]) -> dict[str, Any]:
    values = [f"{name} {_text(v)}" for name, v in row.items() if name != NAME and over.shows(name)]
    shown = {"where": str(row[NAME])}
    return {**shown, "value": ", ".join(values)} if values else shown


def _text(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes | bytearray) else str(value)
    text = "null" if value is None else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def without_values(raised: str, columns: Sequence[str]) -> str:
    """Why an expectation cannot be checked, without the values that exceptions quote.

    Args:
        raised: the message of the exception.
        columns: what the suite can name.
    """
    if lacks := _LACKS.search(raised):
        return f"there is no column {lacks[1]!r}{did_you_mean(lacks[1], columns)}"
    if known := _WITHOUT_VALUES.search(raised):
        return known[0]
    if condition := _CONDITION.search(raised):
        analysed = condition[1].startswith(_ANALYSED)
        return f"Spark says {condition[1]}{':' + condition[2] if analysed else ''}"
    if java := _JAVA.search(raised):
        return f"Spark says {java[0]}"
    return (
        "it cannot be computed on these rows; its arguments may be of another type than the column"
    )


def _passes(suite: Suite) -> int:
    """How often the rows are read, about: once for what looks at one value at a time.

    Lengths are computed before they are counted, which is once more.
    """
    types = [item["type"] for item in suite.expectations]
    conditions = {
        str((item.get("kwargs") or {}).get("row_condition")) for item in suite.expectations
    }
    lengths = any(_LENGTHS in type_ for type_ in types)
    return len(conditions) + lengths + sum(_ALONE.match(type_) is None for type_ in types)
