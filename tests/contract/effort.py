"""How hard the contract's properties try.

By default the same cases every time, so that a failure comes from a change, and a quarter of many.
`WAYBILL_EFFORT=10` tries ten times as many as a property names, other ones in every run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

EFFORT = int(os.environ.get("WAYBILL_EFFORT", "1"))

FEW = 8
"""So many cases of a property are tried in any case."""


def cases(examples: int, nightly: int = 0) -> int:
    """How many cases of a property are tried: of many a quarter, unless the effort says more.

    Args:
        examples: how many cases there are, times the effort; by default a quarter of them, if there
            are more than a few.
        nightly: how many there are at least with any effort beyond the usual one.
    """
    if EFFORT == 1:
        return min(examples, max(FEW, examples // 4))
    return max(examples * EFFORT, nightly)


def properties(examples: int, nightly: int = 0) -> settings:
    """Settings of a property; a failing case is told as it was found, making it smaller is slow.

    Args:
        examples: see `cases`.
        nightly: see `cases`.
    """
    return settings(
        max_examples=cases(examples, nightly),
        deadline=None,
        derandomize=EFFORT == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=[Phase.explicit, Phase.generate],
        print_blob=True,
    )
