"""`certify`: steady state of a method on a model, worst single error, and simulated robustness."""

from collections.abc import Mapping

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.diagnostics.certificate import jump_acceptance, monte_carlo, one_step, operating_point, simulated, worst_case
from wolf.diagnostics.certificate.certificate import Certificate
from wolf.execution import validate
from wolf.inference.filters import GaussianFilter
from wolf.interfaces import Filter, Key
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import cast
from wolf.results import describe_method
from wolf.statespace import Model, time_axes

MAX_SEARCHED_STEPS = 64  # steps of a given series that are searched, evenly spaced


def certify(
    model: Model,
    method: str | Filter | None = None,
    *,
    ys: ArrayLike | None = None,
    key: Key = 0,
    trials: int = 64,
    steps: int = 300,
    jumps: Mapping[str, ArrayLike] | None = None,
) -> Certificate:
    """Compute a certificate of the robustness of a method on a model.

    Args:
        model: state space model as in `wolf.filter`, without inputs. A model with arrays that vary in time needs `ys`,
            and has no simulated entries.
        method: any Gaussian filter, as in `wolf.filter`.
        ys: series, (T, M), along which the worst error is searched, at no more than 64 of its steps and with its own
            residuals. Without a series the filter is run to steady state on clean data, and the clean residual is zero.
        key: seed or JAX key of the simulated entries.
        trials: number of trials for each size of a jump or share of outliers; 16 levels are simulated at once, and
            clean data use all `16 * trials`. 0 omits the simulated entries.
        steps: steps of each trial; a longer recovery does not count.
        jumps: directions of the state (D,) by name, instead of the default directions: the measured state with the
            largest effect on the measurement (position) and the unmeasured state that drives it most (velocity).

    Returns:
        A `Certificate` with `plot()`, `to_json()` and entries such as `certificate["influence"].value`.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> certificate = wolf.certify(model, "WoLF-TMD", ys=np.zeros(20), trials=0)
        >>> certificate["influence"].bounded, certificate["influence"].basis
        (True, 'exact')
    """
    method = _check_arguments(model, method, trials, steps, key)
    adapted, cast_method = cast(validate.adapt_model(model, method, None), np.float64), cast(method, np.float64)
    varies = bool(time_axes(model))
    if varies and ys is None:
        raise ValueError(f"{', '.join(time_axes(model))} vary in time, so there is no steady state; pass a series, ys=")
    user_jumps = None if jumps is None else _check_jumps(jumps, model)
    steps_of_series = None if ys is None else _select_steps(ys, model)
    with precision("float64"):
        steady = None
        plain = cast(
            GaussianFilter() if method.linearization is None else GaussianFilter(linearization=method.linearization),
            float,
        )
        if not varies and (ys is None or trials):
            steady = monte_carlo.run_to_steady_state(adapted, cast_method, plain, as_key(key), trials, steps)
            typical = _median_operating_point(adapted, cast_method, steady)
        if steps_of_series is None:
            points, labels = typical, ["steady state"]
        else:
            array, selected = steps_of_series
            points = operating_point.along_series(adapted, cast_method, array, steps=selected)
            labels = [f"step {t}" for t in selected]
        expected = operating_point.expect_each(adapted, cast_method, points)
        monte_carlo.check_positive_definite(np.asarray(expected.posterior.cov))
        worst = worst_case.find_worst_errors(adapted, cast_method, points, expected)
        entries, curves = one_step.one_step_entries(worst, labels, expected, along=ys is not None)
        last = jax.tree.map(lambda leaf: leaf[-1], points)
        entries += jump_acceptance.accepted_jump_entry(
            adapted, cast_method, last, np.asarray(expected.innovation_cov)[-1]
        )
        entries += one_step.step_efficiency_entries(method, model)
        remarks = _remarks(steady, varies, trials, _seed(key))
        if steady is not None and trials:
            matrices = _jacobians(adapted, typical)
            steady = _with_innovation_root(
                steady, expected if ys is None else operating_point.expect_each(adapted, cast_method, typical)
            )
            more, more_curves = simulated.simulated_entries(
                steady, plain, matrices, user_jumps, {"trials": trials, "seed": _seed(key)}
            )
            entries, curves = entries + more, curves | more_curves
    where = "clean residual 0, at steady state" if ys is None else f"{len(labels)} steps of a series, its own residuals"
    title = (f"Certificate of {describe_method(method)}", f"on {model!r}: {where}")
    return Certificate({entry.name: entry for entry in entries}, model, method, title, remarks, curves)


