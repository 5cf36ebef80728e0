"""Invalid arguments of runs: filter, smooth, forecast, Online, fit, tune, certify, attack, frames, plots."""

# ruff: noqa: E501  (one argument a line)

from decimal import Decimal
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from tests.attack import invalid_values as invalid

import wolf
from wolf import models
from wolf.fitting.initial_values import first_guesses
from wolf.models.continuous import time_steps

LEVEL = models.local_level(level_var=0.1, obs_var=1.0)
PLANE = models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=1.0)
TILTED = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, [[1.0, 0.5], [0.5, 1.0]], *PLANE.prior)
COUNTS = models.glm(features=2, family=wolf.families.Poisson())
DRIVEN = wolf.LinearModel(**{name: np.eye(1) for name in "FHQRB"}, mean=np.zeros(1), cov=np.eye(1))
YS = np.array([1.0, 2.0, 1.5, 0.5, 1.0])
FRAME = pandas.DataFrame({"t": np.arange(5.0), "y": YS, "z": YS, "who": list("aabbb")})
KNOWN = {"level_var": 0.1, "obs_var": 1.0}
START = {"level_var": 0.1, "obs_var": 1.0}
INPUTS = {
    name: invalid.SERIES[name] for name in invalid.SERIES if name not in ("None", "too many columns", "no columns")
}
INPUTS |= {"nan": [np.nan] * 5, "inf": [np.inf] * 5, "short": np.ones(4), "wide": np.ones((5, 3)), "1e300": "x"}
OUT = wolf.filter(LEVEL, YS, method="KF")
MANY = wolf.filter_many(LEVEL, np.stack([YS, YS]), method="KF")


def returns_none(level_var, obs_var):
    return None


def returns_pair(level_var, obs_var):
    return level_var, obs_var


def online(**options):
    return wolf.Online(LEVEL, "KF", **options)


def online_after_three_steps():
    filled = online(horizon=3)
    filled._recorded.extend([None] * 3)
    return filled


