"""The service without HTTP: what was acknowledged is kept, once, with the bits of a bank."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import wolf
import wolf_fleet
from wolf_fleet.streaming import parts
from wolf_fleet.streaming.checkpoint import DamagedState

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from fleet.tests.service.helpers import LEVEL, NAMES, body, crash, open_service, some_rows, states

from wolf_fleet.service import Service, responses
from wolf_fleet.service.write_ahead_log import Record

pytestmark = pytest.mark.thorough
DAMAGES = ("flip", "shorten", "delete")
KILLER = Path(__file__).parent / "serving_kills.py"


def test_a_crash_after_any_request_loses_nothing(tmp_path):
    rows = some_rows(24)
    service, want = open_service(tmp_path / "live", batch_rows=7), wolf.Bank(LEVEL)
    for i in range(0, 24, 2):
        service.post("json", body(rows[i : i + 2]), f"request {i}")
        for key, t, v in rows[i : i + 2]:
            want.step([key], [v], [t])
        if i % 6 == 0:
            copy = tmp_path / f"after-{i}"
            shutil.copytree(tmp_path / "live", copy)  # what a kill would leave
            # The folder of the parts is part of the settings, and so the copy takes the place of the first.
            (tmp_path / "live").rename(tmp_path / "aside")
            copy.rename(tmp_path / "live")
            again = open_service(tmp_path / "live", batch_rows=7)
            assert states(again) == {key: want.dump(key) for key in want}
            assert again.post("json", body(rows[i : i + 2]), f"request {i}")["duplicate"]
            assert again.pipeline.counts.rows == i + 2
            crash(again)
            (tmp_path / "live").rename(copy)
            (tmp_path / "aside").rename(tmp_path / "live")
    crash(service)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A journal of several requests, its text, and the states after each."""
    folder = tmp_path_factory.mktemp("journal")
    service, rows = open_service(folder), some_rows(10)
    after, ends = [states(service)], [0]
    for i in range(0, 10, 2):
        service.post("json", body(rows[i : i + 2]))
        after.append(states(service))
        ends.append(service.journal_size)
    crash(service)
    journal = next(folder.glob("journal-*.log"))
    return folder, journal, journal.read_bytes(), after, ends


def outcome(folder, **options):
    """States after a start; None where it is refused for damage."""
    try:
        service = open_service(folder, **options)
    except DamagedState:
        return None
    found = states(service)
    crash(service)
    return found


@given(where=st.floats(0, 1), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_log_is_reported(written, where, bit):
    _, journal, text, _, ends = written
    place = int(where * (ends[-1] - 1))
    journal.write_bytes(text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :])
    assert outcome(written[0]) is None
    journal.write_bytes(text[: int(where * (len(text) - 1))])
    assert outcome(written[0]) is None


@given(where=st.floats(0, 1))
def test_a_request_that_was_being_written_is_removed(written, where):
    folder, journal, text, after, ends = written
    place = ends[-2] + int(where * (ends[-1] - 2 - ends[-2]))
    journal.write_bytes(text[:place] + bytes(len(text) - place))
    assert outcome(folder) == after[-2]


def injure(path, damage, rng):
    """Flip a bit of a file, shorten it, or delete it."""
    text = bytearray(path.read_bytes())
    used = len(bytes(text).rstrip(b"\0"))
    if damage == "flip":
        text[int(rng.integers(used))] ^= 1 << int(rng.integers(8))
        path.write_bytes(text)
    elif damage == "shorten":
        path.write_bytes(text[: int(rng.integers(used))])
    else:
        path.unlink()


@pytest.mark.slow
def test_four_hundred_storage_faults_are_all_reported(tmp_path):
    live, rows = tmp_path / "live", some_rows(64)
    with open_service(live, batch_rows=8) as service:
        for i in range(0, 56, 4):
            service.post("json", body(rows[i : i + 4]), f"request {i}")
    service = open_service(live)
    for i in range(56, 64, 2):
        service.post("json", body(rows[i : i + 2]), f"request {i}")
    crash(service)
    shutil.copytree(live, tmp_path / "good")
    files = [path.relative_to(live) for path in live.rglob("*") if path.is_file() and path.name != "lock"]
    rng = np.random.default_rng(5)
    for _ in range(400):
        shutil.rmtree(live)
        shutil.copytree(tmp_path / "good", live)
        injure(live / files[rng.integers(len(files))], str(rng.choice(DAMAGES)), rng)
        assert outcome(live) is None


