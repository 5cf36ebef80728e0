"""Partitioning of data sets."""

from itertools import pairwise

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from wolf_fleet.datasets import partitions


@given(
    groups=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=6), rows=st.integers(1, 9)
)
def test_ranges_of_keys_read_every_row_once(groups, rows):
    table = pyarrow.table({"id": [key for group in groups for key in sorted(group)]})
    sink = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(sink, table.schema) as writer:
        for group in groups:
            writer.write_table(pyarrow.table({"id": sorted(group)}))
    kind = dataset.ParquetFileFormat()
    fragment = kind.make_fragment(sink.getvalue())
    every = [partitions.ReadUnit(fragment, i, len(group)) for i, group in enumerate(groups)]
    found = partitions.key_ranges(every, table.schema, "id", rows, max_rows=table.num_rows)
    if found is None:  # then rows of some keys lie far from each other
        assert any(max(one) > min(other) for one, other in pairwise(groups))
        return
    read = [each.read()["id"].to_pylist() for each in found]
    assert sorted(key for some in read for key in some) == sorted(table["id"].to_pylist())
    assert len({key for some in read for key in set(some)}) == sum(len(set(some)) for some in read)


def test_a_row_without_a_key_is_refused():
    with pytest.raises(ValueError, match="a row has no key"):
        partitions.encode(pyarrow.chunked_array([["a", None]]), "id")