# fmt: off
RUNS = invalid.make_cases(
    ("filter", "model", invalid.MODEL, lambda v: wolf.filter(v, YS)),
    ("filter", "ys", invalid.SERIES, lambda v: wolf.filter(LEVEL, v)),
    ("filter", "method", invalid.METHOD, lambda v: wolf.filter(LEVEL, YS, method=v)),
    ("filter by sensors", "sensors", {"few": (0,), "many": (0, 1, 2)}, lambda v: wolf.filter(PLANE, np.ones((5, 2)), method=wolf.Adaptive(sensors=v))),
    ("filter by sensors", "sensors", {"each": "each", "two": (0, 1)}, lambda v: wolf.filter(TILTED, np.ones((5, 2)), method=wolf.Adaptive(sensors=v))),
    ("filter of counts", "method", {"name": "Adaptive", "made": wolf.Adaptive(), "of one": wolf.Adaptive(sensors=(0,))}, lambda v: wolf.filter(COUNTS, np.ones(5), inputs=np.ones((5, 2)), method=v)),
    ("filter", "inputs", INPUTS, lambda v: wolf.filter(DRIVEN, YS, inputs=v)),
    ("filter", "key", invalid.KEY, lambda v: wolf.filter(LEVEL, YS, key=v)),
    ("filter of members", "key", invalid.KEY | invalid.NONE, lambda v: wolf.filter(LEVEL, YS, method="ETKF", key=v)),
    ("filter", "update_first", invalid.FLAG, lambda v: wolf.filter(LEVEL, YS, update_first=v)),
    ("filter", "dtype", invalid.CHOICE, lambda v: wolf.filter(LEVEL, YS, dtype=v)),
    ("filter", "save", invalid.without(invalid.CHOICE, "class"), lambda v: wolf.filter(LEVEL, YS, save=v)),
    ("filter_many", "model", invalid.MODEL | {"empty": []}, lambda v: wolf.filter_many(v, [YS, YS])),
    ("filter_many", "model", invalid.MODEL, lambda v: wolf.filter_many([v, LEVEL], [YS, YS])),
    ("filter_many", "model", invalid.MODEL, lambda v: wolf.filter_many([LEVEL, v], [YS, YS])),
    ("filter_many", "ys", invalid.without(invalid.SERIES, "too many columns", "ragged") | {"one series": YS}, lambda v: wolf.filter_many(LEVEL, v)),
    ("filter_many", "ys", invalid.SERIES, lambda v: wolf.filter_many(LEVEL, [YS, v])),
    ("filter_many", "threads", invalid.without(invalid.COUNT, "None"), lambda v: wolf.filter_many(LEVEL, [YS, YS], threads=v)),
    ("filter_many", "key", invalid.KEY, lambda v: wolf.filter_many(LEVEL, [YS, YS], key=v)),
    ("filter_many", "dtype", invalid.CHOICE, lambda v: wolf.filter_many(LEVEL, [YS, YS], dtype=v)),
    ("filter_many", "update_first", invalid.FLAG, lambda v: wolf.filter_many(LEVEL, [YS, YS], update_first=v)),
    ("filter_chunks", "model", invalid.MODEL, lambda v: list(wolf.filter_chunks(v, [YS]))),
    ("filter_chunks", "chunks", invalid.without(invalid.FEW, "texts") | {"number": 3, "0-d": np.array(1.0)}, lambda v: list(wolf.filter_chunks(LEVEL, v))),
    ("filter_chunks", "ys", invalid.SERIES, lambda v: list(wolf.filter_chunks(LEVEL, [v]))),
    ("filter_chunks", "chunks", {"three": (YS, YS, YS), "none": ()}, lambda v: list(wolf.filter_chunks(LEVEL, [v]))),
    ("filter_chunks", "inputs", INPUTS, lambda v: list(wolf.filter_chunks(DRIVEN, [(YS, v)]))),
    ("filter_chunks", "key", invalid.KEY, lambda v: list(wolf.filter_chunks(LEVEL, [YS], key=v))),
    ("filter_chunks", "update_first", invalid.FLAG, lambda v: list(wolf.filter_chunks(LEVEL, [YS], update_first=v))),
    ("smooth", "smooth", invalid.RESULT, lambda v: wolf.smooth(LEVEL, v)),
    ("smooth", "model", invalid.MODEL | {"other": PLANE}, lambda v: wolf.smooth(v, OUT)),
    ("smooth", "reweight", invalid.FLAG, lambda v: wolf.smooth(OUT, reweight=v)),
    ("sample_paths", "num", invalid.COUNT, lambda v: wolf.sample_paths(OUT, num=v, key=0)),
    ("sample_paths", "key", invalid.KEY | invalid.NONE, lambda v: wolf.sample_paths(OUT, num=2, key=v)),
    ("sample_paths", "sample_paths", invalid.RESULT, lambda v: wolf.sample_paths(LEVEL, v, 2, 0)),
    ("forecast", "steps", invalid.COUNT, lambda v: wolf.forecast(OUT, v)),
    ("forecast", "level", invalid.LEVEL, lambda v: wolf.forecast(OUT, 3, level=v)),
    ("forecast", "model", invalid.MODEL | {"other": PLANE}, lambda v: wolf.forecast(v, OUT, 3)),
    ("forecast", "forecast", invalid.RESULT, lambda v: wolf.forecast(LEVEL, v, 3)),
    ("to_frame", "backend", invalid.CHOICE, lambda v: OUT.to_frame(v)),
)
# fmt: on

