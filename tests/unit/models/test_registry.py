"""Models by name: one name is one model, in Python, on the command line and in files, on even and on uneven times."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import wolf
from wolf.models import components, discretise, discretization, grammar, registry

GAPS = np.array([0.3, 1.0, 2.5, 40.0])
SHEAR = np.array([[0.0, 1.0], [0.0, 0.0]])
PLANE = wolf.Gaussian(np.zeros(4), np.eye(4))
EXTRA = {  # what a function in Python asks for and a text does not say: one step, two coordinates
    "constant-velocity": {"dims": 2, "dt": 1.0},
    "wiener-velocity": {"dims": 2, "times": [1.0], "start": 0.0, "prior": PLANE},
}
TEXTS = [
    *(word.example for word in grammar.WORDS.values()),
    *("seasonal:24:3", "seasonal:24:12", "cycle:11.5:0.9", "trend+seasonal:4+seasonal:7:2"),
]


def values_of(names):
    return {name: 0.1 * (k + 1) for k, name in enumerate(names)}


def columns_of(text):
    return registry.parse(text).columns or 2


def same(one, other, exact=True):
    compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    for name in ("F", "H", "Q", "R", "mean", "cov"):
        compare(getattr(one, name), getattr(other, name), err_msg=name, **({} if exact else {"rtol": 1e-13}))


@pytest.mark.parametrize("word", grammar.MODELS, ids=lambda word: word.name)
def test_a_model_by_name_is_the_function_of_that_name(word):
    function = getattr(wolf.models, word.name.replace("-", "_"))
    given = values_of(word.parameters)
    assert set(given) <= set(inspect.signature(function).parameters)
    model = function(**given, **EXTRA.get(word.name, {}))
    text = wolf.models.make(word.example, dims=model.obs_dim, **given)
    if model.F.ndim == 3:  # given times, of which there is one
        assert (len(model.F), len(model.Q)) == (1, 1)
        model = wolf.LinearModel(model.F[0], model.H, model.Q[0], model.R, model.mean, model.cov)
    same(text, model, exact=word.name != "wiener-velocity")  # whose matrix exponentials are rounded


@pytest.mark.parametrize(
    "text", [*(word.example for word in grammar.PARTS), "seasonal:24:3", "seasonal:24:12", "cycle:11.5:0.9"]
)
def test_a_part_by_name_is_the_function_of_that_name(text):
    name, *numbers = text.split(":")
    function, word = getattr(wolf.models, name.replace("-", "_")), grammar.WORDS[name]
    given = values_of(word.parameters)
    arguments = dict(zip(word.arguments, map(grammar._number, numbers), strict=False))
    own = [given[each] for each in word.part.variances]
    free = [each for each in inspect.signature(function).parameters if each not in word.arguments]
    part = function(**arguments, **dict(zip(free, own, strict=True)))
    first = [] if "level" in part.roles else [wolf.models.level(given["level_var"])]
    same(wolf.models.make(text, **given), wolf.models.structural(*first, part, obs_var=given["obs_var"]))


@pytest.mark.parametrize("text", TEXTS)
def test_uneven_times_with_equal_gaps_are_the_even_model(text):
    found = registry.parse(text)
    given, columns = values_of(found.parameters), columns_of(text)
    even = found.model(None, None, columns, **given)
    for model in (
        found.model(np.ones(3), None, columns, **given),
        wolf.models.make(text, dims=columns, times=[5.0, 6.0, 7.0], start=4.0, **given),
    ):
        for name in ("F", "Q"):
            array = getattr(model, name)
            np.testing.assert_array_equal(array, np.broadcast_to(getattr(even, name), array.shape))


@pytest.mark.parametrize("text", TEXTS)
def test_a_gap_of_some_steps_is_that_many_steps(text):
    if text == "wiener-velocity":  # whose step is a gap of its own
        pytest.skip("tested against the stochastic differential equation")
    found = registry.parse(text)
    given, columns = values_of(found.parameters), columns_of(text)
    even = found.model(None, None, columns, **given)
    far = found.model(np.array([0.0, 5.0]), None, columns, **given)
    moved, added = np.eye(even.state_dim), np.zeros((even.state_dim, even.state_dim))
    for count in range(6):
        if count in (0, 5):
            here = far.at(count // 5)
            np.testing.assert_allclose(here.F, moved, atol=1e-12)
            np.testing.assert_allclose(here.Q, added, atol=1e-12)
        moved, added = even.F @ moved, even.F @ added @ even.F.T + even.Q


def test_rows_left_out_are_rows_without_a_value(rng):
    ticks = np.array([1, 2, 3, 5, 6, 7, 8, 12, 13, 14, 15, 16, 17, 18, 19, 20])
    ys = np.full(20, np.nan)
    ys[ticks - 1] = rng.normal(size=len(ticks))
    model = [wolf.models.trend(0.1, 0.05), wolf.models.seasonal(4, 0.1), wolf.models.ar([0.5, 0.2], 0.3)]
    blank = wolf.filter(wolf.models.structural(*model, obs_var=1.0), ys)
    timed = wolf.filter(wolf.models.structural(*model, obs_var=1.0, times=ticks, start=0.0), ys[ticks - 1])
    np.testing.assert_allclose(timed.means, blank.means[ticks - 1], atol=1e-8)
    np.testing.assert_allclose(timed.weights, blank.weights[ticks - 1], atol=1e-8)


def obeys(part, parameters, drift, diffusion):
    dynamics, noise = discretise(drift, diffusion, GAPS)
    total = sum(value * part.noise[name](GAPS) for name, value in parameters.items())
    np.testing.assert_allclose(np.broadcast_to(part.dynamics(GAPS), dynamics.shape), dynamics, atol=1e-10)
    np.testing.assert_allclose(total, noise, rtol=1e-9, atol=1e-10)


def test_levels_and_velocities_obey_their_differential_equations_over_any_gap():
    obeys(components.level(), {"level_var": 0.3}, np.zeros((1, 1)), 0.3 * np.eye(1))
    obeys(components.wiener_motion(), {"accel_rate": 0.7}, SHEAR, np.diag([0.0, 0.7]))
    # A random walk of position and velocity, seen between its steps: its noise is correlated.
    obeys(components.straight_motion(), {"dynamics_var": 0.7}, SHEAR, 0.7 * np.array([[7 / 6, -1 / 2], [-1 / 2, 1.0]]))


def test_waves_turn_and_fade_with_time():
    angle, turn = 2 * np.pi / 24, np.array([[0.0, 1.0], [-1.0, 0.0]])
    drift = np.kron(np.diag([1.0, 2.0]), angle * turn)
    obeys(components.seasonal(24, harmonics=2), {"seasonal_var": 0.2}, drift, 0.2 * np.eye(4))
    rate = -np.log(0.9)
    stationary = 0.2 / (1 - 0.9**2)
    damped = components.cycle(24, damping=0.9)
    obeys(damped, {"cycle_var": 0.2}, angle * turn - rate * np.eye(2), 2 * rate * stationary * np.eye(2))


def test_a_slope_has_a_covariance_over_every_gap_even_if_its_level_has_no_noise():
    noise = discretization.random_walk_noise(0.0, 1.0)(np.linspace(0.0, 3.0, 61))
    assert np.linalg.eigvalsh(noise).min() > -1e-12
    beside = np.diff(noise, axis=0)  # and it does not jump between gaps
    assert np.abs(beside).max() < 0.4


@pytest.mark.parametrize(
    ("text", "advice"),
    [("seasonal:24", "seasonal:24:3"), ("seasonal:4", "seasonal:4:1"), ("seasonal:24:12", "at most 11")],
)
def test_what_moves_in_whole_steps_says_so(text, advice):
    found = registry.parse(text)
    found.check_gaps(np.array([1.0, 2.0004, 300.1]))
    with pytest.raises(ValueError, match=rf"row 2 is 2.5 steps after .*{advice}"):
        found.check_gaps(np.array([1.0, 2.5]))


def test_a_full_pattern_of_many_steps_at_many_uneven_times_is_refused_in_words():
    with pytest.raises(ValueError, match="288 states, too many for 16,384 uneven times"):
        registry.parse("seasonal:288").builder(np.full(16_384, 2.0), None)


def test_two_seasons_have_variances_of_their_own():
    found = registry.parse("seasonal:24:2+seasonal:168:2")
    assert found.parameters == ["level_var", "seasonal_var", "seasonal_var_2", "obs_var"]
    model = found.model(level_var=0.0, seasonal_var=1.0, seasonal_var_2=2.0, obs_var=1.0)
    np.testing.assert_array_equal(np.diag(model.Q), [0, 1, 1, 1, 1, 2, 2, 2, 2])


def test_a_track_has_positions_first():
    model = wolf.models.make("wiener-velocity", dims=2, accel_rate=0.1, obs_var=3.0)
    np.testing.assert_array_equal(model.H, np.eye(2, 4))
    np.testing.assert_array_equal(model.F, [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_one_outlier_at_the_start_does_not_move_the_prior():
    values = np.full((20, 1), 5.0) + 0.1 * np.sin(np.arange(20.0))[:, None]
    values[0] = 1e6
    prior = registry.parse("local-level").start(values, 0.01)
    assert abs(prior.mean[0] - 5.0) < 0.2
    assert prior.cov[0, 0] < 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seasonal", "written seasonal:PERIOD"),
        ("seasonal:x", "written seasonal:PERIOD"),
        ("seasonal:1", "at least 2"),
        ("seasonal:24.5", "whole number of steps"),
        ("seasonal:24:13", "between 1 and 12"),
        ("local-level:3", "written local-level, as"),
        ("local-levl", "Did you mean 'local-level'"),
        ("sesonal:24", "Did you mean 'seasonal'"),
        ("local-level+seasonal:24", "complete model"),
        ("trend+", "no model is called ''"),
        ("ar", "FILE.toml"),
    ],
)
def test_mistakes_in_a_name_raise(text, words):
    with pytest.raises(ValueError, match=words):
        registry.parse(text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"obs_var": 1.0}, "needs level_var="),
        ({"obs_var": 1.0, "level_var": 0.1, "q": 1.0}, "no parameter q; it has level_var, obs_var"),
        ({"obs_var": 1.0, "level_var": 0.1, "dims": 2}, "such as wiener-velocity"),
    ],
)
def test_mistakes_in_what_is_given_raise(given, words):
    with pytest.raises(ValueError, match=words):
        wolf.models.make("local-level", **given)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('model = "local-trend"\nslope_var = 1e-4', "local-trend"),
        ('[[parts]]\nkind = "trend"\nlevel_var = "fit"\nslope_var = 1e-4', "trend"),
        (
            '[[parts]]\nkind = "trend"\nslope_var = 1e-4\n[[parts]]\nkind = "seasonal"\nperiod = 24',
            "trend+seasonal:24",
        ),
        (
            'model = "trend+seasonal:24:3"\nslope_var = 1e-4\nobs_var = "fit"',
            "trend+seasonal:24:3",
        ),
        (
            '[[parts]]\nkind="trend"\nslope_var=1e-4\n[[parts]]\nkind="seasonal"\nperiod=24\nharmonics=3',
            "trend+seasonal:24:3",
        ),
    ],
)
def test_a_file_means_what_the_name_means(text, name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    found = registry.parse(str(path))
    assert found.given == {"slope_var": 1e-4}
    assert found.parameters == registry.parse(name).parameters
    given = values_of(found.parameters)
    same(wolf.models.make(str(path), **given), wolf.models.make(name, **given))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[parts]]\nkind = "level"\nslope_var = 1', "has no slope_var; it has kind, level_var"),
        (
            '[[parts]]\nkind = "levl"',
            "the kind of a part must be one of level, trend, damped-trend, ar-noise, seasonal, cycle; got 'levl'",
        ),
        ('[[parts]]\nkind = "seasonal"', "needs period"),
        ('[[parts]]\nkind = "seasonal"\nperiod = 1', "at least 2"),
        ('[[parts]]\nkind = "level"\nlevel_var = -1', "mine.toml: level_var is a variance"),
        ('model = "local-level"\nslope_var = 1', "has no slope_var"),
        ("obs_var = 1", "neither a model, nor"),
        ("F = [[1.0]]", "lacks H, Q, R, mean, cov"),
    ],
)
def test_mistakes_in_a_file_raise(text, words, tmp_path):
    path = Path(tmp_path / "mine.toml")
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        registry.parse(str(path))


def test_a_free_variance_is_asked_for():
    with pytest.raises(ValueError, match="needs level_var="):
        wolf.models.structural(wolf.models.level(), obs_var=1.0)
    with pytest.raises(ValueError, match="level_var of level is free"):
        wolf.models.level().Q
    assert repr(wolf.models.trend(0.1)) == "Part(trend, level_var=0.1, slope_var=free)"
