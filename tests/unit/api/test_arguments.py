"""Arguments: every mistake is reported before the run: what was expected, what was given, what to do."""

import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import wolf

EYE = np.eye(2)
LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
LINEAR = {"F": EYE, "H": EYE, "Q": EYE, "R": EYE, "mean": np.zeros(2), "cov": EYE}
PRIOR = wolf.Gaussian(np.zeros(2), EYE)
YS = np.zeros((5, 2))


def sine(x):
    return jnp.sin(x)


def steered(x, u):
    return x + u


FUNCTIONS = {"dynamics": sine, "observe": sine, "dynamics_cov": EYE, "obs_cov": EYE, "prior": PRIOR}
NONLINEAR = wolf.StateSpaceModel(**FUNCTIONS)
DRIVEN = wolf.LinearModel(**LINEAR, B=np.ones((2, 1)))
VARYING = wolf.LinearModel(**(LINEAR | {"Q": np.stack([EYE] * 5)}))


def refused(message, error=ValueError):
    return pytest.raises(error, match=re.escape(message))


def test_everything_that_the_table_varies_is_accepted_as_it_is():
    for model, options in ((TRACK, {}), (NONLINEAR, {}), (DRIVEN, {"inputs": np.ones(5)}), (VARYING, {})):
        assert len(wolf.filter(model, YS, save="final", **options).log_liks) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"R": np.array([[1.0, 0.5], [0.0, 1.0]])}, "R must be symmetric; got"),
        ({"R": np.array([[1.0, 0.5], [0.0, 1.0]])}, "Use (R + R.T) / 2 if that is what you mean"),
        ({"R": -EYE}, "R must be positive definite; its smallest eigenvalue is -1"),
        ({"R": 0 * EYE}, "A sensor without noise has no weight to give: use a small positive variance"),
        ({"R": np.ones(2)}, "R must have shape (M, M) or (T, M, M); got (2,). Use np.diag for variances"),
        ({"R": 1.0}, "R must have shape (M, M) or (T, M, M); got (). Use np.diag for variances"),
        ({"R": np.ones((1, 2))}, "R must have shape (2, 2) or (T, 2, 2); got (1, 2)"),
        ({"R": np.full((2, 2), np.nan)}, "R must be finite; got NaN or inf in it"),
        ({"R": np.stack([EYE, -EYE])}, "R must be positive definite"),
        ({"Q": -EYE}, "Q must be positive semi-definite; its smallest eigenvalue is -1"),
        ({"Q": -EYE}, "Variances cannot be negative: check the sign and the off-diagonal entries"),
        ({"Q": np.ones(2)}, "Q must have shape (2, 2) or (T, 2, 2); got (2,). Use np.diag for variances"),
        ({"Q": 0.1}, "Q must have shape (2, 2) or (T, 2, 2); got (). Use value * np.eye(2)"),
        ({"cov": np.eye(3)}, "cov must have shape (2, 2) or (T, 2, 2); got (3, 3)"),
        ({"cov": [[1.0, 2.0], [2.0, 1.0]]}, "cov must be positive semi-definite"),
        ({"mean": np.zeros((2, 1))}, "the prior mean must have shape (D,); got (2, 1). One column? Use mean.ravel()"),
        ({"mean": [0.0, np.inf]}, "the prior mean must be finite; got NaN or inf in it"),
        ({"F": np.full((2, 2), np.nan)}, "F must be finite; got NaN or inf in it"),
        ({"F": np.eye(3)}, "F must have shape (2, 2) or (T, 2, 2); got (3, 3)"),
        ({"F": "identity"}, "F must be an array of numbers; got str"),
        ({"H": np.ones((2, 1)), "R": np.eye(1)}, "got (2, 1). Did you mean its transpose?"),
        ({"H": np.ones((3, 2))}, "H must have shape (2, 2) or (T, 2, 2); got (3, 2)"),
        ({"B": np.ones((3, 1))}, "B must have shape (2, 1) or (T, 2, 1); got (3, 1)"),
        ({"H": None, "R": np.eye(1)}, "H"),
        ({"Q": None}, "Q"),
        ({"R": None}, "R"),
        ({"mean": None}, "mean"),
    ],
)
def test_wrong_matrix_is_named(change, message):
    with refused(message):
        wolf.LinearModel(**(LINEAR | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": np.zeros(2)}, "prior must be wolf.Gaussian(mean, cov); got ndarray"),
        ({"prior": wolf.Gaussian(np.zeros(2), np.eye(3))}, "prior.cov must have shape (2, 2)"),
        ({"dynamics": EYE}, "dynamics must be a function of the state; got ndarray"),
        ({"observe": EYE}, "observe must be a function of the state; got ndarray"),
        ({"residual": 3.0}, "residual must be a function of the state; got float"),
        ({"observe": None}, "observe must be a function h(x) or h(x, u); got None"),
        ({"obs_cov": -EYE}, "obs_cov must be positive definite"),
        ({"dynamics_cov": np.eye(3)}, "dynamics_cov must have shape (2, 2) or (T, 2, 2); got (3, 3)"),
    ],
)
def test_wrong_part_of_a_model_with_functions_is_named(change, message):
    with refused(message):
        wolf.StateSpaceModel(**(FUNCTIONS | change))


