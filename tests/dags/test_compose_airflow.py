"""What docker-compose.yaml tells Airflow: commands and settings that this Airflow has."""

from __future__ import annotations

import pytest

from stack.local import read_settings
from tests.unit.project.test_compose import COMPOSE, PROJECT, commands

pytestmark = pytest.mark.airflow

SETTINGS = {
    **read_settings(PROJECT / "stack" / "config" / "airflow.env"),
    **COMPOSE["services"]["airflow-scheduler"]["environment"],
}


@pytest.mark.parametrize(
    "argv", [argv[1:] for argv in commands() if argv[0] == "airflow"], ids=" ".join
)
def test_airflow_has_the_command(argv):
    from airflow.cli.cli_parser import get_parser

    assert get_parser().parse_args(argv).func


@pytest.mark.parametrize("name", sorted(n for n in SETTINGS if n.startswith("AIRFLOW__")))
def test_airflow_has_the_setting(name):
    from airflow.configuration import conf

    section, option = name.removeprefix("AIRFLOW__").lower().split("__", 1)
    known = conf.configuration_description
    assert option in known[section]["options"], f"{section}.{option}"
