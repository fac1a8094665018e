"""What a page of the docs has people do, so that it can be done as it stands there.

A block `sh` holds commands for a shell; `sh exits=3` those whose last one ends with 3. A block with
`file=NAME` is a file, one with `more=NAME` is added at the end of one.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stack.server import ServerError

_BLOCK = re.compile(r"^```(\w+)(?: (file|more|exits)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """One block of a page.

    Attributes:
        text: what stands in it.
        file: the file that it is, or is added to; empty where it holds commands.
        more: whether it is added.
        exits: how the commands end.
    """

    text: str
    file: str = ""
    more: bool = False
    exits: int = 0


def steps_of(page: Path) -> Iterator[Step]:
    """The steps of a page, in their order."""
    for language, word, told, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if word in ("file", "more"):
            yield Step(text, told, word == "more")
        elif language == "sh":
            yield Step(text, exits=int(told or 0))


class Done(NamedTuple):
    """What came of a command.

    Attributes:
        code: its exit status.
        printed: what it printed.
    """

    code: int
    printed: str


def in_shell(command: str, folder: Path) -> Done:
    """Run a command in a shell that has read the folder's file `env`."""
    done = subprocess.run(
        ["sh", "-c", f". ./env\n{command}"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout)


def take(
    step: Step,
    folder: Path,
    say: Callable[[str], object],
    run: Callable[[str, Path], Done] = in_shell,
) -> str:
    """Do what a step says.

    Args:
        step: the step.
        folder: where.
        say: is told each command, and then what it printed.
        run: runs a command in the folder.

    Returns:
        What the commands printed.

    Raises:
        ServerError: one ended otherwise than the page says.
    """
    if step.file:
        with (folder / step.file).open("a" if step.more else "w", encoding="utf-8") as file:
            file.write(step.text)
        say(f"{step.file}: {'added' if step.more else 'written'}")
        return ""
    commands = step.text.splitlines()
    printed = []
    for number, command in enumerate(commands, start=1):
        say(f"$ {command}")
        done = run(command, folder)
        say(done.printed)
        printed.append(done.printed)
        expected = step.exits if number == len(commands) else 0
        if done.code != expected:
            message = f"`{command}` ended with {done.code} and not with {expected}:\n{done.printed}"
            raise ServerError(message)
    return "".join(printed)
