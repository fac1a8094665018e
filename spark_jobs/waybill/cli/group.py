"""How commands are explained, and how they end that are interrupted or read by nobody."""

from __future__ import annotations

import inspect
import os
import re
import sys
from typing import Any

from typer.core import TyperGroup

INTERRUPTED = 130
EXAMPLE = "[dim]Example:"
"""What a line of help begins with that stays a line."""


def flowing(text: str) -> str:
    """Help whose sentences break where the terminal ends, not where the source line does."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(re.sub(rf"\n(?!{re.escape(EXAMPLE)})", " ", part) for part in paragraphs)


class Commands(TyperGroup):
    """Ends quietly when the reader of the output goes away, and in one line on Ctrl-C.

    Its help and that of its commands flows (`flowing`).
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for command in (self, *self.commands.values()):
            command.help = command.help and flowing(command.help)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever reads our output has had enough, as in `waybill table … | head`.
            forget_output()
            raise SystemExit(0) from None
        except KeyboardInterrupt:
            sys.stderr.write("waybill: interrupted\n")
            raise SystemExit(INTERRUPTED) from None


def forget_output() -> None:
    """Let Python's own flush at exit have somewhere to write to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
