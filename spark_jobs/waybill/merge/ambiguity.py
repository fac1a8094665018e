"""Order that cannot be determined: changes of one key without sequence id in several partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.merge.increment import NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from waybill.merge.table_plans import TablePlan

_PARTITION = "substring_index(substring_index(`order`, '/', -1), ':', 1)"


def refuse_ambiguous(
    name: str,
    plan: TablePlan,
    effects: DataFrame,
    stored: Callable[[], DataFrame] | None,
) -> None:
    """Stop where only positions in different partitions or topics could order changes.

    Args:
        name: the source table.
        plan: what the batch means for it.
        effects: the effects of its changes.
        stored: makes a frame of its stored rows, None where there are none.

    Raises:
        ConfigurationError: names how many keys and the setting, in the log one key as well.
    """
    places = plan.state.places
    if len(places) < 2 or not plan.survey.places:
        return
    topics = sorted({topic for topic, _ in places})
    if len(topics) > 1:
        raise ConfigurationError(
            _sentence(name, f"come from the topics {', '.join(topics)}"), code=Code.ORDER_AMBIGUOUS
        )
    seen = effects.select("key", "order")
    if stored is not None:
        seen = seen.unionByName(stored().select("key", "order"))
    several = (
        seen.where(NO_SEQUENCE.replace("order_key", "`order`"))
        .select("key", F.expr(_PARTITION).alias("p"))
        .groupBy("key")
        .agg(F.min("p").alias("low"), F.max("p").alias("high"))
        .where("low != high")
    )
    found = several.agg(F.count("*").alias("n"), F.min("key").alias("key")).collect()[0]
    if found.n:
        what = f"put {counted(found.n, 'key')} into more than one partition"
        raise ConfigurationError(
            _sentence(name, what),
            code=Code.ORDER_AMBIGUOUS,
            logged=_sentence(name, f"{what} (for one {found.key})"),
        )


def refuse_unordered_truncates(name: str, plan: TablePlan) -> None:
    """Stop at a TRUNCATE or DROP without sequence id where several partitions bring changes.

    Raises:
        ConfigurationError: names the table and the setting.
    """
    if plan.survey.unordered_truncates and len(plan.state.places) > 1:
        raise ConfigurationError(
            _sentence(
                name, "include a TRUNCATE or DROP that has no order against other partitions"
            ),
            code=Code.ORDER_AMBIGUOUS,
        )


def _sentence(name: str, what: str) -> str:
    return (
        f"changes of {name} without a sequence id {what}, so their order is unknown: "
        "publish them by key into one partition, or set order.ambiguous to source_time or partition"
    )
