"""Services, line sources and data sets on simulated Windows and macOS: the same numbers, and no row lost."""

import os
import sys

import numpy as np
import pytest
from fleet.tests.service.helpers import body, crash, open_service, some_rows, states
from tests.platforms.simulated import make_macos, make_windows

import wolf_fleet
from wolf.native.execute import platform_check
from wolf_fleet.datasets import executors
from wolf_fleet.streaming import sources
from wolf_fleet.streaming.incidents.facts import format_time

ROWS = some_rows(size=24)


def run_service(folder):
    """Post, commit, crash, resume and close; return the states."""
    service = open_service(folder)
    service.post("json", body(ROWS[:10]))
    service.commit()
    service.post("json", body(ROWS[10:]))
    crash(service)
    again = open_service(folder)
    found = states(again)
    again.close()
    return found


@pytest.mark.parametrize("make", [make_windows, make_macos])
def test_a_service_resumes_after_a_crash(monkeypatch, tmp_path, make):
    expected = run_service(tmp_path / "linux")
    monkeypatch.setattr(platform_check, "failure", lambda: None)
    made = make(monkeypatch)
    assert run_service(tmp_path / "other") == expected
    with open_service_again(tmp_path / "other"):
        pass
    if make is make_windows:
        assert not made, "a file is open as text"
    else:
        assert {how for how, _ in made} == {"full"}


class open_service_again:  # noqa: N801
    """A service that is closed at the end of a block; a second one with its folder is refused."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        self.service = open_service(self.folder)
        with pytest.raises(ValueError, match="another process"):
            open_service(self.folder)

    def __exit__(self, *raised):
        self.service.close()


def test_lines_with_carriage_returns_keep_their_positions_on_windows(monkeypatch, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"t,v\r\n1,2\r\n2,3\r\n")
    made = make_windows(monkeypatch)
    source = sources.Source(str(path))
    assert source.first_line() == "t,v"
    assert source.take(2, 1.0) == ["t,v", "1,2"]
    assert source.position == len(b"t,v\r\n1,2\r\n")
    source.close()
    resumed = sources.Source(str(path), source.position)
    assert resumed.take(9, 1.0) == ["2,3"]
    resumed.close()
    assert not made


def test_times_before_1970_are_dates():
    assert format_time(-86_400.5, dated=True) == "1969-12-30T23:59:59.500Z"


def test_a_system_that_does_not_report_its_memory_gets_a_usual_size(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "sysconf")
    assert executors.machine_memory() <= executors.FALLBACK_MEMORY_BYTES


def test_the_numbers_of_a_dataset_do_not_depend_on_the_platform(monkeypatch, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    import wolf

    (tmp_path / "in").mkdir()
    values = np.sin(np.arange(40.0))
    parquet.write_table(pa.table({"id": ["a", "b"] * 20, "v": values}), tmp_path / "in" / "rows.parquet")
    found = {}
    for name in ("linux", "windows"):
        with monkeypatch.context() as patch:
            if name == "windows":
                patch.setattr(platform_check, "failure", lambda: None)
                make_windows(patch)
            model, out = wolf.models.local_level(0.1, 1.0), tmp_path / name
            wolf_fleet.filter_dataset(tmp_path / "in", out, model, key="id", values="v", workers=1)
            found[name] = parquet.read_table(out)
    assert found["windows"].equals(found["linux"])
