"""Networks as models: against a dense NumPy filter, Bayesian regression in closed form, and itself in other forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.beliefs import lazy_gaussian
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import cast
from wolf.statespace import families

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

STEPS = 60
FORMS = ("auto", "symmetric", "joseph", "sqrt")


def keep(state, info):
    return {"residuals": info.residual, "weights": info.weight}


def final(model, ys, xs, **options):
    return wolf.filter(model, ys, inputs=xs, save=keep, **options)


@pytest.fixture
def examples(rng):
    xs = rng.normal(size=(STEPS, 3))
    ys = np.sin(xs[:, :1]) + 0.1 * rng.normal(size=(STEPS, 1))
    ys[[7, 20, 41], 0] = 50.0, -50.0, 30.0
    ys[12] = np.nan
    return xs, ys


def relu_net(theta, x, sizes):
    """Evaluate a network and its Jacobian by hand: h, dh/dθ for one output."""
    layers, start = [], 0
    for wide, high in itertools.pairwise(sizes):
        weights = theta[start : start + wide * high].reshape(wide, high)
        start += wide * high
        layers.append((weights, theta[start : start + high]))
        start += high
    values = [x]
    for i, (weights, offsets) in enumerate(layers):
        z = values[-1] @ weights + offsets
        values.append(np.maximum(z, 0.0) if i < len(layers) - 1 else z)
    back, grads = np.ones(1), []
    for i in reversed(range(len(layers))):
        grads = [np.outer(values[i], back).ravel(), back, *grads]
        back = layers[i][0] @ back
        if i:
            back = back * (values[i] > 0)
    return values[-1], np.concatenate(grads)[None]


def dense_ekf(model, xs, ys, sizes, drift, weight):
    """Write the extended Kalman filter out in full matrices, R divided by w² as in the paper."""
    mean, cov = model.mean.copy(), model.cov * np.eye(model.state_dim)
    noise, eye = model.obs_cov, np.eye(model.state_dim)
    for x, y in zip(xs, ys, strict=True):
        cov = cov + drift * eye
        if np.isnan(y).any():
            continue
        value, jac = relu_net(mean, x, sizes)
        error = y - value
        scaled = noise / weight(error[0]) ** 2
        gain = cov @ jac.T @ np.linalg.inv(jac @ cov @ jac.T + scaled)
        left = eye - gain @ jac
        mean, cov = mean + gain @ error, left @ cov @ left.T + gain @ scaled @ gain.T
    return mean, cov


@pytest.mark.parametrize("drift", [0.0, 1e-3])
@pytest.mark.parametrize("hidden", [(4,), (6, 5), (32,)], ids=["21", "66", "161"])
def test_network_filter_equals_a_dense_numpy_ekf(hidden, drift, examples):
    xs, ys = examples
    model = wolf.models.mlp(3, hidden, obs_var=0.2, prior_var=0.5, drift_var=drift, key=1)
    out = final(model, ys, xs, method=wolf.WoLF(wolf.IMQ(c=2.0)))
    mean, cov = dense_ekf(model, xs, ys, (3, *hidden, 1), drift, lambda e: 2.0 / np.sqrt(4.0 + e**2))
    np.testing.assert_allclose(out.final.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(out.final.cov, cov, rtol=0, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("drift", ["none", pytest.param("each", marks=pytest.mark.slow)])
def test_forms_agree(drift, examples, rng):
    xs, ys = examples
    drift = rng.uniform(0, 1e-3, 161) if drift == "each" else 0.0
    model = wolf.models.mlp(3, (32,), obs_var=0.2, drift_var=drift)
    results = [final(model, ys, xs, method=wolf.WoLF(wolf.IMQ(c=2.0), form=form)).final for form in FORMS]
    for other in results[1:]:
        np.testing.assert_allclose(other.mean, results[0].mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(other.cov, results[0].cov, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", ["auto", "sqrt"])
def test_several_outputs_and_partly_missing_rows(form, examples, rng):
    xs, ys = examples
    ys = np.hstack([ys, np.cos(xs[:, :2])])
    ys[rng.random(ys.shape) < 0.2] = np.nan
    model = wolf.models.mlp(3, (30,), outputs=3, obs_var=(0.1, 0.2, 0.3))
    weight = wolf.PerCoordinate(wolf.MahalanobisIMQ(c=2.0))
    fast, plain = (final(model, ys, xs, method=wolf.WoLF(weight, form=name)) for name in (form, "joseph"))
    np.testing.assert_allclose(fast.final.mean, plain.final.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast.final.cov, plain.final.cov, rtol=0, atol=1e-9)


def test_linear_network_is_bayesian_regression_in_closed_form(rng):
    xs, slopes = rng.normal(size=(40, 5)), rng.normal(size=6)
    design = np.hstack([xs, np.ones((40, 1))])
    ys = design @ slopes + 0.3 * rng.normal(size=40)
    model = wolf.models.mlp(5, hidden=(), obs_var=0.09, prior_var=4.0, params=np.zeros(6))
    out = final(model, ys, xs, method="EKF")
    precision = design.T @ design / 0.09 + np.eye(6) / 4.0
    np.testing.assert_allclose(out.final.mean, np.linalg.solve(precision, design.T @ ys / 0.09), atol=1e-11)
    np.testing.assert_allclose(out.final.cov, np.linalg.inv(precision), atol=1e-12)


@pytest.mark.thorough
@pytest.mark.bits
def test_nothing_usable_leaves_a_large_belief_bit_for_bit(examples):
    xs, ys = examples
    model = cast(wolf.models.mlp(3, (32,), obs_var=0.2), "float32")
    xs, ys = xs.astype("float32"), ys.astype("float32")
    method = wolf.WoLF()
    advance, predict = jax.jit(wolf.step), jax.jit(method.predict)
    state = wolf.init(model, method)
    for row in range(3):
        state, _ = advance(model, method, state, ys[row], xs[row])
    for y in (np.nan, np.inf):
        predicted = predict(model, state, xs[0])
        after, info = advance(model, method, state, jnp.full(1, y, jnp.float32), xs[0])
        np.testing.assert_array_equal(after.mean, predicted.mean)
        np.testing.assert_array_equal(after.cov, predicted.cov)
        assert float(info.weight) == 0.0


def test_large_covariance_stays_exactly_symmetric(examples):
    xs, ys = (np.tile(part, (5, 1)).astype("float32") for part in examples)
    model = wolf.models.mlp(3, (32,), obs_var=0.2, drift_var=1e-4)
    for form in ("auto", "symmetric"):
        cov = final(model, ys, xs, method=wolf.WoLF(form=form), dtype="float32").final.cov
        np.testing.assert_array_equal(cov, cov.T)


def test_chunks_and_the_other_order_of_steps_agree_with_forms_that_do_not_wait(examples):
    xs, ys = examples
    model = wolf.models.mlp(3, (32,), obs_var=0.2, drift_var=1e-4)
    whole = final(model, ys, xs).final
    *_, last = wolf.filter_chunks(model, [(ys[:37], xs[:37]), (ys[37:], xs[37:])], save=keep)
    np.testing.assert_allclose(last.final.mean, whole.mean, atol=1e-12)
    first, plain = (final(model, ys, xs, method=wolf.WoLF(form=form), update_first=True) for form in FORMS[:2])
    np.testing.assert_allclose(first.final.mean, plain.final.mean, atol=1e-9)
    np.testing.assert_allclose(first.final.cov, plain.final.cov, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_doubt_and_inflation_wait_as_well(outputs, examples):
    xs, ys = examples
    ys = np.repeat(ys, outputs, axis=1)
    ys[45:] += 40.0  # for good: the jump test succeeds, the covariance is inflated
    model = wolf.models.mlp(3, (32,), outputs=outputs, obs_var=0.2, drift_var=1e-4)

    def save(state, info):
        return {"inflations": info.inflation}

    waiting, plain = (
        wolf.filter(model, ys, inputs=xs, method=wolf.Learned(form=form), save=save) for form in FORMS[:2]
    )
    assert plain.saved["inflations"].max() > 1.0
    np.testing.assert_allclose(waiting.saved["inflations"], plain.saved["inflations"], rtol=1e-9)
    np.testing.assert_allclose(waiting.final.mean, plain.final.mean, atol=1e-9)
    np.testing.assert_allclose(waiting.final.cov, plain.final.cov, atol=1e-9)


def test_large_models_wait_and_small_ones_do_not():
    small, large = (wolf.models.mlp(4, (size,)) for size in (5, 40))
    assert isinstance(wolf.init(large, wolf.EKF()).belief, wolf.beliefs.LazyGaussian)
    assert not isinstance(wolf.init(small, wolf.EKF()).belief, wolf.beliefs.LazyGaussian)
    assert not isinstance(wolf.init(large, wolf.EKF(form="symmetric")).belief, wolf.beliefs.LazyGaussian)
    assert lazy_gaussian.is_faster(large.state_dim, 1)


@pytest.mark.parametrize("method", ["EKF", "WoLF", "WoLF-IMQ", "WoLF-TMD", "WoLF-Huber", "WoLF-IEKF", "WoLF-CKF"])
def test_every_kind_of_filter_trains_a_network(method, examples):
    xs, ys = examples
    model = wolf.models.mlp(3, (5,), activation="tanh", obs_var=0.05)
    out = final(model, ys, xs, method=method)
    assert np.isfinite(out.final.mean).all()
    assert np.linalg.eigvalsh(out.final.cov).min() > 0
    if method in ("EKF", "WoLF-CKF"):
        rooted = final(model, ys, xs, method=wolf.methods.make(method, form="sqrt"))
        np.testing.assert_allclose(out.final.cov, rooted.final.cov, atol=1e-8)


@pytest.mark.slow
def test_robust_filter_learns_through_outliers_and_the_plain_one_does_not(rng):
    xs = rng.uniform(-2, 2, (600, 1))
    ys = np.sin(2 * xs) + 0.1 * rng.normal(size=xs.shape)
    ys[rng.random(600) < 0.1] += 50.0
    model = wolf.models.mlp(1, (20,), activation="tanh", obs_var=0.1, prior_var=0.5)
    grid = np.linspace(-2, 2, 50)[:, None]
    errors = {}
    for method in ("EKF", "WoLF"):
        theta = final(model, ys, xs, method=method).final.mean
        with enable_x64(True):
            fitted = jax.vmap(model.observe, in_axes=(None, 0))(theta, grid)
        errors[method] = np.sqrt(np.mean((np.asarray(fitted) - np.sin(2 * grid)) ** 2))
    assert errors["WoLF"] < 0.2 < 1.0 < errors["EKF"]


def test_any_function_of_a_tree_of_parameters_is_a_model(rng):
    times = np.linspace(0, 6, 200)
    ys = 2.0 * np.sin(1.3 * times + 0.4) + 0.05 * rng.normal(size=200)

    def wave(params, x):
        return params["height"] * jnp.sin(params["rate"] * x[0] + params["phase"])

    start = {"height": 1.5, "rate": 1.2, "phase": np.array(0.2)}
    model = wolf.models.from_function(wave, start, obs_var=0.05**2, prior_var=0.1)
    out = final(model, ys, times)
    order = sorted(start)  # JAX sorts the keys of a dict
    np.testing.assert_allclose(dict(zip(order, out.final.mean, strict=True))["rate"], 1.3, atol=0.02)


def test_module_like_trees_keep_what_is_no_parameter():
    class Layer:
        def __init__(self, matrix, activation):
            self.matrix, self.activation = matrix, activation

        def __call__(self, x):
            return self.activation(self.matrix @ x)

    jax.tree_util.register_pytree_node(
        Layer, lambda layer: ((layer.matrix, layer.activation), None), lambda _, leaves: Layer(*leaves)
    )
    layer = Layer(np.ones((2, 3)), jnp.tanh)
    model = wolf.models.from_function(lambda net, x: net(x), layer, outputs=2, obs_var=0.1)
    assert model.state_dim == 6
    np.testing.assert_allclose(model.observe(jnp.ones(6), jnp.ones(3)), np.tanh([3.0, 3.0]), rtol=1e-6)


def test_last_layer_alone_is_regression_on_fixed_features(rng, examples):
    xs, ys = examples
    ys = np.nan_to_num(np.clip(ys, -2, 2))
    whole = wolf.models.mlp(3, (7,), activation="tanh")
    last = wolf.models.mlp(3, (7,), activation="tanh", params=whole.mean, learn="last", obs_var=0.1)
    hidden = np.tanh(xs @ whole.mean[:21].reshape(3, 7) + whole.mean[21:28])
    design = np.hstack([hidden, np.ones((STEPS, 1))])
    precision = design.T @ design / 0.1 + np.eye(8)
    expected = np.linalg.solve(precision, design.T @ ys[:, 0] / 0.1 + last.mean)
    np.testing.assert_allclose(final(last, ys, xs, method="EKF").final.mean, expected, atol=1e-8)


def test_many_trials_agree_with_one(examples):
    xs, ys = examples
    model = wolf.models.mlp(3, (32,), obs_var=0.2)
    many = wolf.filter_many(model, np.stack([ys, ys[::-1]]), inputs=np.stack([xs, xs[::-1]]), save=keep)
    one = final(model, ys[::-1], xs[::-1])
    np.testing.assert_allclose(many.saved["residuals"][1], one.saved["residuals"], atol=1e-10)


def test_noise_can_be_scaled_for_modes_of_a_filter():
    model = wolf.models.mlp(2, (3,), obs_var=0.5, drift_var=1e-3).scaled(10.0, 4.0)
    np.testing.assert_allclose((model.drift, model.obs_cov[0, 0]), (1e-2, 2.0))
    assert wolf.models.mlp(2).scaled(10.0, 4.0).drift is None
    with pytest.raises(ValueError, match="only Gaussian noise can be scaled"):
        wolf.models.glm(2, families.Poisson()).scaled(1.0, 2.0)


def test_new_values_do_not_recompile(examples):
    xs, ys = examples
    traces, first = [], 0

    def count(state, info):
        traces.append(1)
        return info.weight

    for key, noise, drift in ((0, 0.1, 1e-3), (1, 0.2, 1e-4)):
        model = wolf.models.mlp(3, (32,), key=key, obs_var=noise, drift_var=drift)
        wolf.filter(model, ys, inputs=xs, save=count)
        first = len(traces) if key == 0 else first
    assert len(traces) == first


def test_one_step_at_a_time_gives_the_same_and_takes_another_noise(examples):
    xs, ys = examples
    model = wolf.models.mlp(3, (32,), obs_var=0.2)
    online = wolf.Online(model)
    for x, y in zip(xs, ys, strict=True):
        online.step(y, u=x)
    np.testing.assert_allclose(online.mean, final(model, ys, xs).final.mean, atol=1e-12)
    doubted = wolf.Online(model).step(ys[0], u=xs[0], R=[[100.0]])
    assert doubted.nis < wolf.Online(model).step(ys[0], u=xs[0]).nis
    with pytest.raises(ValueError, match="accepts another R for one step"):
        online.step(ys[0], u=xs[0], Q=np.eye(model.state_dim))


@pytest.mark.parametrize("form", ["auto", "sqrt"])
def test_float32_stays_close_to_float64_over_many_steps(form, rng):
    """Over 5,000 steps; `test_float32_is_stable_over_100_000_steps` has the long run."""
    _stable(form, 5_000, rng)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto", "symmetric", "sqrt"])
def test_float32_is_stable_over_100_000_steps(form, rng):
    _stable(form, 100_000, rng)


def _stable(form, steps, rng):
    xs = rng.uniform(-2, 2, (steps, 3)).astype("float32")
    ys = (np.sin(2 * xs[:, :1]) + 0.1 * rng.normal(size=(steps, 1))).astype("float32")
    ys[rng.random(steps) < 0.1] += 50.0
    model = wolf.models.mlp(3, (32,), activation="tanh", obs_var=0.1, prior_var=0.1)
    short, exact = (
        wolf.filter(model, ys, inputs=xs, method=wolf.WoLF(form=form), dtype=dtype, save=keep)
        for dtype in ("float32", "float64")
    )
    assert np.isfinite(short.saved["residuals"]).all()
    values = np.linalg.eigvalsh(short.final.cov.astype("float64"))
    assert values.min() > -1e-6 * values.max()
    late = slice(steps // 2, None)
    errors = [np.median(np.abs(out.saved["residuals"][late])) for out in (short, exact)]
    assert errors[0] < 1.05 * errors[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wolf.models.mlp(0), "features must be a whole number"),
        (lambda: wolf.models.mlp(3, activation="step"), "activation must be a function or one of relu"),
        (lambda: wolf.models.mlp(3, obs_var=0.0), "obs_var is a variance and must be a positive number"),
        (lambda: wolf.models.mlp(3, prior_var=-1.0), "prior_var must not be negative; got -1.0"),
        (lambda: wolf.models.mlp(3, params=np.zeros(5)), r"params must have shape \(101,\)"),
        (lambda: wolf.models.mlp(3, learn="first"), "learn must be one of 'all', 'last'"),
        (lambda: wolf.models.mlp(3, family="poisson"), "family must be a value from wolf.statespace.families"),
        (lambda: wolf.models.glm(3, families.Poisson(), mean=np.zeros((2, 2))), r"mean must be finite and of shape"),
        (lambda: wolf.models.from_function(3, {}), "fn must be a function"),
        (lambda: wolf.models.from_function(jnp.sin, {"n": 3}), "at least one floating-point array"),
        (lambda: wolf.filter(wolf.models.mlp(3), np.zeros(5)), "pass inputs="),
        (lambda: wolf.filter(wolf.models.mlp(3), np.zeros(5), inputs=np.zeros((5, 2))), "must have 3 columns"),
    ],
)
def test_bad_calls_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
