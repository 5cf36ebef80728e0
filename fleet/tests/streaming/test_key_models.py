"""Models by key: learned by a warm-up, or read from a file."""

import json

import numpy as np
import pytest

import wolf
import wolf_fleet

pytest.importorskip("llvmlite")
pytest.importorskip("pyarrow")
from wolf_fleet.cli.stream import make_keyed_bank
from wolf_fleet.service import responses
from wolf_fleet.streaming.key_models import KeyGroups, WarmUp

NAMES = {"key": "id", "values": "v", "time": "t"}
SCALES = {"pump1": 1.0, "pump2": 1.0, "roof1": 100.0}


def write_rows(folder, steps=60):
    rng = np.random.default_rng(0)
    lines = [f"{key},{t},{scale * rng.normal():.4f}" for t in range(steps) for key, scale in SCALES.items()]
    (folder / "rows.csv").write_text("id,t,v\n" + "\n".join(lines) + "\n")


def run(folder, name, warm_up, batch_rows, source="rows.csv"):
    place = folder / name
    done = wolf_fleet.stream(
        folder / source, warm_up, place / "out", state=place / "state", format="csv", batch_rows=batch_rows, **NAMES
    )
    output = [path.read_text().splitlines()[1:] for path in wolf_fleet.streaming.parts(place / "state")]
    manifest = json.loads((place / "state" / "manifest.json").read_text())
    return done, [line for lines in output for line in lines], manifest


@pytest.mark.thorough
def test_the_output_of_a_warm_up_has_every_row_and_does_not_depend_on_batches(tmp_path):
    write_rows(tmp_path)
    runs = [run(tmp_path, str(size), WarmUp(30), size) for size in (1000, 7)]
    assert runs[0][1] == runs[1][1]
    done, rows, manifest = runs[1]
    assert (done.used, done.waiting, done.keys, len(rows)) == (180, 0, 3, 180)
    learned = manifest["learned_models"]
    assert learned == runs[0][2]["learned_models"]
    ratio = learned["roof1"]["variances"]["obs_var"] / learned["pump1"]["variances"]["obs_var"]
    assert 1e3 < ratio < 1e5


@pytest.mark.thorough
def test_a_stream_resumes_with_rows_in_the_warm_up_and_models_learned(tmp_path):
    write_rows(tmp_path)
    whole = run(tmp_path, "whole", WarmUp(30), 1000)
    with (tmp_path / "rows.csv").open() as file:
        lines = file.readlines()

    class StoppedError(Exception):
        pass

    def stop_at(count):
        def progress(summary):
            if summary.rows >= count:
                raise StoppedError

        return progress

    place = tmp_path / "parts"
    (tmp_path / "rows2.csv").write_text("".join(lines))
    for count in (40, 120):  # within the warm-up, and after it
        with pytest.raises(StoppedError):
            wolf_fleet.stream(
                tmp_path / "rows2.csv",
                WarmUp(30),
                place / "out",
                state=place / "state",
                format="csv",
                batch_rows=20,
                on_progress=stop_at(count),
                **NAMES,
            )
    assert run(tmp_path, "parts", WarmUp(30), 20, "rows2.csv")[1] == whole[1]


def test_keys_of_a_group_share_a_model_and_constant_keys_get_one(tmp_path):
    with wolf_fleet.Service(WarmUp(20, group="^[a-z]+"), tmp_path, key="id", values="v") as service:
        body = "".join(f"pump{1 + i % 2},{i % 3}\nflat,5.0\n" for i in range(60)).encode()
        assert service.post("csv", b"id,v\n" + body)["used"] == 120
        assert set(service.pipeline.warm_up.learned) == {"pump", "flat"}
        bank = service.pipeline.bank
        assert bank.model_of("pump1") is bank.model_of("pump2")
        assert abs(bank["flat"].mean[0] - 5.0) < 1e-3
        assert service.post("csv", b"id,v\npump9,1.0\n")["used"] == 1  # a new key of a known group waits for nothing
        waiting = service.post("csv", b"id,v\nnew,1.0\n")
        assert (waiting["used"], waiting["waiting"]) == (0, 1)
        with pytest.raises(KeyError, match="'new' wait for earlier ones or for a model"):
            responses.state(service, "new")
        with pytest.raises(KeyError, match="there is no key 'nobody'"):
            responses.forecast(service, "nobody", 3, 0.9)
        assert len(responses.forecast(service, "pump1", 3, 0.9)["mean"]) == 3
    with wolf_fleet.Service(WarmUp(20, group="^[a-z]+"), tmp_path, key="id", values="v") as service:
        assert service.counts.waiting == 1
        assert service.counts.keys == 4


