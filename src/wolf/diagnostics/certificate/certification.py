"""`certify`: bring a method to steady state on a model, find the worst error, and put it through trouble."""

from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.diagnostics.certificate import jump_acceptance, monte_carlo, operating_point, worst_case
from wolf.diagnostics.certificate.certificate import Certificate, Entry, neat
from wolf.diagnostics.certificate.influence_bounds import WorstError
from wolf.diagnostics.certificate.monte_carlo_trials import GROSS
from wolf.execution import validate as entry
from wolf.inference import weights
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import Weighted
from wolf.inference.weights import calibration
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import cast
from wolf.results import describe_method
from wolf.statespace import Model, time_axes

STEPS_OF_SERIES = 64  # of a given series that are searched, evenly spread
SHOWN = 4  # coordinates of an error that the table writes out


def certify(
    model: Model,
    method: Any = None,
    *,
    ys: Any = None,
    key: Any = 0,
    trials: int = 64,
    steps: int = 300,
    jumps: dict[str, Any] | None = None,
) -> Certificate:
    """Say how robust a method is on your model.

    Args:
        model: as in `wolf.filter`, without inputs. One with arrays that vary in time needs `ys`, and gets no simulated
            entries.
        method: as in `wolf.filter`; any Gaussian filter.
        ys: a series, (T, M), to search the worst error along, at 64 of its steps at most and given its own residuals.
            Without one the filter is brought to steady state on clean data, and the clean residual is zero.
        key: seed or JAX key of the simulated entries.
        trials: for each size of a jump or share of outliers, of which 16 are tried at once; clean data get all
            `16 * trials`. 0 leaves the simulated entries out.
        steps: of each trial; a recovery that takes longer does not count.
        jumps: directions of the state (D,) by name, to try in place of the measured state that shows most (position)
            and of one that drives it (velocity).

    Returns:
        A `Certificate`: print it, `plot()` it, `to_json()` it, or read `certificate["influence"].value`.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> certificate = wolf.certify(model, "WoLF-TMD", ys=np.zeros(20), trials=0)
        >>> certificate["influence"].bounded, certificate["influence"].how
        (True, 'exact')
    """
    method = _check(model, method, trials, steps, key)
    suited, cast_method = cast(entry.adapt_model(model, method, None), np.float64), cast(method, np.float64)
    varies = bool(time_axes(model))
    if varies and ys is None:
        raise ValueError(f"{', '.join(time_axes(model))} vary in time, so there is no steady state: give a series, ys=")
    given = None if jumps is None else _check_jumps(jumps, model)
    steps_of_series = None if ys is None else _check_series(ys, model)
    with precision("float64"):
        steady = None
        plain = cast(
            GaussianFilter() if method.linearization is None else GaussianFilter(linearization=method.linearization),
            float,
        )
        if not varies and (ys is None or trials):
            steady = monte_carlo.settle(suited, cast_method, plain, as_key(key), trials, steps)
            typical = _typical(suited, cast_method, steady)
        if steps_of_series is None:
            situations, places = typical, ["steady state"]
        else:
            array, chosen = steps_of_series
            situations = operating_point.along(suited, cast_method, array, steps=chosen)
            places = [f"step {t}" for t in chosen]
        expected = operating_point.expect_each(suited, cast_method, situations)
        monte_carlo.check_spread(np.asarray(expected.posterior.cov))
        found = worst_case.find(suited, cast_method, situations, expected)
        entries, curves = _one_step(found, places, expected, along=ys is not None)
        last = jax.tree.map(lambda leaf: leaf[-1], situations)
        entries += jump_acceptance.won_vote(suited, cast_method, last, np.asarray(expected.innovation_cov)[-1])
        entries += _step_efficiency(method, model)
        remarks = _remarks(steady, varies, trials, _seed(key))
        if steady is not None and trials:
            matrices = _matrices(suited, typical)
            steady = _scaled(
                steady, expected if ys is None else operating_point.expect_each(suited, cast_method, typical)
            )
            more, further = _simulated(steady, plain, matrices, given, {"trials": trials, "seed": _seed(key)})
            entries, curves = entries + more, curves | further
    where = "clean residual 0, at steady state" if ys is None else f"{len(places)} steps of a series, its own residuals"
    title = (f"Certificate of {describe_method(method)}", f"on {model!r}: {where}")
    return Certificate({entry.name: entry for entry in entries}, model, method, title, remarks, curves)


