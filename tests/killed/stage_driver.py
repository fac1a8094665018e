"""Runs the stages it is told to in one Spark that is kept, and dies in one of them where told to.

    stage_driver.py SPEC

It reads orders line by line as JSON (`stage`, `batch`, and `moment` if it is to die, else null) and
answers each with a line when the stage is done. It dies by a SIGKILL of all that belongs to it:
Python, Java, Spark's workers. One that was to die while it sends and did not is of no more use.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict
from functools import partial
from importlib import import_module

from tests.killed.session_end import kill_session
from tests.killed.stage_moments import Moment, followed
from tests.killed.struck_sending import StruckSending
from waybill.envelopes import registry
from waybill.jobs import STAGE_FUNCTIONS, run_stage
from waybill.lake import Lake
from waybill.lake.session import start_session
from waybill.publish.kafka import publisher
from waybill.publish.kafka.part_boundaries import Limits
from waybill.spec.file import load_migration

registry.MODULES["tiny"] = "tests.spark.tiny_envelope"


def small_parts() -> None:
    """Let a batch of a few messages become several transactions."""
    publisher.Limits = lambda: Limits(4)  # type: ignore[misc,assignment]


def strike_sender(moment: Moment) -> None:
    """Have the next sending to Kafka kill everything at a step."""
    publisher.Sending = partial(  # type: ignore[misc,assignment]
        StruckSending, step=moment.step, delay=moment.delay, session=os.getsid(0)
    )


def main() -> None:
    # Java writes to the same standard output; answers go where nothing else does.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(format="%(asctime)s waybill %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("waybill").setLevel(logging.INFO)
    small_parts()
    spec = load_migration(sys.argv[1])
    session = start_session(spec, "driver")
    # What every stage needs first is there when the order comes, so that a spare process is warm.
    Lake.open(session, spec)
    for module in STAGE_FUNCTIONS.values():
        import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        moment = Moment(*order["moment"]) if order["moment"] else None
        if moment is not None and moment.step:
            strike_sender(moment)
        with followed(moment, lambda: kill_session(os.getsid(0))) as course:
            run_stage(order["stage"], spec, order["batch"], session)
        answers.write(json.dumps(asdict(course)) + "\n")
        answers.flush()
    session.stop()


if __name__ == "__main__":
    main()
