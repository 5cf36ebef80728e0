"""One step of an exported filter: its model with arguments in place of constants, its trace, and data for its test."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import native, validation
from wolf.api import filter
from wolf.execution import backend_selection, function_checks, prepared, validate
from wolf.interfaces import Dtype, Filter, State, StepInfo
from wolf.native.codegen.c_step import CArgument, CStep, TimePolynomials
from wolf.native.frontend.signature import flatten_model
from wolf.native.frontend.trace import trace
from wolf.online import Sensor
from wolf.statespace import LinearModel, Model, StateSpaceModel, time_axes
from wolf.statespace.array_fields import replace

SELF_TEST_STEPS = 64
ARGUMENTS = ("R", "H", "F", "Q", "dt")
FIELDS_OF_FUNCTIONS = {"R": "obs_cov", "Q": "dynamics_cov"}
MAX_DEGREE = 7  # of F and Q as polynomials in dt
NEGLIGIBLE_COEFFICIENT = 1e-13
POLYNOMIAL_ERROR = 1e-11  # relative error of F and Q above which they are no polynomials


@dataclasses.dataclass(frozen=True)
class FieldRecorder:
    """Recorder of some fields of a step's report.

    Args:
        fields: their names.
    """

    fields: tuple[str, ...]

    def __call__(self, state: State, info: StepInfo) -> dict[str, Array]:
        """Select the fields; those that the method does not report are left out."""
        values = {name: info._asdict()[name] for name in self.fields}
        return {name: value for name, value in values.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """Settings that the steps of a file share: precision, fields of the report, order of a step."""

    dtype: Dtype
    report: tuple[str, ...]
    update_first: bool


def sensor_models(model: Model, sensors: Mapping[str, Sensor]) -> dict[str, Model]:
    """Return the model with the observation of each sensor, by the sensor's name."""
    if not isinstance(sensors, Mapping) or not sensors:
        raise ValueError(f"sensors must be wolf.Sensor by name; got {validation.short_repr(sensors)}")
    found = {}
    for name, sensor in sensors.items():
        if not isinstance(sensor, Sensor):
            raise ValueError(f"sensors must be wolf.Sensor by name; got {validation.short_repr(sensor)} for {name!r}")
        if not re.fullmatch(r"[A-Za-z]\w*", str(name)):
            raise ValueError(f"the name of a sensor is part of a name in C: letters and digits; got {name!r}")
        found[str(name)] = _with_sensor(model, sensor)
    return found


def _with_sensor(model: Model, sensor: Sensor) -> Model:
    changes: dict[str, Any] = sensor.changes()
    if isinstance(model, LinearModel):
        if "H" not in changes:
            raise ValueError("a sensor with a function needs a wolf.StateSpaceModel; pass its matrix H instead")
        return replace(model, H=changes["H"], R=changes["R"], obs_names=None)
    if not isinstance(model, StateSpaceModel):
        raise ValueError(f"sensors need a linear model or one of functions; got {model!r}")
    matrix = changes.get("H")
    observe = changes.get("observe") if matrix is None else LinearMeasurement(tuple(map(tuple, matrix.tolist())))
    residual = changes.get("residual")
    return replace(model, observe=observe, obs_cov=changes["R"], residual=residual, obs_names=None)


@dataclasses.dataclass(frozen=True)
class LinearMeasurement:
    """Measurement H x of a model of functions; H as nested tuples."""

    matrix: Any

    def __call__(self, x: Array) -> Array:
        """Compute H x."""
        return jnp.asarray(self.matrix, x.dtype) @ x