def _check(model: Model, method: Any, trials: int, steps: int, key: Any) -> Any:
    method = entry.resolve_method(method, model)
    if method.requirements.key:
        raise ValueError(f"certify takes Gaussian filters; {type(method).__name__} draws random numbers")
    if model.takes_inputs:
        raise ValueError("certify takes models without inputs: there is no steady state that holds for every input")
    validation.integer("trials", trials)
    validation.integer("steps", steps, least=2 * monte_carlo.IN_A_ROW)
    validation.key(key, needed=True)
    entry.check_functions(model, None)
    if jax.eval_shape(lambda: method.init(model, None).cov) is None:
        name = type(method).__name__
        raise ValueError(f"certify takes Gaussian filters, with a mean and a covariance; got {name}")
    return method


def _check_jumps(jumps: Any, model: Model) -> dict[str, np.ndarray]:
    if not isinstance(jumps, dict):
        told = validation.short_repr(jumps)
        raise ValueError(f"jumps must be directions of the state by name, as {{'slide': [1.0, 0.0]}}; got {told}")
    read = {}
    for name, direction in jumps.items():
        array = validation.number_array(f"jumps[{name!r}]", direction)
        if array.shape != (model.state_dim,) or not np.all(np.isfinite(array)) or not np.any(array):
            raise ValueError(
                f"jumps[{name!r}] must be a direction of shape ({model.state_dim},), not zero; got {array}"
            )
        read[str(name)] = array
    return read


def _typical(model: Any, method: Any, steady: monte_carlo.SteadyState) -> operating_point.OperatingPoint:
    """Take the trial whose predicted covariance has the median volume; its prediction is the clean measurement."""
    each = jax.vmap(operating_point.at_prediction, in_axes=(None, None, 0))(model, method, steady.states)
    volumes = np.linalg.slogdet(np.asarray(jax.vmap(lambda state: state.cov)(each.state)))[1]
    middle = np.argsort(volumes)[len(volumes) // 2]
    return jax.tree.map(lambda leaf: leaf[middle][None], each)


def _check_series(ys: Any, model: Model) -> tuple[np.ndarray, tuple[int, ...]]:
    """Read a series, and choose the steps to search."""
    array = validation.measurements(ys, model.obs_dim)
    entry.check_time_axes(model, len(array), False, "certify")
    whole = np.flatnonzero(np.isfinite(array).all(axis=1))
    if not len(whole):
        raise ValueError("ys must have a step with all its measurements; got none")
    chosen = np.unique(whole[np.linspace(0, len(whole) - 1, STEPS_OF_SERIES).round().astype(int)])
    return array, tuple(map(int, chosen))


def _one_step(
    found: list[WorstError], places: list[str], expected: operating_point.Expectation, *, along: bool
) -> tuple[list[Entry], dict[str, Any]]:
    """Write down the worst of all situations."""
    first = max(range(len(found)), key=lambda i: found[i].influence)
    second = max(range(len(found)), key=lambda i: found[i].shift)
    entries = []
    for name, i, unit in (("influence", first, "nats"), ("mean shift", second, "sd")):
        one = found[i]
        shifted = name == "mean shift"
        error, radius = (one.shift_error, one.shift_radius) if shifted else (one.error, one.radius)
        value = one.shift if shifted else one.influence
        what = "of the posterior mean" if shifted else "KL from the clean one"
        place = f", {places[i]}" if along else ""
        power = 0.5 * one.power if shifted else one.power  # the divergence goes with the square of the shift
        words = f"{what}; {_where(power, value, error, radius)}{place}"
        details = {"radius": radius, "error": error, "growth": power, "residual": np.asarray(expected.residual)[i]}
        entries.append(Entry(name, value, unit, _how(one), words, details=details))
    one = found[first]
    words = "what is left of a huge error" if np.isfinite(one.far) else "a huge error has a huge one"
    entries.append(Entry("far influence", one.far, "nats", _how(one), words))
    curve = {"radii": one.radii, "influence": one.curve, "peak": (one.radius, one.influence)}
    curve["kalman"] = _kalman_coefficient(expected, first) * one.radii**2
    return entries, curve


def _how(one: WorstError) -> str:
    return "exact" if one.exact else "searched"


def _where(power: float, value: float, error: np.ndarray, radius: float) -> str:
    if not np.isfinite(value):
        return f"grows as the error to the power {neat(power)}"
    if not np.isfinite(radius):
        return "approached as the error grows"
    numbers = ", ".join(neat(number) for number in error[:SHOWN]) + (", ..." if len(error) > SHOWN else "")
    return f"at {neat(radius)} sd from the prediction, error ({numbers})"


def _kalman_coefficient(expected: operating_point.Expectation, i: int) -> float:
    """Solve for the worst direction of an unweighted update: its influence is this times the squared radius.

    With S and R as they are the shift is `P Hᵀ S⁻¹ e`, and in the metric of the posterior its squared length is
    `eᵀ (R⁻¹ - S⁻¹) e`, by the matrix inversion lemma.
    """
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[i])
    obs_cov = np.asarray(expected.obs_cov)[i]
    return 0.5 * float(np.linalg.eigvalsh(root.T @ np.linalg.solve(obs_cov, root))[-1] - 1.0)