@pytest.mark.parametrize(
    ("model", "ys", "options", "message"),
    [
        (TRACK, np.zeros(5), {}, "ys must have shape (T, 2) to match the model's obs_cov; got (5,)."),
        (TRACK, np.zeros((5, 1)), {}, "ys must have shape (T, 2) to match the model's obs_cov; got (5, 1)."),
        (TRACK, np.zeros((2, 5)), {}, "got (2, 5). Did you mean ys.T?"),
        (TRACK, 3.0, {}, "ys must have shape (T, 2) to match the model's obs_cov; got ()."),
        (LEVEL, np.zeros((5, 2)), {}, "ys must have shape (T, 1) or (T,) to match the model's obs_cov; got (5, 2)."),
        (LEVEL, np.zeros((1, 5)), {}, "got (1, 5). Did you mean ys.T?"),
        (LEVEL, [], {}, "ys must hold at least one time step; got none"),
        (TRACK, np.zeros((0, 2)), {}, "ys must hold at least one time step; got none"),
        (LEVEL, ["a", "b"], {}, "ys must be an array of numbers; got list"),
        (LEVEL, "text", {}, "ys must be an array of numbers; got str"),
        (LEVEL, [[1.0], [1.0, 2.0]], {}, "ys must be an array of numbers; got list"),
        (LEVEL, None, {}, "ys must"),
        (LEVEL, np.array(["2024-01-01", "2024-01-02"], "datetime64[D]"), {}, "ys must be an array of numbers"),
        (LEVEL, np.array([1.0 + 2.0j, 3.0]), {}, "ys must be an array of numbers"),
        (EYE, YS, {}, "model must be a wolf.LinearModel or wolf.StateSpaceModel; got ndarray"),
        (TRACK, YS, {"method": "Kf"}, "no method is called 'Kf'. Did you mean 'KF'? There are: KF, EKF"),
        (TRACK, YS, {"method": "WoLF-IQM"}, "Did you mean 'WoLF-IMQ'?"),
        (TRACK, YS, {"method": "zzzz"}, "no method is called 'zzzz'. There are: KF"),
        (TRACK, YS, {"method": wolf.IMQ}, "method must be a name or a value such as wolf.WoLF(wolf.IMQ(c=4.0)); got"),
        (TRACK, YS, {"method": wolf.GaussianFilter}, "method must be a name or a value such as"),
        (TRACK, YS, {"method": wolf.IMQ(c=4.0)}, "method must be a name or a value such as"),
        (NONLINEAR, YS, {"method": "KF"}, 'KF needs a linear model; for functions use method="EKF", or leave it out'),
        (TRACK, YS, {"dtype": "float16"}, 'dtype must be "float64" or "float32"; got \'float16\''),
        (TRACK, YS, {"dtype": float}, 'dtype must be "float64" or "float32"; got'),
        (
            TRACK,
            YS,
            {"save": "everything"},
            "save must be one of 'all', 'means', 'final' or a function; got 'everything'",
        ),
        (TRACK, YS, {"save": ["means"]}, "save must be one of"),
        (TRACK, YS, {"inputs": np.ones((5, 1))}, "inputs were given, but the model takes none: its functions are f(x)"),
        (DRIVEN, YS, {}, "the model takes inputs (f(x, u), h(x, u) or B); pass inputs= with shape (T, U)"),
        (DRIVEN, YS, {"inputs": np.ones((4, 1))}, "inputs must have one row for each of the 5 steps; got shape (4, 1)"),
        (DRIVEN, YS, {"inputs": 1.0}, "inputs must have one row for each of the 5 steps; got shape ()"),
        (
            DRIVEN,
            YS,
            {"inputs": np.full(5, np.nan)},
            "inputs must be finite; missing inputs are not supported: fill them in",
        ),
        (DRIVEN, YS, {"inputs": ["a"] * 5}, "inputs must be an array of numbers; got list"),
        (DRIVEN, YS, {"inputs": np.ones((5, 3))}, "inputs"),
        (VARYING, np.zeros((6, 2)), {}, "Q has 5 time steps, but filter up to step 6 needs 6"),
        (VARYING, np.zeros((7, 2)), {"update_first": True}, "Q has 5 time steps, but filter up to step 7 needs 6"),
    ],
)
def test_wrong_call_of_filter_is_explained(model, ys, options, message):
    with refused(message):
        wolf.filter(model, ys, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observe": lambda x: x[:1]}, "observe must return an array of shape (2,), to match its covariance; got (1,)"),
        ({"observe": np.sin}, "observe must be written for JAX"),
        ({"dynamics": lambda x: x if x[0] > 0 else -x}, "jnp.where instead of if"),
        ({"observe": lambda x: x[0]}, "observe must return an array of shape (2,), to match its covariance; got ()"),
        ({"dynamics": lambda x: x[None]}, "dynamics must return an array of shape (2,), to match its covariance"),
        ({"dynamics": lambda x, u: x[:1] + u}, "dynamics must return an array of shape (2,), to match its covariance"),
        ({"residual": lambda y, p: y[:1] - p[:1]}, "residual must return an array of shape (2,)"),
    ],
    ids=["observe", "NumPy", "an if", "observe a number", "dynamics", "dynamics with inputs", "residual"],
)
def test_function_that_is_wrong_or_returns_a_wrong_shape_is_named(change, message):
    model = wolf.StateSpaceModel(**(FUNCTIONS | change))
    with refused(message):
        wolf.filter(model, YS, inputs=np.ones((5, 1)) if model.takes_inputs else None)


