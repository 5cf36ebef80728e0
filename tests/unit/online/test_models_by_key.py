"""A bank with models by key: each key has the bits of `wolf.filter` with its own model and method."""

import pickle

import numpy as np
import pytest

import wolf

pytest.importorskip("llvmlite")
LEVELS = {f"level {i}": wolf.models.local_level(0.1 + 0.2 * i, 0.5 + i) for i in range(3)}
TRACKS = {
    f"track {i}": wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1 + i, obs_var=2.0) for i in (1, 2)
}
MODELS = LEVELS | TRACKS | {"robust": (wolf.models.local_level(0.3, 1.0), "WoLF")}


def rows(size=60, seed=0):
    rng = np.random.default_rng(seed)
    ys = rng.standard_cauchy(size)
    ys[::17] = np.nan
    return np.array(list(MODELS))[rng.integers(len(MODELS), size=size)], ys, np.cumsum(rng.exponential(size=size))


def own(key, **options):
    choice = MODELS[str(key)]
    model, method = choice if isinstance(choice, tuple) else (choice, None)
    return wolf.Bank(model, method, **options)


def test_each_key_has_the_bits_of_its_own_model_with_and_without_times():
    keys, ys, times = rows()
    for clock in (None, times):
        bank = wolf.Bank(models=MODELS)
        out = bank.step(keys, ys, clock)
        for key in MODELS:
            mine = keys == key
            alone = own(key).step(keys[mine], ys[mine], None if clock is None else clock[mine])
            size = alone.mean.shape[1]
            np.testing.assert_array_equal(out.mean[mine, :size], alone.mean)
            assert np.isnan(out.mean[mine, size:]).all()
            for name in ("weight", "outlier", "signal", "signal_variances"):
                np.testing.assert_array_equal(getattr(out, name)[mine], getattr(alone, name))
    reference = wolf.filter(MODELS["level 1"], ys[keys == "level 1"])
    bank = wolf.Bank(models=MODELS)
    bank.step(keys, ys)
    np.testing.assert_array_equal(bank["level 1"].cov, reference.covs[-1])


def test_keys_whose_models_differ_in_numbers_only_take_one_call(monkeypatch):
    from wolf.online.bank import step

    calls = []
    monkeypatch.setattr(
        step, "run_rows", lambda *args, run=step.run_rows, **options: calls.append(1) or run(*args, **options)
    )
    bank = wolf.Bank(models=MODELS)
    bank.step(list(MODELS), np.ones(len(MODELS)))
    assert len(calls) == 3  # levels, tracks, the level with another method


def test_states_are_saved_copied_and_restored_with_their_models(tmp_path):
    keys, ys, _ = rows()
    bank = wolf.Bank(models=MODELS)
    bank.step(keys, ys)
    bank.save(tmp_path / "bank.npz")
    for other in (wolf.Bank.load(tmp_path / "bank.npz", models=MODELS), pickle.loads(pickle.dumps(bank))):
        assert {key: other.dump(key) for key in MODELS} == {key: bank.dump(key) for key in MODELS}
        other.forget(["track 1"])
        other.restore("track 1", bank.dump("track 1"))
        other.step(list(MODELS), np.ones(len(MODELS)))
        assert other["track 1"].t == bank["track 1"].t + 1
    with pytest.raises(ValueError, match="was saved with another model"):
        wolf.Bank.load(tmp_path / "bank.npz", models=LEVELS | {"track 1": LEVELS["level 0"]})


def test_groups_defaults_functions_and_models_that_are_added_later():
    model = wolf.models.local_level(0.1, 1.0)
    bank = wolf.Bank(model, models={"roof": LEVELS["level 2"]}, group=lambda key: str(key).split("-")[0])
    assert bank.model_of("roof-1") is LEVELS["level 2"]
    assert bank.model_of("hall-1") is model
    bank.step(["roof-1", "hall-1"], [1.0, 2.0])
    bank.add_models({"cellar": TRACKS["track 1"]})
    out = bank.step(["cellar-1", "roof-1", "hall-1"], [1.0, 1.0, 2.0])
    assert out.mean.shape == (3, 2)
    assert bank["roof-1"].t == 2
    assert len(wolf.Bank(model, models={}).step(["new"], [1.0]).mean) == 1

    made = []
    lazy = wolf.Bank(model, models=lambda key: made.append(key) or wolf.models.local_level(0.1, float(len(key))))
    lazy.step(["a", "bbb", "a"], [1.0, 1.0, 2.0])
    assert made == ["a", "bbb"]
    assert float(lazy.model_of("bbb").R[0, 0]) == 3.0


def test_mistakes_are_named_before_anything_changes():
    bank = wolf.Bank(models=LEVELS)
    with pytest.raises(ValueError, match="there is no model for the key 'attic'"):
        bank.step(["level 1", "attic"], [1.0, 1.0])
    assert len(bank) == 0
    with pytest.raises(ValueError, match="give a model, or models="):
        wolf.Bank()
    with pytest.raises(ValueError, match="must measure 1 coordinates; the model of 'b' measures 2"):
        wolf.Bank(
            models={
                "a": LEVELS["level 1"],
                "b": wolf.models.constant_velocity(2, dt=1.0, dynamics_var=1.0, obs_var=1.0),
            }
        )
    with pytest.raises(ValueError, match="models must be a dict or a function"):
        wolf.Bank(models=[1])
    with pytest.raises(ValueError, match="level 1' has a model already"):
        bank.add_models({"level 1": LEVELS["level 2"]})
