"""Moments within a stage, by its calls of Java: a clock that a busy machine does not upset."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import py4j.java_gateway

from waybill import jobs

CALL = "c\n"
"""How py4j begins the command that calls a method; others look up names or let objects go."""

SLOWER = 1.5
"""How much longer a call takes in a process that was just started."""


STEPS = {"take": 1, "entries": 1, "begin": 3, "send": 9, "finish": 3, "commit": 3}
"""The steps of sending a small batch to Kafka, and how often each is made at least."""


class Moment(NamedTuple):
    """So many seconds after a call of Java began, or after a step of sending to Kafka.

    Attributes:
        call: calls are counted from 1.
        delay: the seconds.
        step: of the worker that sends, see `tests.kafka.publish_attempt`; empty for a call.
    """

    call: int
    delay: float
    step: str = ""


def moment_of_sending(chance: random.Random) -> Moment:
    """A step of sending, before, during or after it."""
    step = chance.choice(list(STEPS))
    when = chance.choice(["before", "during", "after"])
    delay = round(chance.uniform(0, 0.01), 5)
    return Moment(0, delay, f"{step}:{when}:{chance.randint(1, STEPS[step])}")


@dataclass
class Course:
    """How a stage went: the second at which each call began, and that at which it was done."""

    began: list[float] = field(default_factory=list)
    done: float = 0.0

    def moment(self, chance: random.Random) -> Moment:
        """A moment: any call is as likely as another, or any instant is."""
        if chance.random() < 0.5:
            return Moment(chance.randint(1, len(self.began)), round(chance.uniform(0, 0.02), 4))
        instant = chance.uniform(self.began[0], self.done)
        call = sum(one <= instant for one in self.began)
        return Moment(call, round(SLOWER * (instant - self.began[call - 1]), 4))


@contextmanager
def followed(
    moment: Moment | None = None, act: Callable[[], None] | None = None
) -> Iterator[Course]:
    """Note the course of the stage that runs meanwhile, and act at a moment of it.

    The clock starts when the stage has opened its lake: nothing is done before. A stage that is
    done before its moment comes is left in peace.
    """
    course = Course()
    honest: Any = py4j.java_gateway.GatewayClient.send_command
    opened: Any = jobs.Lake.open
    main = threading.current_thread()
    started: list[float] = []
    timers: list[threading.Timer] = []

    def send(client: Any, command: str, *more: Any, **named: Any) -> Any:
        if started and command.startswith(CALL) and threading.current_thread() is main:
            course.began.append(time.monotonic() - started[0])
            if moment is not None and act is not None and len(course.began) == moment.call:
                timers.append(threading.Timer(moment.delay, act))
                timers[0].start()
        return honest(client, command, *more, **named)

    def open_lake(*given: Any) -> Any:
        lake = opened(*given)
        if not started:
            started.append(time.monotonic())
        return lake

    try:
        with (
            _instead(py4j.java_gateway.GatewayClient, "send_command", send),
            _instead(jobs.Lake, "open", open_lake),
        ):
            yield course
    finally:
        for timer in timers:
            timer.cancel()
    course.done = time.monotonic() - started[0]


@contextmanager
def _instead(owner: Any, name: str, other: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, before)