@pytest.mark.parametrize(
    ("model", "ys", "options", "message"),
    [
        (TRACK, YS, {}, "ys must have shape (series, T, 2) to match the model's obs_cov; got (5, 2)."),
        (LEVEL, np.zeros(5), {}, "ys must have shape (series, T, 1) or (series, T,) to match"),
        (TRACK, np.zeros((3, 0, 2)), {}, "ys must hold at least one time step; got none"),
        (TRACK, [], {}, "ys must hold at least one series; got none"),
        ([TRACK] * 3, np.zeros((2, 5, 2)), {}, "give one model for all series or one for each: got 3 models, 2 series"),
        ([TRACK, LEVEL], np.zeros((2, 5, 2)), {}, "the models must have equal shapes and share their functions"),
        ([], np.zeros((2, 5, 2)), {}, "model must be"),
        (DRIVEN, np.zeros((2, 5, 2)), {"inputs": np.ones((4, 1))}, "inputs must have one row for each of the 5 steps"),
        (DRIVEN, np.zeros((2, 5, 2)), {"inputs": np.ones((3, 5, 1))}, "inputs"),
    ],
)
def test_wrong_call_of_filter_many_is_explained(model, ys, options, message):
    with refused(message):
        wolf.filter_many(model, ys, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wolf.IMQ(c=0.0), "c must be positive; got 0.0"),
        (lambda: wolf.IMQ(c=np.nan), "c must be positive; got nan"),
        (lambda: wolf.IMQ(c="big"), "c must be an array of numbers; got str"),
        (lambda: wolf.Huber(c=-1), "c must be positive; got -1"),
        (lambda: wolf.Welsch(metric="P"), 'metric must be "R" (noise) or "S" (innovation); got \'P\''),
        (lambda: wolf.StudentWeight(metric="s"), 'metric must be "R" (noise) or "S" (innovation); got \'s\''),
        (lambda: wolf.StudentWeight(dof=0), "dof must be positive; got 0"),
        (lambda: wolf.WoLF(wolf.IMQ), "weight must be a weight such as wolf.IMQ(c=4.0); got"),
        (lambda: wolf.WoLF(4.0), "weight must be a weight such as wolf.IMQ(c=4.0); got 4.0"),
        (lambda: wolf.KF(form="cholesky"), "form must be one of 'auto', 'joseph', 'symmetric', 'sqrt'; got 'cholesky'"),
        (lambda: wolf.IEKF(iterations=0), "iterations must be a whole number of at least 1; got 0"),
        (lambda: wolf.IEKF(iterations=2.0), "iterations must be a whole number of at least 1; got 2.0"),
        (lambda: wolf.methods.make("WoLF-IMQ", d=4), "WoLF-IMQ does not take these options: d"),
        (lambda: wolf.methods.make("KF", c=4), "KF does not take these options: c"),
        (lambda: wolf.PerGroup(wolf.IMQ(), ("a", "b")), "groups"),
        (lambda: wolf.PerCoordinate(4.0), "weight must be"),
        (lambda: wolf.PerCoordinate(wolf.IMQ), "weight must be"),
        (lambda: wolf.simulate.StudentT(dof=-1), "dof must be positive; got -1"),
        (lambda: wolf.simulate.Mixture(prob=1.5), "prob must be between 0 and 1; got 1.5"),
        (lambda: wolf.simulate.Stuck(prob=0.1, length=0), "length must be a whole number of at least 1; got 0"),
        (lambda: wolf.simulate.trajectory(LEVEL, 0, key=0), "steps must be a whole number of at least 1; got 0"),
        (lambda: wolf.simulate.trajectory(LEVEL, 1.5, key=0), "steps must be a whole number of at least 1; got 1.5"),
        (lambda: wolf.simulate.trajectory(LEVEL, 5, 0, outliers=0.05), "outliers must be a process such as"),
        (lambda: wolf.simulate.trajectory(LEVEL, 5, 0, wolf.simulate.StudentT), "outliers must be a process such as"),
        (lambda: wolf.simulate.trajectory(DRIVEN, 5, 0), "the model takes inputs"),
        (lambda: wolf.simulate.trajectory(LEVEL, 5, 0, initial="a"), "initial must be an array of numbers; got str"),
        (lambda: wolf.simulate.trajectory(TRACK, 5, 0, initial=[1.0]), "initial"),
    ],
)
def test_wrong_option_is_explained(make, message):
    with refused(message):
        make()


