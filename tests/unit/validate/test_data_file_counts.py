"""Figures of tables from their data files, against plain Python."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from waybill.lake.data_files import DataFileWriter
from waybill.lake.position_deletes import write_deletes
from waybill.lake.stored_files import StoredFile
from waybill.merge.columns import BATCH, DELETED, IMAGE, KEY
from waybill.validate.data_file_counts import count_every_key, count_written_keys

KEYS = st.one_of(
    st.none(), st.sampled_from(['{"id":"1"}', '{"id":null}', '{"id":"null"}', '{"a":"2","b":null}'])
)
ROWS = st.lists(
    st.tuples(
        KEYS,
        st.sampled_from([True, False, None]),
        st.sampled_from(["b1", "b2"]),
        st.sampled_from([None, "{}"]),
        st.booleans(),
    ),
    max_size=20,
)


def table_of(folder, files):
    """Data files with these rows, in row groups of two, and the rows that were not deleted."""
    stored, live = [], []
    for number, rows in enumerate(files):
        path = str(folder / f"{number}.parquet")
        columns = list(zip(*rows, strict=True)) or [()] * 5
        kinds = [pa.string(), pa.bool_(), pa.string(), pa.string()]
        arrays = [pa.array(c, kind) for c, kind in zip(columns, kinds, strict=False)]
        table = pa.table(arrays, names=[KEY, DELETED, BATCH, IMAGE])
        pq.write_table(table, path, row_group_size=2)
        gone = [place for place, row in enumerate(rows) if row[4]]
        writer = DataFileWriter(str(folder), str(folder), pa.schema([]), ())
        deletes = write_deletes(writer, StoredFile(path, path), gone)
        stored.append(StoredFile(path, path, (deletes.path,)))
        live += [row[:4] for row in rows if not row[4]]
    return stored, live


@given(st.lists(ROWS, max_size=3))
def test_rows_that_live_are_counted(tmp_path_factory, files):
    stored, live = table_of(tmp_path_factory.mktemp("table"), files)
    counts = count_every_key(stored, "b2")
    written = [row for row in live if row[2] == "b2"]
    keys = [row[0] for row in live if row[0] is not None]
    assert counts["all"] == len(live)
    assert counts["tombstones"] == sum(row[1] is True for row in live)
    assert counts["written"] == len(written)
    assert (counts["keyed"], counts["distinct"]) == (len(keys), len(set(keys)))
    with_null = sum(row[0] is not None and None in json.loads(row[0]).values() for row in written)
    assert counts["nulls"] == len(live) - len(keys) + with_null
    wrong = sum(row[1] is not None and row[1] == (row[3] is not None) for row in written)
    assert counts["shown"] == wrong + sum(row[1] is None for row in live)


@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(0, 4), st.integers(1, 4))
def test_keys_that_a_batch_wrote_are_looked_for(tmp_path_factory, files, old, shares):
    """Whatever share of the files a task sees; the batch wrote none of the older ones."""
    files[:old] = [[(*row[:2], "b1", *row[3:]) for row in rows] for rows in files[:old]]
    stored, live = table_of(tmp_path_factory.mktemp("table"), files)
    counts: Counter[str] = Counter()
    for share in range(shares):
        counts += count_written_keys(stored[share::shares], stored[old:], "b2", share == 0)
    written = [row for row in live if row[2] == "b2"]
    wanted = {row[0] for row in written} - {None}
    assert counts["all"] == len(live)
    assert counts["tombstones"] == sum(row[1] is True for row in live)
    assert counts["written"] == len(written)
    assert counts["distinct"] == len(wanted)
    assert counts["keyed"] == sum(row[0] in wanted for row in live)
    null = [row for row in written if row[0] is None or None in json.loads(row[0]).values()]
    assert counts["nulls"] == len(null)
    wrong = sum(row[1] is not None and row[1] == (row[3] is not None) for row in written)
    assert counts["shown"] == wrong + sum(row[1] is None for row in live)