# fmt: off
STEPS = invalid.make_cases(
    ("Online", "model", invalid.MODEL, lambda v: wolf.Online(v)),
    ("Online", "method", invalid.METHOD, lambda v: wolf.Online(LEVEL, v)),
    ("Online", "key", invalid.KEY, lambda v: online(key=v)),
    ("Online", "update_first", invalid.FLAG, lambda v: online(update_first=v)),
    ("Online", "dtype", invalid.CHOICE, lambda v: online(dtype=v)),
    ("Online", "horizon", invalid.WHOLE, lambda v: online(horizon=v)),
    ("step", "y", invalid.without(invalid.SERIES, "None", "0-d"), lambda v: ONLINE.step(v)),
    ("step", "u", invalid.FEW | {"nan": [np.nan], "inf": np.inf, "wide": [1.0, 2.0]}, lambda v: wolf.Online(DRIVEN, "KF").step(1.0, u=v)),
    *(("step", name, invalid.without(invalid.COVARIANCE, "None"), partial(lambda name, v: ONLINE.step(1.0, **{name: v}), name)) for name in "RQ"),
    *(("step", name, invalid.without(invalid.MATRIX, "None"), partial(lambda name, v: ONLINE.step(1.0, **{name: v}), name)) for name in "HF"),
    ("late", "t", invalid.WHOLE | {"too far": 10}, lambda v: online_after_three_steps().late(1.0, v)),
    ("save", "path", invalid.PATH, lambda v: ONLINE.save(v)),
    ("load", "path", invalid.PATH, lambda v: wolf.Online.load(v, LEVEL)),
    ("FixedLag", "lag", invalid.COUNT, lambda v: wolf.FixedLag(LEVEL, "KF", lag=v)),
    ("FixedLag", "model", invalid.MODEL, lambda v: wolf.FixedLag(v)),
    ("FixedLag", "horizon", invalid.WHOLE, lambda v: wolf.FixedLag(LEVEL, "KF", horizon=v)),
    ("FixedLag", "y", invalid.without(invalid.SERIES, "None", "0-d"), lambda v: LAGGED.step(v)),
)
# fmt: on

