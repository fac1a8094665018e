"""Which generated histories go through Spark.

By default the same ones every time. `WAYBILL_HISTORY_SEEDS` is how many seeds there are, each a
batch of histories, and `WAYBILL_HISTORY_FIRST` the first of them: a seed that failed is tried again
with `WAYBILL_HISTORY_FIRST=<seed>`.
"""

from __future__ import annotations

import os

_FIRST = int(os.environ.get("WAYBILL_HISTORY_FIRST", "1"))
SEEDS = range(_FIRST, _FIRST + int(os.environ.get("WAYBILL_HISTORY_SEEDS", "1")))
