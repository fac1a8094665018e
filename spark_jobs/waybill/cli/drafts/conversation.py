"""Questions to a person on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from waybill.cli.output import console, printable
from waybill.errors import ConfigurationError
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

Check = Callable[[str], None]
"""Raises a ConfigurationError where an answer cannot be."""

NOTHING = "-"
"""The answer that leaves something open where Enter alone takes a proposal."""


class Conversation:
    """Asks on the terminal of the error output, so that the output itself can be piped."""

    def __init__(self) -> None:
        self.out: Console = console(stderr=True)

    def say(self, text: str, style: str = "") -> None:
        """Tell something."""
        from rich.text import Text

        self.out.print(Text(printable(text), style=style), soft_wrap=True)

    def ask(self, question: str, default: str = "", check: Check | None = None) -> str:
        """One line; Enter takes the default. Asked again until the answer can be.

        Raises:
            KeyboardInterrupt: the terminal was closed, or its end was typed.
        """
        from rich.prompt import Prompt
        from rich.text import Text

        while True:
            try:
                # Not as markup: names of tables may hold brackets.
                given = Prompt.ask(
                    Text(printable(question), style="bold"),
                    console=self.out,
                    default=default,
                    show_default=bool(default),
                )
            except EOFError:
                raise KeyboardInterrupt from None
            answer = given.strip()
            if check is None:
                return answer
            try:
                check(answer)
            except ConfigurationError as error:
                self.say(error.sentence, "red")
            else:
                return answer

    def choose(self, question: str, names: Sequence[str], default: str = "") -> str:
        """One of several names; empty where Enter leaves it open."""

        def check(answer: str) -> None:
            if answer and answer not in names:
                hint = did_you_mean(answer, names)
                raise ConfigurationError(f"{answer!r} is not one of {', '.join(names)}{hint}")

        return self.ask(question, default, check)

    def confirm(self, question: str, default: bool = False) -> bool:
        """Yes or no."""

        def check(answer: str) -> None:
            if answer.lower() not in ("y", "yes", "n", "no"):
                raise ConfigurationError("write y or n")

        answer = self.ask(f"{question} [y/n]", "y" if default else "n", check)
        return answer.lower().startswith("y")