def _step_efficiency(method: Any, model: Model) -> list[Entry]:
    """Use the closed form, where the weight is a function of the squared distance in S alone."""
    weight = method.noise.weight if isinstance(method.noise, Weighted) else None
    if not isinstance(weight, weights.DistanceWeight) or weight.metric != "S" or type(method) is not GaussianFilter:
        return []
    size = model.obs_dim
    family: Any = type(weight)
    c = calibration.threshold(family, size, weights.EFFICIENCY) if weight.c is None else float(weight.c)
    value = calibration.efficiency_of(family, c, size)
    words = "of one clean measurement, when the gain is small: its worst case"
    return [Entry("step efficiency", value, "share", "exact", words)]


def _matrices(model: Any, situations: operating_point.OperatingPoint) -> tuple[np.ndarray, np.ndarray]:
    """Take the slopes of what is measured and of the dynamics, at the typical state."""
    mean = jax.tree.map(lambda leaf: leaf[0], situations.state).mean
    jacobian = jax.jacfwd(model.projection(None))(mean)
    return np.asarray(jacobian), np.asarray(jax.jacfwd(model.transition(None))(mean))


def _scaled(steady: monte_carlo.SteadyState, expected: operating_point.Expectation) -> monte_carlo.SteadyState:
    """Set the size of gross outliers, from the innovation covariance at steady state."""
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[0])
    return steady._replace(scale=steady.scale._replace(innovation_root=root))


