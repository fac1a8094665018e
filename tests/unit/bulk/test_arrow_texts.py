"""Columns of Arrow become arrays of numpy without what takes long to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.bulk.arrow_texts import integers_of, nulls_of

wide = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.none() | wide, max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_nulls(values, first, size):
    column = pa.array(values, pa.int64()).slice(first, size)
    assert nulls_of(column).tolist() == [value is None for value in column.to_pylist()]


@given(st.lists(wide, max_size=40), st.integers(0, 20), st.sampled_from([pa.int64(), pa.int32()]))
def test_integers(values, first, kind):
    numbers = [value % 2**31 for value in values] if kind == pa.int32() else values
    column = pa.array(numbers, kind).slice(first)
    assert integers_of(column).tolist() == column.to_pylist()


def test_null_is_no_integer():
    with pytest.raises(ValueError, match="null"):
        integers_of(pa.array([1, None], pa.int64()))


_CONVERT = """
import sys
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file
account, _ = convert_file(ConvertJob("maxwell", "debezium-json", sys.argv[1], sys.argv[2]))
assert account.written == 40, account
assert "waybill.bulk.kernels" in sys.modules
assert "pandas" not in sys.modules
"""


def test_lines_are_converted_in_bulk_without_pandas(tmp_path: Path, monkeypatch) -> None:
    line = '{"database":"d","table":"t","type":"insert","ts":1,"xid":%d,"data":{"id":%d}}'
    lines = tmp_path / "in.jsonl"
    lines.write_text("\n".join(line % (n, n) for n in range(40)) + "\n")
    monkeypatch.setenv("WAYBILL_BULK", "on")
    words = [sys.executable, "-c", _CONVERT, str(lines), str(tmp_path / "out.jsonl")]
    subprocess.run(words, check=True)