def exported_step(
    model: Model,
    method: str | Filter | None,
    function: str,
    arguments: tuple[str, ...],
    settings: ExportSettings,
    sensor: str,
) -> CStep:
    """Trace a step whose arguments replace numbers of the model.

    Args:
        model: fixed in time, with the observation of the sensor.
        method: as in `wolf.filter`.
        function: name of the C function, without the sensor.
        arguments: names of `ARGUMENTS`.
        settings: shared by all steps of the file.
        sensor: name, or "".
    """
    check_arguments(model, arguments, settings.update_first)
    time = None if "dt" not in arguments else time_polynomials(model)
    wanted = [name for name in ARGUMENTS if name in arguments and name != "dt"] + (["F", "Q"] if time else [])
    pair = prepared.resolve(model, method, 0)
    chosen, adapted = pair.method, pair.adapted[0]
    if time_axes(model):
        raise ValueError(
            f"export_c takes models that are fixed in time; {', '.join(time_axes(model))} vary: "
            "arguments= makes them arguments of the step"
        )
    reason = backend_selection.unsupported_reason("native", model, chosen, None)
    if reason is not None:
        raise ValueError(f"this filter cannot be written as C: {reason.detail}")
    inputs = model.input_dim
    if model.takes_inputs and inputs is None:
        raise ValueError(
            "export_c needs the number of inputs of f(x, u): state it in the model, as StateSpaceModel(..., inputs=2)"
        )
    validate.check_functions(model, None if inputs is None else np.zeros((1, inputs)), settings.dtype)
    fields = {name: name if isinstance(model, LinearModel) else FIELDS_OF_FUNCTIONS[name] for name in wanted}
    free = _with_rows(adapted, tuple(fields.values()))
    recorder = FieldRecorder(settings.report)
    try:
        given = flatten_model(
            [free], chosen, settings.dtype, settings.update_first, inputs, recorder, frozenset(fields.values())
        )
        with function_checks.explained():
            step = trace(given.signature, given.parameters()[0])
    except native.UNSUPPORTED as error:
        raise ValueError(f"this filter cannot be written as C: {error}") from error
    groups = _groups(given.signature.general, given.signature.varying, fields)
    taken = tuple(
        CArgument(name, np.asarray(vars(free)[field])[0], groups[name], np.shape(vars(free)[field])[1:])
        for name, field in fields.items()
        if time is None or name not in ("F", "Q")
    )
    if time is not None:
        time = dataclasses.replace(time, groups={name: groups[name] for name in ("F", "Q")})
    data = _self_test_data(model, chosen, settings, inputs)
    tail = f"_{sensor}" if sensor else ""
    return CStep(step, function + tail, taken, time, inputs, data, sensor)


def check_arguments(model: Model, arguments: Any, update_first: bool) -> None:
    """Raise a ValueError for arguments that a step of this model cannot have."""
    if isinstance(arguments, str):
        raise ValueError(f"arguments must be a tuple of names, such as ('R', 'dt'); got {arguments!r}")
    for name in arguments:
        validation.choice("arguments", name, ARGUMENTS)
    if not isinstance(model, LinearModel):
        other = [name for name in arguments if name not in FIELDS_OF_FUNCTIONS]
        if other or (arguments and not isinstance(model, StateSpaceModel)):
            raise ValueError(
                f"a step of a model of functions takes R and Q; got {', '.join(arguments)}. Pass others as an input u"
            )
    if "dt" in arguments and {"F", "Q"} & set(arguments):
        raise ValueError("dt stands for F and Q over a time: leave out F and Q, or dt")
    if update_first and "dt" in arguments:
        raise ValueError("dt is the time before a measurement; with update_first=True there is none before the first")


def time_polynomials(model: Model) -> TimePolynomials:
    """Find F and Q of a linear model over a time dt as polynomials, by interpolation.

    Models of levels, slopes, velocities and accelerations have them; rotations and decays do not.
    """
    assert isinstance(model, LinearModel)
    usual = 1.0 if model.step_time is None else float(model.step_time)
    found = {}
    for name, part in (("F", 0), ("Q", 1)):
        fits = (_interpolated(model, usual, degree, part) for degree in range(MAX_DEGREE + 1))
        coefficients = next((each for each in fits if each is not None), None)
        if coefficients is None:
            raise ValueError(
                f"{name} of this model is no polynomial in dt, as that of a rotation or a decay: take F and Q as "
                "arguments"
            )
        found[name] = coefficients
    return TimePolynomials(usual, found, {})


