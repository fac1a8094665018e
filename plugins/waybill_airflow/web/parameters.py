"""What the addresses of pages may name."""

from __future__ import annotations

from fastapi import Path, Query

from waybill_airflow.params import BATCH_ID

# Rust's pattern language, where `$` is the very end.
DAG_ID = Path(pattern=r"^[a-z][a-z0-9_]{0,62}$")
ANY_DAG_ID = Path(pattern=r"^[\w.-]+$", max_length=250)
RUN_ID = Path(pattern=r"^[A-Za-z0-9_.~:+-]{1,250}$")
BATCH = Path(pattern=f"^{BATCH_ID}$")

ONE_BATCH = Query("", pattern=f"^({BATCH_ID})?$")
AS_OF = Query("", pattern=f"^({BATCH_ID})?$")
KIND = Query("", pattern=r"^[a-z_ -]{0,40}$")
TABLE = Query("", max_length=1000)
KEY = Query("", max_length=10_000)
TOPIC = Query(min_length=1, max_length=1000)
# One each: FastAPI lets a parameter's declaration have the name of the first that uses it.
PARTITION = Query(ge=0, lt=2**31)
OFFSET = Query(ge=0, lt=2**63)