def test_a_file_of_models_assigns_them_by_patterns(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text('["roof-*"]\nobs_var = 9.0\n["*-slow"]\nmodel = "local-trend"\nslope_var = 0.0\nmethod = "KF"\n')
    bank = make_keyed_bank("local-level", ("level_var=0.1", "obs_var=1"), None, 1, str(path), None, None)
    assert float(bank.model_of("roof-slow").R[0, 0]) == 9.0
    assert bank.model_of("hall-slow").state_dim == 2
    assert bank.model_of("hall") is bank.model
    bank.step(["roof-1", "hall-slow", "hall"], [1.0, 2.0, 3.0])
    only = make_keyed_bank("local-level", (), None, 1, None, 25, "x")
    assert only == WarmUp(25, "local-level", None, "x")
    path.write_text('["roof-*"]\nlevel_var = 0.1\nobs_var = 9.0\n')
    bank = make_keyed_bank("local-level", (), None, 1, str(path), None, None)
    with wolf_fleet.Service(bank, tmp_path / "state", key="id", values="v") as service:
        with pytest.raises(ValueError, match="there is no model for the key 'hall'"):
            service.post("csv", b"id,v\nroof-1,1.0\nhall,2.0\n")
        assert service.counts.rows == 0
        assert service.post("csv", b"id,v\nroof-1,1.0\n")["used"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1", "expected a table"),
        ("[a]\nobs_var = -1.0\nlevel_var = 1.0", "obs_var is a variance"),
        ("[a]\nobs_var = 1.0", "level_var"),
        ("[a", "not a TOML file"),
        ("", "has no models"),
    ],
)
def test_a_wrong_file_of_models_is_an_error(tmp_path, text, words):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        make_keyed_bank("local-level", (), None, 1, str(tmp_path / "m.toml"), None, None)


def test_a_warm_up_checks_its_arguments():
    with pytest.raises(ValueError, match="at least 20 rows"):
        WarmUp(3)
    with pytest.raises(ValueError, match="not a regular expression"):
        WarmUp(group="(")
    with pytest.raises(ValueError, match="leave out --set"):
        make_keyed_bank("local-level", ("obs_var=1",), None, 1, None, 25, None)
    assert KeyGroups("^([a-z]+)-")("hall-7") == "hall"
    assert KeyGroups("^[a-z]+")("7") == "7"


def test_auto_selects_a_season_and_falls_back_where_nothing_can_be_fitted():
    rng = np.random.default_rng(0)
    steps = np.arange(200)
    values = 10 * np.sin(2 * np.pi * steps / 24)[:, None] + rng.normal(size=(200, 1))
    assert "seasonal:24" in WarmUp(200, "auto").learn([(None, values)])["model"]
    for values in (np.full((30, 1), np.nan), np.zeros((30, 1)), np.full((30, 1), 1e300)):
        learned = WarmUp(30, "auto").learn([(steps[:30] * 60.0, values)])
        model = wolf.models.local_level(**learned["variances"])
        assert np.isfinite(float(model.R[0, 0]))
        assert float(model.R[0, 0]) > 0


@pytest.mark.thorough
def test_a_service_learns_the_same_models_again_after_a_crash(tmp_path):
    names = {"key": "id", "values": "v", "time": "t"}
    service = wolf_fleet.Service(WarmUp(20), tmp_path, **names)
    rng = np.random.default_rng(0)
    for t in range(25):  # some before and some after the commit
        service.post("csv", f"id,t,v\na,{t},{rng.normal()}\nb,{t},{rng.normal()}\n".encode())
        if t == 10:
            service.commit()
    service.post("csv", b"id,t,v\nc,25,1.0\n")
    learned, bank = service.pipeline.warm_up.learned, service.pipeline.bank
    states = {key: bank.dump(key) for key in bank}
    service._close_files()  # as a kill leaves them
    again = wolf_fleet.Service(WarmUp(20), tmp_path, **names)
    assert again.pipeline.warm_up.learned == learned
    assert {key: again.pipeline.bank.dump(key) for key in again.pipeline.bank} == states
    assert (set(states), again.counts.waiting) == ({"a", "b"}, 1)
    again.close()
