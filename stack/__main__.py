"""The whole stack without containers: the servers of docker-compose.yaml as processes.

    python -m stack [--example shop|branches] [--once]

Kafka, an S3 server, PostgreSQL, a Spark cluster, and Airflow with a driver on that cluster, all on
the loopback address. The topic `shop` holds the sample messages; the migration `shop_stream` is
ready to be triggered. With `--once` it is triggered here, and the stack ends with it.

The example `branches` is a MariaDB, the recorded topic of its changes in a folder, and Airflow, for
what docs/walk-through.md says; with `--once` all that the page says is done here.

However the stack ends, nothing is left running.

Environment: WAYBILL_PORT (8080) is the port of Airflow's web pages, WAYBILL_STACK the folder of the
state (`.waybill/stack`, `.waybill/branches`), which is made anew each time and holds nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from stack.branches import PAGE, Branches
from stack.dag_runs import run_dag
from stack.local import CHECKOUT, LocalStack
from stack.page import steps_of, take
from stack.server import ServerError
from waybill.errors import WaybillError
from waybill_airflow.demo import Stopped, ignore_signals, port_of, stop_on_signals
from waybill_airflow.local_airflow import USER, LocalAirflow

PATIENCE = 300.0
"""Seconds that a run may take."""


def main(arguments: list[str] | None = None) -> int:
    """Run the stack and return its exit status."""
    parser = argparse.ArgumentParser(prog="make stack", description="Run the whole stack.")
    parser.add_argument("--once", action="store_true", help="run the example, then end")
    parser.add_argument("--example", choices=sorted(EXAMPLES), default="shop", help="which one")
    given = parser.parse_args(arguments)
    console = Console(highlight=False)
    stop_on_signals()
    try:
        return EXAMPLES[given.example](console, given.once)
    except (WaybillError, ServerError) as error:
        console.print(f"waybill: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except Stopped:
        return 130
    finally:
        ignore_signals()


def _shop(console: Console, once: bool) -> int:
    with LocalStack(_folder("stack"), port_of(), _dimly(console)) as stack:
        _say_airflow(console, stack.airflow)
        console.print(f"Kafka: {stack.broker.servers}   Spark: {stack.cluster.page}")
        console.print(f"S3: {stack.s3.endpoint}   state and logs: {stack.folder}")
        if once:
            state = run_dag(stack.airflow, "shop_stream", PATIENCE)
            console.print(f"shop_stream: {state}")
            return 0 if state == "success" else 1
        console.print("Trigger shop_stream in Airflow. Ctrl-C ends everything.")
        return _stay(stack.airflow)


def _branches(console: Console, once: bool) -> int:
    with Branches(_folder("branches"), port_of(), _dimly(console)) as example:
        _say_airflow(console, example.airflow)
        console.print(
            f"MariaDB: 127.0.0.1:{example.mariadb.port}   state and logs: {example.folder}"
        )
        if once:
            for step in steps_of(PAGE):
                take(step, example.folder, lambda text: console.print(text, markup=False))
            return 0
        console.print("In another terminal:", style="bold")
        console.print(f"  cd {example.folder}\n  . ./env", markup=False, soft_wrap=True)
        console.print("Then go on with docs/walk-through.md. Ctrl-C ends everything.")
        return _stay(example.airflow)


EXAMPLES: dict[str, Callable[[Console, bool], int]] = {"shop": _shop, "branches": _branches}


def _folder(name: str) -> Path:
    return Path(os.environ.get("WAYBILL_STACK") or CHECKOUT / ".waybill" / name)


def _dimly(console: Console) -> Callable[[str], object]:
    return lambda text: console.print(text, style="dim")


def _say_airflow(console: Console, airflow: LocalAirflow) -> None:
    console.print(f"\nAirflow: {airflow.url}", style="bold", end="   ")
    console.print(f"user {USER}   password {airflow.password}")


def _stay(airflow: LocalAirflow) -> int:
    while True:
        airflow.check()
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
