"""Makes pages of templates. Everything that comes from outside is escaped."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from waybill_airflow.links import MOUNT
from waybill_airflow.places import base_path
from waybill_airflow.web import formatting
from waybill_airflow.web.addresses import Addresses


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        # What the gate's report shows is the library's; only its style sheet is ours.
        loader=ChoiceLoader(
            [PackageLoader("waybill_airflow.web"), PackageLoader("waybill.validate", "")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": formatting.number,
        "counts": formatting.counts,
        "clock": formatting.clock,
        "moment": formatting.moment,
        "time_of_day": formatting.time_of_day,
    }
    return environment


def page(template: str, **values: Any) -> str:
    """A page.

    Args:
        template: name of the template without its ending.
        values: what it shows.
    """
    address = Addresses(base_path(), MOUNT)
    text = _environment().get_template(f"{template}.html.j2")
    return text.render(to=address, age=formatting.age, away=formatting.away, **values)
