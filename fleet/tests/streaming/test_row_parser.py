"""Parsing of rows: the fast paths agree with the general parser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolf_fleet.streaming.row_parser import Columns, RowParser

pytestmark = pytest.mark.thorough


ODD = ["nan", "x", " 4 ", '"5"', "inf", "1_0", "a b", "2024-01-01", "NULL", "0x1", "1e999", "Infinity", "-", "\xa01"]


CELLS = st.sampled_from(["1", "-2.5e3", "0.1", "", "+7", "1.7976931348623157e308", *ODD])


PLAIN = st.sampled_from(["1", "-2.5e3", "0.1", "3.14159265358979", "1e-320", "+7", ".5", "5."])


@pytest.mark.parametrize("few", [0, 200])
@given(
    st.lists(st.tuples(CELLS, PLAIN, PLAIN | CELLS).map(",".join) | CELLS.map("a,1,{}".format), min_size=1, max_size=6)
)
def test_many_lines_at_once_are_read_as_one_by_one(few, lines):
    columns = Columns("id", ("v",), "t")
    together, apart = RowParser("id,t,v", columns, "rows"), RowParser("id,t,v", columns, "rows")
    apart.csv_layout = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wolf_fleet.streaming.row_parser.MIN_LINES_FOR_ARROW", few)
        quick = together.parse(lines)[0]
    for one, other in zip(quick, apart.parse(lines)[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert together.dated == apart.dated