def test_damage_of_any_file_is_named_and_recover_says_what_is_lost(tmp_path):
    live, rows = tmp_path / "live", some_rows(24)
    with open_service(live, batch_rows=8) as service:
        for i in range(0, 20, 4):
            service.post("json", body(rows[i : i + 4]), f"request {i}")
    service = open_service(live)
    service.post("json", body(rows[20:]), "last")
    whole = states(service)
    crash(service)
    files = [path.relative_to(live) for path in live.rglob("*") if path.is_file() and path.name != "lock"]
    assert {path.name.split("-")[0].split(".")[0] for path in files} == {
        "manifest", "states", "waiting", "more", "journal", "part", "parts"
    }  # fmt: skip
    shutil.copytree(live, tmp_path / "good")
    rng = np.random.default_rng(0)
    for path in files:
        for damage in DAMAGES:
            shutil.rmtree(live)
            shutil.copytree(tmp_path / "good", live)
            injure(live / path, damage, rng)
            with pytest.raises(DamagedState, match=r"--recover"):
                open_service(live)
            recovered = open_service(live, recover=True)
            assert recovered.losses
            if path.name.startswith(("part", "manifest", "waiting", "more")):
                assert states(recovered) == whole  # these files do not have the states
            recovered.close()
            assert outcome(live) == states(recovered)  # what was lost is not reported again


@pytest.mark.slow
def test_twenty_five_kills_lose_nothing_that_was_acknowledged(tmp_path):
    check_kills(tmp_path, kills=25)


def check_kills(folder, kills):
    command = [sys.executable, "-W", "ignore", KILLER, folder, str(kills), "1"]
    kept = {"WOLF_CACHE": str(folder / "cache")}  # or each start would compile again
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | kept)
    assert done.returncode == 0, done.stderr[-2000:]
    hits, requests = map(int, done.stdout.split())
    assert hits == kills
    service, want = open_service(folder / "state"), wolf.Bank(LEVEL)
    taken = service.pipeline.counts.rows
    assert taken - requests in (0, 1)  # the last may be on disk, and the kill came before its answer
    for i in range(taken):
        key, t, v = f"s{i % 5}", float(i), float(i * i % 17)
        want.step([key], [v], [t])
    assert states(service) == {key: want.dump(key) for key in want}
    crash(service)


def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(tmp_path, monkeypatch):
    service = open_service(tmp_path)
    service.post("json", body([("a", 1.0, 1.0)]))
    good = states(service)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(service._checkpoint), "commit", full)
    service.batch_rows = 1
    service.post("json", body([("a", 2.0, 1.0)]))  # the journal has it
    assert "the last commit failed" in service.warning
    monkeypatch.setattr("wolf_fleet.service.write_ahead_log.os.fsync", full)
    with pytest.raises(OSError, match="requests cannot be stored"):
        service.post("json", body([("a", 3.0, 1.0)]))
    with pytest.raises(OSError, match="repair the cause and restart"):
        service.post("json", body([("a", 4.0, 1.0)]))
    monkeypatch.undo()
    crash(service)
    again = open_service(tmp_path)
    assert states(again)["a"] != good["a"]
    assert again.pipeline.counts.rows in (2, 3)  # the third was written, and never acknowledged
    assert again.pipeline.bank["a"].t == again.pipeline.counts.rows
    again.close()


def test_history_and_watch_are_there_after_a_restart_and_old_parts_are_not(tmp_path):
    service = open_service(tmp_path, batch_rows=10, history_rows=25)
    for i in range(0, 60, 5):
        service.post("json", body([("a", float(t), 1.0 + t % 2 + 90 * (t % 7 == 6)) for t in range(i, i + 5)]))
    told, doing = responses.history(service, "a", 100), responses.keys(service)
    assert told["times"] == list(range(35, 60))
    service.close()
    assert len(parts(tmp_path)) == len(list(tmp_path.glob("out/part-*"))) < 6
    again = open_service(tmp_path, batch_rows=10, history_rows=25)
    back = responses.history(again, "a", 100)
    np.testing.assert_allclose(
        back.pop("half_widths"), told.pop("half_widths"), rtol=1e-12
    )  # from the ends of the intervals
    assert back | {"last": 0} == told | {"last": 0}
    assert responses.keys(again) == doing
    assert [flag.row.times.tolist() for flag in again.latest][-2:] == [[48.0], [55.0]]
    again.close()


