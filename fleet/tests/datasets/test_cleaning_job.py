"""`wolf_fleet.filter_folder`: the results of `wolf.filter_frame`."""

import numpy as np
import pyarrow
import pytest
from fleet.tests.datasets.test_dataset_job import lay_out, read, rows

import wolf
import wolf_fleet

pytest.importorskip("llvmlite")


def test_filter_folder_has_the_numbers_of_filter_frame(tmp_path):
    table = rows(keys=3)
    names = {"by": "id", "time": "at", "values": "v", "model": "local-level", "parameters": {"level_var": 0.5}}
    flat = rows(keys=1).drop_columns("v").append_column("v", pyarrow.array([1.0] * 60))
    stuck = flat.drop_columns("id").add_column(0, "id", pyarrow.array(["stuck"] * 60))  # a series that cannot be fitted
    whole = pyarrow.concat_tables([table, stuck.select(table.column_names)])
    done = wolf_fleet.filter_folder(lay_out(tmp_path / "in", whole), tmp_path / "out", workers=1, **names)
    assert (done.keys, done.failed, done.unused) == (4, 1, 60)
    expected = wolf.filter_frame(table, **names).sort_by([("id", "ascending"), ("at", "ascending")])
    out = read(tmp_path / "out")
    assert out.column_names == expected.column_names
    assert out["mean"][180:].null_count == 60  # "stuck" sorts behind
    for name in expected.column_names:
        np.testing.assert_array_equal(out[name][:180], expected[name])