@pytest.fixture(scope="module")
def out():
    return wolf.filter(TRACK, YS)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda out: wolf.smooth(TRACK, out.means), "smooth takes what wolf.filter returned; got ndarray"),
        (lambda out: wolf.smooth(TRACK, out[1:]), "a slice lacks what came after it; smooth the whole result"),
        (lambda out: wolf.smooth(LEVEL, out), "model"),
        (lambda out: wolf.forecast(TRACK, out[1:], 3), "a slice does not end where its final state does"),
        (lambda out: wolf.forecast(TRACK, out, 0), "steps must be a whole number of at least 1; got 0"),
        (lambda out: wolf.forecast(TRACK, out, 2.5), "steps must be a whole number of at least 1; got 2.5"),
        (lambda out: wolf.forecast(TRACK, out, 3, level=95), "level must be a probability between 0 and 1; got 95"),
        (lambda out: wolf.forecast(TRACK, out, 3, inputs=np.ones(3)), "inputs were given, but the model takes none"),
        (lambda out: wolf.forecast(LEVEL, out, 3), "model"),
        (lambda out: wolf.forecast(TRACK, out.means, 3), "forecast takes what wolf.filter returned; got ndarray"),
    ],
)
def test_wrong_use_of_a_result_is_explained(act, message, out):
    with refused(message):
        act(out)


