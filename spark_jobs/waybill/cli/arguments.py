"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Specification = Annotated[
    Path, typer.Argument(metavar="MIGRATION.yaml", help="The migration's file.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, not a table.")]
