"""What `waybill check` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclass
class Finding:
    """One thing that was looked at.

    Attributes:
        about: source, sample, lake, a target.
        verdict: ok, note or wrong.
        text: what was found.
        details: counts for `--json`.
    """

    about: str
    verdict: str
    text: str
    details: dict[str, Any] = field(default_factory=dict)