# fmt: off
FITS = invalid.make_cases(
    ("fit", "builder", invalid.NONE | invalid.FUNCTION | {"model": LEVEL, "None is returned": returns_none, "a pair is returned": returns_pair, "takes nothing": dict}, lambda v: wolf.fit(v, YS, start=None if isinstance(v, type) else START)),
    ("fit", "builder", {"raises": lambda level_var: 1 / 0}, lambda v: wolf.fit(v, YS, start={"level_var": 1.0})),
    ("fit", "ys", invalid.SERIES, lambda v: wolf.fit(models.local_level, v)),
    ("fit", "ys", invalid.SERIES, lambda v: wolf.fit(models.local_level, v, start=START)),
    ("fit", "ys", {"1e300": 1e300 * YS, "1e200": 1e200 * YS}, lambda v: wolf.fit(models.local_level, v)),
    ("fit", "values", {"constant": np.ones(5)}, lambda v: wolf.fit(models.local_level, v)),
    ("fit", "ys", {"all missing": [np.nan] * 5, "one": [1.0]}, lambda v: wolf.fit(models.local_level, v)),
    ("fit", "ys", {"1e300": 1e300 * YS, "all missing": [np.nan] * 5, "one": [1.0]}, lambda v: wolf.fit(models.local_level, v, start=START)),
    ("fit", "other", {"no first guess": lambda other: LEVEL}, lambda v: wolf.fit(v, YS)),
    ("fit", "start", invalid.MAPPING | {"unknown": {"other": 1.0}}, lambda v: wolf.fit(models.local_level, YS, start=v)),
    ("fit", "level_var", invalid.without(invalid.VARIANCE, "digits"), lambda v: wolf.fit(models.local_level, YS, start={"level_var": v})),
    ("fit", "bounds", invalid.MAPPING | {"unknown": {"other": "real"}}, lambda v: wolf.fit(models.local_level, YS, bounds=v)),
    ("fit", "level_var", invalid.FEW | {"order": (1.0, 0.0), "texts": ("a", "b"), "three": (0, 1, 2), "nan": (np.nan, 1.0)}, lambda v: wolf.fit(models.local_level, YS, bounds={"level_var": v})),
    ("fit", "score", invalid.CHOICE, lambda v: wolf.fit(models.local_level, YS, score=v)),
    ("fit", "method", invalid.METHOD, lambda v: wolf.fit(models.local_level, YS, method=v)),
    ("fit", "restarts", invalid.WHOLE, lambda v: wolf.fit(models.local_level, YS, restarts=v)),
    ("fit", "seed", invalid.WHOLE, lambda v: wolf.fit(models.local_level, YS, seed=v)),
    ("fit", "update_first", invalid.FLAG, lambda v: wolf.fit(models.local_level, YS, update_first=v)),
    ("fit", "affine", invalid.FLAG, lambda v: wolf.fit(models.local_level, YS, affine=v)),
    ("fit_noise_memory", "model", invalid.MODEL, lambda v: wolf.fit_ar1_noise(v, YS)),
    ("fit_noise_memory", "ys", invalid.SERIES, lambda v: wolf.fit_ar1_noise(LEVEL, v)),
    ("tune", "model", invalid.MODEL, lambda v: wolf.tune(v, YS)),
    ("tune", "ys", invalid.SERIES | {"all missing": [np.nan] * 5}, lambda v: wolf.tune(LEVEL, v)),
    ("tune", "method", invalid.METHOD | invalid.NONE, lambda v: wolf.tune(LEVEL, YS, v)),
    ("tune", "name", invalid.CHOICE, lambda v: wolf.tune(LEVEL, YS, name=3 if v is None else v, low=1.0, high=2.0)),
    ("tune", "low", invalid.without(invalid.NUMBER, "None") | {"above": 9.0}, lambda v: wolf.tune(LEVEL, YS, low=v, high=5.0)),
    ("tune", "high", invalid.without(invalid.NUMBER, "None"), lambda v: wolf.tune(LEVEL, YS, low=1.0, high=v)),
    ("tune", "update_first", invalid.FLAG, lambda v: wolf.tune(LEVEL, YS, update_first=v)),
    ("certify", "model", invalid.MODEL, lambda v: wolf.certify(v)),
    ("certify", "method", invalid.METHOD, lambda v: wolf.certify(LEVEL, v)),
    ("certify", "ys", invalid.without(invalid.SERIES, "None") | {"missing": [np.nan] * 5}, lambda v: wolf.certify(LEVEL, ys=v)),
    ("certify", "key", invalid.KEY | invalid.NONE, lambda v: wolf.certify(LEVEL, key=v)),
    ("certify", "trials", invalid.WHOLE, lambda v: wolf.certify(LEVEL, trials=v)),
    ("certify", "steps", invalid.COUNT, lambda v: wolf.certify(LEVEL, steps=v)),
    ("certify", "jumps", invalid.MAPPING | {"text in it": {"a": "x"}, "zero": {"a": [0.0]}, "size": {"a": [1.0, 2.0]}}, lambda v: wolf.certify(LEVEL, jumps=v)),
    ("attack", "model", invalid.MODEL, lambda v: wolf.attack(v, "KF", YS)),
    ("attack", "method", invalid.METHOD, lambda v: wolf.attack(LEVEL, v, YS)),
    ("attack", "ys", invalid.SERIES, lambda v: wolf.attack(LEVEL, "KF", v)),
    ("attack", "num_outliers", invalid.COUNT | {"too many": 9}, lambda v: wolf.attack(LEVEL, "KF", YS, v)),
    ("attack", "size", invalid.without(invalid.NUMBER, "None"), lambda v: wolf.attack(LEVEL, "KF", YS, size=v)),
    ("attack", "key", invalid.KEY | invalid.NONE, lambda v: wolf.attack(LEVEL, "KF", YS, key=v)),
    ("attack", "restarts", invalid.COUNT, lambda v: wolf.attack(LEVEL, "KF", YS, restarts=v)),
    ("explain", "explain", invalid.RESULT | {"many": MANY}, lambda v: wolf.explain(v)),
)
# fmt: on