def test_all_rows_are_kept_where_a_folder_is_given(tmp_path):
    with open_service(tmp_path / "state", out=tmp_path / "out", history_rows=5, batch_rows=4) as service:
        for i in range(0, 20, 2):
            service.post("json", body([("a", float(i), 1.0), ("a", i + 1.0, 2.0)]))
    tables = [parquet.read_table(part) for part in parts(tmp_path / "state")]
    assert sum(table.num_rows for table in tables) == 20
    assert tables[0].column_names == ["id", "t", "v", "mean", "lower", "upper", "weight", "outlier", "arrived"]


def test_rows_without_times_and_late_rows(tmp_path):
    with open_service(tmp_path / "a", time=None) as service:
        service.post("csv", b"id,v\na,1\nb,3\na,2")
        want = wolf.Bank(LEVEL)
        want.step(["a", "b", "a"], [1.0, 3.0, 2.0])
        assert states(service) == {key: want.dump(key) for key in want}
        assert responses.state(service, "a")["time"] is None
        assert responses.state(service, "a")["last"]["arrived"].endswith("Z")
    with open_service(tmp_path / "b", allowed_lateness=5.0) as service:
        assert service.post("json", body([("a", 10.0, 1.0), ("a", 8.0, 2.0)]))["waiting"] == 2
    with open_service(tmp_path / "b", allowed_lateness=5.0) as service:
        told = service.post("json", body([("a", 20.0, 1.0), ("a", 9.0, 1.0)]))
        assert (told["used"], told["late"], told["waiting"]) == (2, 1, 1)


def test_keys_that_are_forgotten_leave_the_page_too(tmp_path):
    with open_service(tmp_path, idle_timeout=50.0) as service:
        service.post("json", body([("old", float(t), 90.0 * (t % 7 == 6)) for t in range(20)]))
        service.post("json", body([("new", 100.0, 1.0)]))
        assert responses.keys(service)[0]["key"] == "old"
        service.commit()
        assert responses.keys(service) == []
        assert (list(service.pipeline.bank), service.health.keys) == (["new"], ["new"])
        service.post("json", body([("old", 101.0, 1.0), ("third", 101.0, 1.0)]))
        assert responses.state(service, "old")["measurements"] == 1


def test_limits_and_settings_are_held(tmp_path):
    with open_service(tmp_path, max_keys=2) as service:
        service.post("json", body([("a", 1.0, 1.0), ("b", 1.0, 1.0)]))
        with pytest.raises(ValueError, match=r"1 new key in the request, and 0 of at most 2 keys are free"):
            service.post("json", body([("a", 2.0, 1.0), ("b", 2.0, 1.0), ("c", 1.0, 1.0)]))
        assert (len(service.pipeline.bank), service.pipeline.bank["a"].t) == (2, 1)
        with pytest.raises(ValueError, match="another process"):
            open_service(tmp_path)
    with pytest.raises(ValueError, match=r"with allowed_lateness 0\.0, not 1\.0"):
        open_service(tmp_path, allowed_lateness=1.0)
    (tmp_path / "rows.csv").write_text("id,t,v\na,1,1\n")
    with pytest.raises(ValueError, match="has format wolf-service 3; expected wolf-stream 3"):
        wolf_fleet.stream(tmp_path / "rows.csv", wolf.Bank(LEVEL), tmp_path / "out", state=tmp_path, **NAMES)
    curved = wolf.StateSpaceModel(
        dynamics=lambda x: x,
        observe=lambda x: x,
        dynamics_cov=[[1.0]],
        obs_cov=[[1.0]],
        prior=wolf.Gaussian([0.0], [[1.0]]),
    )
    with pytest.raises(ValueError, match="a service needs a linear model"):
        Service(wolf.Bank(curved), tmp_path / "other", key="id", values="v")


@pytest.mark.slow
def test_the_example_finds_the_sensors_that_break():
    from examples import fleet_live

    rows, false = fleet_live.main(sensors=300, every=1.0, minutes=0.8, share=0.1, port=0)
    spikes, stuck = rows["spikes"], rows["stuck"]
    assert spikes[1] > 2
    assert spikes[0] + stuck[0] >= 0.5 * (spikes[1] + stuck[1])
    assert false <= 5


def test_requests_together_are_taken_in_order_each_by_itself(tmp_path):
    with open_service(tmp_path) as service:
        sent = [Record("", "json", 1.0, data) for data in (body([("a", 1.0, 1.0)]), b"{", body([("a", 2.0, 1.0)]))]
        first, refused, last = service.post_many(sent)
        assert (first["used"], last["used"]) == (1, 1)
        assert "not JSON" in str(refused)
