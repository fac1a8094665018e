"""How commands end that are interrupted, or whose output nobody reads to its end."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperGroup

from waybill.cli import forget_output

INTERRUPTED = 130


class Commands(TyperGroup):
    """Ends quietly when the reader of the output goes away, and in one line on Ctrl-C."""

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
