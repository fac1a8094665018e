"""What the trigger form takes, asked of Airflow's own check of its fields."""

from __future__ import annotations

import random
import re
from datetime import datetime

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.exceptions import ParamValidationError as Refused

from waybill_airflow.params import TIME_PATTERN, trigger_form

assert issubclass(Refused, AirflowException)


def check(field: str, value: str) -> None:
    form = ParamsDict(trigger_form())
    form.update({field: value})
    form.validate()


@pytest.mark.parametrize("value", ["b1", "20261120T060000.000-ab12cd", "a" * 64])
def test_a_batch_id_is_taken(value) -> None:
    check("batch", value)


@pytest.mark.parametrize("value", ["b1\n", "", "-b", "a/b", "a b", "a" * 65, "b\n1", "bé"])
def test_what_is_no_batch_id_is_refused(value) -> None:
    with pytest.raises(Refused):
        check("batch", value)


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-20T06:00",
        "2026-12-31T23:59:59.123456Z",
        "2024-02-29T00:00:00+01:00",
        "2000-02-29T00:00",
        "2026-11-30T00:00-23:59",
    ],
)
def test_a_time_is_taken(value) -> None:
    check("until_time", value)
    datetime.fromisoformat(value)


@pytest.mark.parametrize(
    "value",
    [
        "2026-99-99T99:99",
        "2026-11-20T06:00\n",
        "2026-02-29T00:00",
        "1900-02-29T00:00",
        "2026-04-31T00:00",
        "2026-13-01T00:00",
        "2026-00-10T00:00",
        "2026-01-00T00:00",
        "0000-01-01T00:00",
        "2026-01-01T24:00",
        "2026-01-01T00:60",
        "2026-01-01T00:00:60",
        "2026-01-01T00:00+24:00",
        "2026-01-01T00:00+01:60",
        "２026-01-01T00:00",
        "2026-01-01",
        "yesterday",
    ],
)
def test_what_is_no_time_is_refused(value) -> None:
    with pytest.raises(Refused):
        check("until_time", value)


def test_the_pattern_knows_the_calendar() -> None:
    draw = random.Random(6)
    for _ in range(20_000):
        year = draw.choice([draw.randrange(10_000), 1900, 2000, 2024, 2026])
        day = f"{year:04}-{draw.randrange(15):02}-{draw.randrange(34):02}"
        text = f"{day}T{draw.randrange(26):02}:{draw.randrange(62):02}"
        try:
            datetime.fromisoformat(text)
            real = True
        except ValueError:
            real = False
        # 24:00 is the next day's midnight for some versions of Python, and for the form nothing.
        assert bool(re.search(TIME_PATTERN, text)) == (real and "T24" not in text), text