# fmt: off
FRAMES = invalid.make_cases(
    ("filter_frame", "frame", invalid.FEW | {"array": YS, "number": 3, "no rows": FRAME[:0], "lazy": polars.DataFrame(FRAME.iloc[:, :2]).lazy()}, lambda v: wolf.filter_frame(v)),
    ("filter_frame", "time", invalid.ODD | {"absent": "zz", "number": 3}, lambda v: wolf.filter_frame(FRAME, time=v, values="y")),
    ("filter_frame", "values", invalid.ODD | {"absent": "zz", "number": 3, "empty": [], "text column": "who", "numbers": [1]}, lambda v: wolf.filter_frame(FRAME, values=v)),
    ("filter_frame", "by", invalid.ODD | {"absent": "zz", "number": 3}, lambda v: wolf.filter_frame(FRAME, by=v, values="y")),
    ("filter_frame", "model", invalid.CHOICE | {"class": wolf.LinearModel}, lambda v: wolf.filter_frame(FRAME, values="y", model=v)),
    ("filter_frame", "method", invalid.METHOD, lambda v: wolf.filter_frame(FRAME, values="y", parameters=KNOWN, method=v)),
    ("filter_frame", "parameters", invalid.MAPPING, lambda v: wolf.filter_frame(FRAME, values="y", parameters=v)),
    ("filter_frame", "obs_var", invalid.NOISE, lambda v: wolf.filter_frame(FRAME, values="y", parameters=KNOWN | {"obs_var": v})),
    ("filter_frame", "smooth", invalid.FLAG, lambda v: wolf.filter_frame(FRAME, values="y", parameters=KNOWN, smooth=v)),
    ("filter_frame", "level", invalid.LEVEL, lambda v: wolf.filter_frame(FRAME, values="y", parameters=KNOWN, level=v)),
    ("series", "out", invalid.RESULT | {"many": MANY}, lambda v: wolf.plot.series(v)),
    ("series", "ys", invalid.SERIES, lambda v: wolf.plot.series(OUT, 3 if v is None else v)),
    ("series", "truth", invalid.SERIES, lambda v: wolf.plot.series(OUT, truth=3 if v is None else v)),
    ("series", "coordinate", invalid.WHOLE | {"too far": 1}, lambda v: wolf.plot.series(OUT, coordinate=v)),
    ("series", "times", invalid.FEW | {"short": [1.0], "0-d": np.array(1.0)}, lambda v: wolf.plot.series(OUT, times=3 if v is None else v)),
    ("series", "ax", invalid.MAPPING, lambda v: wolf.plot.series(OUT, ax=v)),
    ("weights", "out", invalid.RESULT | {"many": MANY}, lambda v: wolf.plot.weights(v)),
    ("weights", "times", invalid.FEW | {"short": [1.0], "0-d": np.array(1.0)}, lambda v: wolf.plot.weights(OUT, times=3 if v is None else v)),
    ("weights", "ax", invalid.MAPPING, lambda v: wolf.plot.weights(OUT, ax=v)),
    ("influence", "contaminations", invalid.SERIES, lambda v: wolf.plot.influence(v, YS)),
    ("influence", "curves", invalid.FEW | {"short": [1.0]}, lambda v: wolf.plot.influence(YS, v)),
    ("paths", "outs", invalid.RESULT | {"many": MANY, "dict": {"a": 3}, "empty": {}}, lambda v: wolf.plot.paths(v)),
    ("paths", "coordinates", invalid.FEW | {"one": (0,), "too far": (0, 1), "floats": (0.0, 0.0)}, lambda v: wolf.plot.paths(OUT, coordinates=v)),
    ("certificate", "certificate", invalid.RESULT, lambda v: wolf.plot.certificate(v)),
    ("hovmoller", "twin", invalid.RESULT, lambda v: wolf.plot.hovmoller(v)),
    ("errors", "twins", invalid.RESULT | {"empty": {}}, lambda v: wolf.plot.errors(v)),
    ("rank_histogram", "twin", invalid.RESULT, lambda v: wolf.plot.rank_histogram(v)),
)
# fmt: on


