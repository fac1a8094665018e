"""The whole stack without containers: the servers of docker-compose.yaml as processes.

    python -m stack [--once]

Kafka, an S3 server, PostgreSQL, a Spark cluster, and Airflow with a driver on that cluster, all on
the loopback address. The topic `shop` holds the sample messages; the migration `shop_stream` is
ready to be triggered. With `--once` it is triggered here, and the stack ends with it. However the
stack ends, nothing is left running.

Environment: WAYBILL_PORT (8080) is the port of Airflow's web pages, WAYBILL_STACK the folder of the
state (`.waybill/stack`), which is made anew each time and holds nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from stack.local import CHECKOUT, LocalStack
from stack.server import ServerError
from waybill.errors import WaybillError
from waybill_airflow.demo import Stopped, ignore_signals, port_of, stop_on_signals
from waybill_airflow.local_airflow import USER

PATIENCE = 300.0
"""Seconds that a run may take."""


def main(arguments: list[str] | None = None) -> int:
    """Run the stack and return its exit status."""
    parser = argparse.ArgumentParser(prog="make stack", description="Run the whole stack.")
    parser.add_argument("--once", action="store_true", help="trigger the example, then end")
    once = parser.parse_args(arguments).once
    console = Console(highlight=False)
    stop_on_signals()
    folder = Path(os.environ.get("WAYBILL_STACK") or CHECKOUT / ".waybill" / "stack")
    try:
        with LocalStack(folder, port_of(), lambda text: console.print(text, style="dim")) as stack:
            console.print(f"\nAirflow: {stack.airflow.url}", style="bold", end="   ")
            console.print(f"user {USER}   password {stack.airflow.password}")
            console.print(f"Kafka: {stack.broker.servers}   Spark: {stack.cluster.page}")
            console.print(f"S3: {stack.s3.endpoint}   state and logs: {stack.folder}")
            if once:
                state = stack.run("shop_stream", PATIENCE)
                console.print(f"shop_stream: {state}")
                return 0 if state == "success" else 1
            console.print("Trigger shop_stream in Airflow. Ctrl-C ends everything.")
            while True:
                stack.airflow.check()
                time.sleep(0.5)
    except (WaybillError, ServerError) as error:
        console.print(f"waybill: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except Stopped:
        return 130
    finally:
        ignore_signals()


if __name__ == "__main__":
    sys.exit(main())