def _interpolated(model: LinearModel, usual: float, degree: int, part: int) -> np.ndarray | None:
    """Interpolate F (part 0) or Q (part 1) by polynomials, (degree + 1, D, D); None where they do not fit.

    The nodes are around the usual step, where the coefficients have to be most accurate.
    """
    nodes = usual * (1.0 - np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)))
    others = usual * np.array([0.13, 0.77, 1.0, 1.31, 3.7])
    powers = np.arange(degree + 1)
    values = model.over(nodes)[part].reshape(degree + 1, -1)
    coefficients = np.linalg.solve((nodes / usual)[:, None] ** powers, values)
    coefficients[np.abs(coefficients) < NEGLIGIBLE_COEFFICIENT * np.abs(coefficients).max(initial=0.0)] = 0.0
    expected = model.over(others)[part].reshape(len(others), -1)
    error = np.abs((others / usual)[:, None] ** powers @ coefficients - expected).max()
    if error > POLYNOMIAL_ERROR * np.abs(expected).max(initial=1e-300):
        return None
    scaled = coefficients / (usual**powers)[:, None]
    return np.asarray(scaled.reshape(-1, model.state_dim, model.state_dim))


def _with_rows(model: Any, fields: tuple[str, ...]) -> Any:
    """Return the model with a time axis on some of its matrices."""
    size = model.state_dim
    changes = {}
    for field in fields:
        value = vars(model)[field]
        value = np.eye(size) if value is None else np.asarray(value)
        changes[field] = np.array(np.diag(value) if value.ndim == 1 else value)[None]
    return replace(model, **changes) if changes else model


def _groups(
    general: tuple[tuple[int, str], ...], varying: tuple[bool, ...], fields: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """Name the arrays of rows of the traced step that each argument is."""
    number = {i: k for k, i in enumerate(i for i, varies in enumerate(varying) if varies)}
    by_field = {field: number[i] for i, field in general}
    return {name: (f"now{by_field[field]}", f"before{by_field[field]}") for name, field in fields.items()}


def check_shared_state(steps: list[CStep]) -> None:
    """Raise a ValueError unless all steps have the same state: a noise model may have a memory for each coordinate."""
    first = steps[0].step.state
    for each in steps[1:]:
        if (each.step.state.shapes, each.step.state.halves) != (first.shapes, first.halves):
            raise ValueError(
                f"the filter's memory for {each.sensor!r} has another shape than for {steps[0].sensor!r}: use a method "
                "without a memory for each coordinate, such as WoLF"
            )


def _self_test_data(
    model: Model, method: Filter, settings: ExportSettings, inputs: int | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Simulate measurements with missing, extreme and infinite values, and filter them.

    Returns:
        Measurements, inputs or None, and filtered means.
    """
    rng, dtype = np.random.default_rng(0), settings.dtype
    scale = np.sqrt(np.diag(model.obs_cov) if model.obs_cov.ndim == 2 else model.obs_cov)
    ys = scale * rng.normal(size=(SELF_TEST_STEPS, model.obs_dim))
    ys[rng.random(ys.shape) < 0.1] *= 20.0
    ys[rng.random(ys.shape) < 0.05] = np.nan
    ys[7], ys[11, 0] = np.inf, -1e30
    us = None if inputs is None else rng.normal(size=(SELF_TEST_STEPS, inputs))
    out = filter(
        model, ys.astype(dtype), method=method, inputs=us, update_first=settings.update_first, dtype=dtype, save="means"
    )
    return ys.astype(dtype), None if us is None else us.astype(dtype), out.means