@pytest.fixture(autouse=True, scope="module")
def compiled_filters():
    """Make filters whose step is compiled, so that a step that compiles again is noticed."""
    global ONLINE, LAGGED
    ONLINE, LAGGED = online(), wolf.FixedLag(LEVEL, "KF", lag=2)
    wolf.Online(DRIVEN, "KF")


@pytest.mark.parametrize(("argument", "values", "call"), RUNS + STEPS + FITS + FRAMES)
def test_invalid_values_are_refused_by_the_name_of_their_argument(argument, values, call):
    invalid.check_refused(argument, values, call)


CONTAINERS = {
    "list": YS.tolist(),
    "tuple": tuple(YS.tolist()),
    "column": YS[:, None],
    "rows": YS[:, None].tolist(),
    "float32": YS.astype(np.float32),
    "objects": YS.astype(object),
    "halves": [Fraction(str(y)) for y in YS],
    "decimals": [Decimal(str(y)) for y in YS],
    "pandas": pandas.Series(YS),
    "pandas frame": pandas.DataFrame({"y": YS}),
    "nullable pandas": pandas.Series(YS, dtype="Float64"),
    "polars": polars.Series(YS),
    "polars frame": polars.DataFrame({"y": YS}),
    "arrow": pyarrow.array(YS),
    "jax": jnp.asarray(YS),
}
CONTAINERS_WITH_MISSING = {
    "nan": [1.0, np.nan, 1.5, 0.5, 1.0],
    "None": [1.0, None, 1.5, 0.5, 1.0],
    "masked": np.ma.masked_equal(YS, 2.0),
    "masked constant": [1.0, np.ma.masked, 1.5, 0.5, 1.0],
    "masked rows": [np.ma.masked_equal([y], 2.0) for y in YS],
    "masked integers": np.ma.masked_equal([2, 4, 3, 1, 2], 4) / 2,
    "nullable pandas": pandas.Series([1.0, None, 1.5, 0.5, 1.0], dtype="Float64"),
    "polars": polars.Series([1.0, None, 1.5, 0.5, 1.0]),
    "arrow": pyarrow.array([1.0, None, 1.5, 0.5, 1.0]),
}


@pytest.mark.parametrize("ys", CONTAINERS.values(), ids=CONTAINERS)
def test_numbers_in_any_container_give_the_same_result(ys):
    np.testing.assert_array_equal(wolf.filter(LEVEL, ys, method="KF").means, OUT.means)


@pytest.mark.parametrize("ys", CONTAINERS_WITH_MISSING.values(), ids=CONTAINERS_WITH_MISSING)
def test_missing_values_are_recognised_in_any_container(ys):
    out = wolf.filter(LEVEL, ys, method="KF")
    assert out.missing == 1
    np.testing.assert_array_equal(np.isnan(out.ys[:, 0]), [False, True, False, False, False])


FLAGS, CODES = [True, False, True, True, False], [1, 2, 3, 3, 4]
NO_MEASUREMENTS = {
    "list": FLAGS,
    "bools": np.array(FLAGS),
    "bool objects": np.array(FLAGS, object),
    "bools of pandas": pandas.Series(FLAGS),
    "nullable bools of pandas": pandas.Series(FLAGS, dtype="boolean"),
    "bools of polars": polars.Series(FLAGS),
    "frame of pandas": pandas.DataFrame({"y": FLAGS}),
    "bools of Arrow": pyarrow.array(FLAGS),
    "bools of JAX": jnp.asarray(FLAGS),
    "categories": pandas.Series(CODES, dtype="category"),
    "frame of categories": pandas.DataFrame({"y": pandas.Series(CODES, dtype="category")}),
    "dictionary of Arrow": pyarrow.array(CODES).dictionary_encode(),
}
BANK = wolf.Bank(LEVEL, "KF")
KEYS = list("abcde")
TAKES_YS = {
    "filter": lambda v: wolf.filter(LEVEL, v),
    "filter_many": lambda v: wolf.filter_many(LEVEL, [YS, v]),
    "filter_chunks": lambda v: list(wolf.filter_chunks(LEVEL, [v])),
    "Bank.step": lambda v: BANK.step(KEYS, v),
    "choose": wolf.choose,
    "fit": lambda v: wolf.fit(models.local_level, v),
    "tune": lambda v: wolf.tune(LEVEL, v),
    "changepoints": lambda v: wolf.changepoints(LEVEL, v),
}
TAKES_TIMES = {
    "Bank.step": lambda v: BANK.step(KEYS, YS, times=v),
    "choose": lambda v: wolf.choose(YS, times=v),
    "time_steps": time_steps,
}


