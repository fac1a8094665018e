"""Starts disturbed runs out of one process that has all libraries loaded.

    run_server.py

It reads orders line by line as JSON (`number`, `arguments` of `disturbed_run.py`, and `said`, the
file for what the run says), forks a process for each that runs it in a session of its own, and
answers with two lines: `NUMBER begun PID`, and `NUMBER ended CODE`. A run starts a Java of its
own, so what is killed is as whole as if it had been started by itself; only the seconds in which
Python loads its libraries are spent once.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module

from tests.killed import disturbed_run
from waybill.jobs import STAGE_FUNCTIONS

LIBRARIES = ("great_expectations", "pandas")
"""What stages load themselves when they need it."""


def run(arguments: list[str], said: str) -> None:
    """Be a process that runs a migration, and end."""
    code = 1
    try:
        os.setsid()
        log = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(number, stream)
        sys.argv = [disturbed_run.__file__, *arguments]
        disturbed_run.main()
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    finally:
        if sys.exception() is not None:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        # Java ends with its standard input, which closes with this process.
        os._exit(code)


def main() -> None:
    for module in (*STAGE_FUNCTIONS.values(), *LIBRARIES):
        import_module(module)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers.close()
            run(order["arguments"], order["said"])
        answers.write(f"{order['number']} begun {pid}\n")
        answers.flush()
        _, status = os.waitpid(pid, 0)
        answers.write(f"{order['number']} ended {os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


if __name__ == "__main__":
    main()