@pytest.mark.parametrize("save", ["means", "final", lambda state, info: state.mean], ids=["means", "final", "function"])
def test_smoothing_needs_everything(save):
    with refused('smoothing needs covariances: filter with save="all", not save='):
        wolf.smooth(TRACK, wolf.filter(TRACK, YS, save=save))


def test_forecast_beyond_the_time_axis_is_explained():
    with refused("Q has 5 time steps, but forecast up to step 7 needs 7"):
        wolf.forecast(VARYING, wolf.filter(VARYING, YS), 2)


def test_forecast_of_a_driven_model_needs_its_future_inputs():
    out = wolf.filter(DRIVEN, YS, inputs=np.ones(5))
    with refused("the model takes inputs"):
        wolf.forecast(DRIVEN, out, 2)
    with refused("inputs must have one row for each of the 2 steps; got shape (3,)"):
        wolf.forecast(DRIVEN, out, 2, inputs=np.ones(3))


@pytest.mark.parametrize(
    ("model", "y", "options", "message"),
    [
        (TRACK, [1.0], {}, "y must have shape (2,) to match the model's obs_cov; got (1,)"),
        (TRACK, 1.0, {}, "y must have shape (2,) to match the model's obs_cov; got ()"),
        (TRACK, "a", {}, "y must be an array of numbers; got str"),
        (DRIVEN, [1.0, 2.0], {}, "the model takes inputs: pass u= with shape (U,)"),
        (TRACK, [1.0, 2.0], {"u": 1.0}, "u was given, but the model takes no inputs"),
        (DRIVEN, [1.0, 2.0], {"u": np.nan}, "u must be finite; missing inputs are not supported: fill them in"),
        (TRACK, [1.0, 2.0], {"R": -EYE}, "R must be positive definite"),
        (TRACK, [1.0], {"R": np.eye(1)}, "H must have shape (1, 4)"),
        (NONLINEAR, [1.0, 2.0], {"H": EYE}, "a model with functions takes R and Q for one step; F and H are functions"),
    ],
)
def test_wrong_online_step_is_explained_and_changes_nothing(model, y, options, message):
    online = wolf.Online(model)
    before = online.mean, online.cov, online.t
    with refused(message):
        online.step(y, **options)
    np.testing.assert_equal((online.mean, online.cov, online.t), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "Kf"}, "Did you mean 'KF'?"),
        ({"dtype": "double"}, 'dtype must be "float64" or "float32"'),
        ({"method": wolf.IMQ}, "method must be a name or a value"),
    ],
)
def test_wrong_online_filter_is_explained(options, message):
    with refused(message):
        wolf.Online(TRACK, **options)


def test_function_created_for_each_call_gets_a_warning():
    def run(shift):
        model = wolf.StateSpaceModel(None, lambda x: x + shift, np.eye(1), np.eye(1), wolf.Gaussian([0.0], [[1.0]]))
        return wolf.filter(model, [1.0, 2.0], save="final")

    kept = [run(float(i)) for i in range(4)]
    with pytest.warns(UserWarning, match=r"<lambda> was given as 5 objects.*jax.tree_util.Partial"):
        kept.append(run(4.0))
    kept.append(run(5.0))  # once is enough


def test_partial_with_changing_values_gets_no_warning():
    import jax

    for shift in range(7):
        observe = jax.tree_util.Partial(steered, u=jnp.float32(shift))
        model = wolf.StateSpaceModel(None, observe, np.eye(1), np.eye(1), wolf.Gaussian([0.0], [[1.0]]))
        final = wolf.filter(model, [1.0, 2.0], method="EKF", save="final").final
        assert final.mean[0] < 2


def test_huge_output_gets_a_warning_before_the_run():
    ys = np.broadcast_to(0.0, (10**8, 1))  # takes no memory; the results would
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused('the results will take about 9 GB; save="means" keeps 3.2 GB', UserWarning):
            wolf.filter(LEVEL, ys)