@pytest.mark.parametrize("call", TAKES_YS.values(), ids=TAKES_YS)
def test_booleans_and_categories_are_no_measurements(call):
    invalid.check_refused("ys", NO_MEASUREMENTS, call)


def test_booleans_and_categories_are_no_measurement_of_a_step():
    values = {name: value[:1] for name, value in NO_MEASUREMENTS.items()} | {"True": True, "np.True_": np.True_}
    invalid.check_refused("y", values, online().step)


@pytest.mark.parametrize("call", TAKES_TIMES.values(), ids=TAKES_TIMES)
def test_booleans_and_times_far_away_are_no_times(call):
    values = invalid.without(NO_MEASUREMENTS, "frame of pandas", "frame of categories")
    invalid.check_refused("times", values | {"1e300": [0.0, 1.0, 2.0, 3.0, 1e300]}, call)


def test_frames_refuse_booleans_categories_and_times_far_away():
    for name, column in {"y": NO_MEASUREMENTS["bools"], "z": NO_MEASUREMENTS["categories"]}.items():
        with pytest.raises(ValueError, match=f"column '{name}', given as values"):
            wolf.filter_frame(FRAME.assign(**{name: column}), values=name)
    with pytest.raises(ValueError, match=r"times must be within ±9\.2e\+18; got 1e\+300 in row 5"):
        wolf.filter_frame(FRAME.assign(t=[0.0, 1.0, 2.0, 3.0, 1e300]), time="t", values="y", parameters=KNOWN)


def test_many_masked_series_keep_their_masks():
    out = wolf.filter_many(LEVEL, [np.ma.masked_equal(YS, 2.0), YS], method="KF")
    assert out.missing == 1


@pytest.mark.parametrize("key", [np.int64(0), np.uint32(0), jax.random.key(0), jax.random.PRNGKey(0)], ids=repr)
def test_seeds_and_keys_of_all_kinds_give_the_same_draws(key):
    drawn = wolf.simulate.trajectory(LEVEL, 5, key).measurements
    np.testing.assert_array_equal(drawn, wolf.simulate.trajectory(LEVEL, 5, 0).measurements)


def test_integers_of_numpy_are_accepted():
    assert len(wolf.forecast(OUT, np.int64(2)).means) == 2
    assert models.constant_velocity(np.int32(2), 1.0, 0.1, 1.0).obs_dim == 2
    assert online(horizon=np.int64(2)).horizon == 2


def test_arguments_of_a_partial_are_fixed_and_not_fitted():
    assert list(first_guesses(partial(models.local_level, obs_var=1.0), YS, {})) == ["level_var"]
    assert list(first_guesses(partial(models.local_level, obs_var=1.0), YS, {"obs_var": 2.0})) == [
        "level_var",
        "obs_var",
    ]
    with pytest.raises(ValueError, match="no parameters to fit"):
        first_guesses(partial(models.local_level, level_var=0.1, obs_var=1.0), YS, {})


def test_an_absent_column_of_a_frame_with_numeric_names_lists_the_columns():
    with pytest.raises(ValueError, match=r"no column 3, given as values\. Its columns are 0"):
        wolf.filter_frame(pandas.DataFrame(np.ones((5, 1))), values=3)


def test_a_missing_argument_is_a_type_error_of_python():
    for call in (wolf.filter, wolf.fit, wolf.tune, wolf.Online, wolf.simulate.trajectory, wolf.LinearModel):
        with pytest.raises(TypeError, match="missing"):
            call()
