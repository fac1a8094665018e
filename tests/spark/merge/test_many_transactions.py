"""The rows of thousands of transactions are found in one go."""

from __future__ import annotations

import pytest

from waybill.lake.local_rows import local_rows
from waybill.merge.open_transactions import brought_by, in_transactions
from waybill.merge.transactions import NAME_SQL, Members

pytestmark = pytest.mark.spark

MEMBERS = [
    *(Members(str(n), 10 * n, 10 * n + 5) for n in range(3000)),
    # Twice the same name, one that is open to the end, and names that have no places.
    *(Members("7", 700, 710), Members("8", 800), Members("8", 10**30, 10**30 + 1)),
    *(Members("x'y\\"), Members("9001", None, 5), Members("file=a,pos=7", None)),
]
ROWS = [
    *("7:69", "7:70", "7:75", "7:76", "7:699", "7:700", "7:710", "7:711", "7", "7:x", "07:70"),
    *("8:79", "8:90", "8:9999999999999999999999", f"8:{10**30}", f"8:{10**37}", "9001:77", "9001"),
    *("2999:29995", "2999:29996", "3000:30000", "x'y\\", "x'y", "x'y\\:1", "file=a,pos=7", ""),
]


def test_each_row_finds_its_transaction(spark) -> None:
    condition = in_transactions(MEMBERS)
    assert condition.count(NAME_SQL) == 1, "no condition for each"
    entries = [*((text, "insert") for text in (*ROWS, None)), ("7:70", "begin"), ("7:75", "commit")]
    rows = local_rows(spark, entries, "transaction string, operation string")
    wanted = [text for text in ROWS if any(one.have(text) for one in MEMBERS)]
    assert 0 < len(wanted) < len(ROWS)
    assert [row.transaction for row in rows.where(condition).collect()] == wanted
    others = rows.where(f"NOT coalesce({condition} OR false, false)").collect()
    assert len(others) == len(entries) - len(wanted)


def test_only_what_its_batches_brought(spark) -> None:
    given = [(Members("x"), ("b1", "it's")), (Members("y"), ()), (Members("z"), None)]
    condition = brought_by([*given, (Members("x"), ("b3",))])
    entries = [(name, batch) for name in "xyz" for batch in ("b1", "b2", "b3", "it's", None)]
    rows = local_rows(spark, entries, "transaction string, batch string")
    found = rows.selectExpr("*", "'insert' AS operation").where(condition).collect()
    brought = [(row.transaction, row.batch) for row in found]
    x, z = [("x", "b1"), ("x", "b3"), ("x", "it's")], [pair for pair in entries if pair[0] == "z"]
    assert brought == [*x, *z]
    assert brought_by([(Members("y"), ())]) == in_transactions([]) == "false"