def _simulated(
    steady: monte_carlo.SteadyState,
    plain: Any,
    matrices: tuple[np.ndarray, np.ndarray],
    given: dict[str, np.ndarray] | None,
    sample: dict[str, Any],
) -> tuple[list[Entry], dict[str, Any]]:
    """Run trials of clean data, jumps and outliers.

    Args:
        steady: trials at steady state.
        plain: the filter without weights.
        matrices: slopes of what is measured and of the dynamics.
        given: directions of jumps that a person wants.
        sample: number of trials of each level, and the seed.
    """
    clean = monte_carlo.on_clean_data(steady, plain)
    whole_sample = sample | {"trials": clean.trials}
    words = "squared error of the filter without weights over its own, on clean data"
    if clean.lost:
        words += f"; {clean.lost} of {clean.trials} trials were lost"
    entries = [
        Entry("efficiency", clean.efficiency, "share", "simulated", words, clean.efficiency_error, **whole_sample)
    ]
    words = "of clean measurements are called outliers"
    entries.append(Entry("false alarms", clean.alarms, "share", "simulated", words, clean.alarms_error, **whole_sample))
    curves: dict[str, Any] = {"jumps": {}}
    chosen = monte_carlo.directions(steady, *matrices) if given is None else _normalised(steady, matrices, given)
    for name, direction in chosen.items():
        jump = monte_carlo.after_jump(steady, direction, clean.usual)
        entries.append(_jump_entry(name, jump, steady.steps, sample))
        curves["jumps"][name] = (jump.sizes, jump.steps, jump.largest)
    outliers = monte_carlo.under_outliers(steady)
    tried = " (all that was tried)" if outliers.largest == monte_carlo.SHARES[-1] else ""
    words = f"of gross outliers{tried}: 95 % of trials stay below {monte_carlo.BROKEN:g} x the clean error"
    details = {"multiple": monte_carlo.BROKEN, "sizes": list(GROSS)}
    entries.append(Entry("breakdown", outliers.largest, "share", "simulated", words, details=details, **sample))
    curves["breakdown"] = (outliers.shares, outliers.ratios, outliers.largest)
    return entries, curves


def _normalised(
    steady: monte_carlo.SteadyState, matrices: tuple[np.ndarray, np.ndarray], given: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Scale a person's jumps so that the prediction moves by one standard deviation, at once or in the next step."""
    jacobian, dynamics = matrices
    scaled = {}
    for name, direction in given.items():
        moved = [np.linalg.solve(steady.scale.innovation_root, h @ direction) for h in (jacobian, jacobian @ dynamics)]
        lengths = [float(np.linalg.norm(each)) for each in moved]
        gain = lengths[0] if lengths[0] > 1e-9 * lengths[1] else lengths[1]
        if gain == 0.0:
            raise ValueError(f"jumps[{name!r}] moves no measurement, now or in the next step")
        scaled[name] = direction / gain
    return scaled


def _jump_entry(name: str, jump: monte_carlo.Jump, steps: int, sample: dict[str, Any]) -> Entry:
    within = jump.steps[jump.sizes <= jump.largest]
    longest = float(within.max()) if len(within) else np.inf
    moved = np.flatnonzero(jump.direction)
    state = f"state {moved[0]}" if len(moved) == 1 else "the state"
    size = jump.largest * float(np.linalg.norm(jump.direction))
    if jump.largest == 0.0:
        words = f"of {state}: 5 % of trials are lost at the smallest that was tried"
    else:
        tried = ", the largest tried" if jump.largest == jump.sizes[-1] else ""
        words = f"of {state}, {neat(jump.largest)} sd{tried}: 95 % are back within {longest:.0f} steps"
    details = {"deviations": jump.largest, "steps": longest, "horizon": steps, "direction": jump.direction}
    return Entry(name, size, "units", "simulated", words, details=details, **sample)


def _remarks(steady: monte_carlo.SteadyState | None, varies: bool, number: int, seed: str) -> tuple[str, ...]:
    remarks = []
    if varies:
        remarks.append("nothing is simulated: the model varies in time")
    elif not number:
        remarks.append("nothing is simulated: trials=0")
    elif steady is not None:
        levels = f"{number} trials of {steady.steps} steps for each level"
        remarks.append(f"simulated: {levels}, {monte_carlo.LEVELS * number} for clean data; seed {seed}")
    if steady is not None and not steady.settled:
        remarks.append(
            f"not steady after {monte_carlo.CHUNKS} runs of {steady.steps} steps: entries are about that moment"
        )
    return tuple(remarks)


def _seed(key: Any) -> str:
    return str(key) if isinstance(key, int | np.integer) else "as given"