def _check_arguments(model: Model, method: str | Filter | None, trials: int, steps: int, key: Key) -> Filter:
    method = validate.resolve_method(method, model)
    if method.requirements.key:
        raise ValueError(f"certify needs a Gaussian filter; {type(method).__name__} draws random numbers")
    if model.takes_inputs:
        raise ValueError("certify does not support models with inputs: the steady state would depend on the input")
    validation.integer("trials", trials)
    validation.integer("steps", steps, least=2 * monte_carlo.RECOVERY_STEPS)
    validation.key(key, needed=True)
    validate.check_functions(model, None)
    if jax.eval_shape(lambda: method.init(model, None).cov) is None:
        name = type(method).__name__
        raise ValueError(f"certify needs a Gaussian filter, with a mean and a covariance; got {name}")
    return method


def _check_jumps(jumps: Mapping[str, ArrayLike], model: Model) -> dict[str, np.ndarray]:
    if not isinstance(jumps, dict):
        got = validation.short_repr(jumps)
        raise ValueError(f"jumps must map names to directions of the state, such as {{'slide': [1.0, 0.0]}}; got {got}")
    read = {}
    for name, direction in jumps.items():
        array = validation.number_array(f"jumps[{name!r}]", direction)
        if array.shape != (model.state_dim,) or not np.all(np.isfinite(array)) or not np.any(array):
            raise ValueError(f"jumps[{name!r}] must be a nonzero direction of shape ({model.state_dim},); got {array}")
        read[str(name)] = array
    return read


def _median_operating_point(
    model: Model, method: Filter, steady: monte_carlo.SteadyState
) -> operating_point.OperatingPoint:
    """Select the trial whose predicted covariance has the median volume; the clean measurement is its prediction."""
    each = jax.vmap(operating_point.at_prediction, in_axes=(None, None, 0))(model, method, steady.states)
    volumes = np.linalg.slogdet(np.asarray(jax.vmap(lambda state: state.cov)(each.state)))[1]
    middle = np.argsort(volumes)[len(volumes) // 2]
    return jax.tree.map(lambda leaf: leaf[middle][None], each)


def _select_steps(ys: ArrayLike, model: Model) -> tuple[np.ndarray, tuple[int, ...]]:
    """Validate a series, and choose the steps that are searched."""
    array = validation.measurements(ys, model.obs_dim)
    validate.check_time_axes(model, len(array), False, "certify")
    whole = np.flatnonzero(np.isfinite(array).all(axis=1))
    if not len(whole):
        raise ValueError("ys must have at least one step without missing coordinates; got none")
    selected = np.unique(whole[np.linspace(0, len(whole) - 1, MAX_SEARCHED_STEPS).round().astype(int)])
    return array, tuple(map(int, selected))


def _jacobians(model: Model, points: operating_point.OperatingPoint) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Jacobians of the observation function and of the dynamics at the operating point."""
    mean = jax.tree.map(lambda leaf: leaf[0], points.state).mean
    jacobian = jax.jacfwd(model.projection(None))(mean)
    return np.asarray(jacobian), np.asarray(jax.jacfwd(model.transition(None))(mean))


def _with_innovation_root(
    steady: monte_carlo.SteadyState, expected: operating_point.Expectation
) -> monte_carlo.SteadyState:
    """Set the size of gross outliers from the innovation covariance at steady state."""
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[0])
    return steady._replace(scale=steady.scale._replace(innovation_root=root))


def _remarks(steady: monte_carlo.SteadyState | None, varies: bool, number: int, seed: str) -> tuple[str, ...]:
    remarks = []
    if varies:
        remarks.append("no simulated entries: the model varies in time")
    elif not number:
        remarks.append("no simulated entries: trials=0")
    elif steady is not None:
        levels = f"{number} trials of {steady.steps} steps per level"
        remarks.append(f"simulation: {levels}, {monte_carlo.NUM_LEVELS * number} for clean data; seed {seed}")
    if steady is not None and not steady.converged:
        remarks.append(
            f"not steady after {monte_carlo.MAX_CHUNKS} runs of {steady.steps} steps: entries describe the last step"
        )
    return tuple(remarks)


def _seed(key: Key) -> str:
    return str(key) if isinstance(key, int | np.integer) else "user-supplied key"
