"""A batch of rows through the filters of many keys, by native code with or without times and noise covariances."""

import dataclasses
from contextlib import suppress
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import native
from wolf.interfaces import Dtype, Filter, StepInfo
from wolf.native import run_rows
from wolf.native.execute.executable import Compiled
from wolf.native.frontend.signature import Arguments, Signature, flatten_model
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree
from wolf.online.bank import keyed_rows
from wolf.online.bank.state_table import StateTable
from wolf.results.conformal import ConformalIntervals
from wolf.statespace import LinearModel, Model
from wolf.statespace.array_fields import replace

PROBE_STEPS = np.array([0.37, 1.0, 2.9])  # time steps that show which entries of F and Q are always 0 or 1


class BankStep(NamedTuple):
    """Results of a batch of measurements, row by row in the order given.

    Attributes:
        mean: of the state after the row, (n, D); NaN where the row was not used.
        variances: of the state, (n, D).
        weight: w of each row, or of each coordinate.
        outlier: True where a measurement came and is more likely an outlier than not.
        used: False for rows that are late or repeated.
        signal: mean of the noise-free measurement, H times the mean, (n, M); None if the model is not linear.
        signal_variances: its variances, (n, M).
        prediction: of the measurement before it came, (n, M), NaN where it is missing; None unless the bank calibrates.
        half_width: of the calibrated interval around it, (n, M).
    """

    mean: np.ndarray
    variances: np.ndarray
    weight: np.ndarray
    outlier: np.ndarray
    used: np.ndarray
    signal: np.ndarray | None = None
    signal_variances: np.ndarray | None = None
    prediction: np.ndarray | None = None
    half_width: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class _BankRecorder:
    """Recorder of the fields of a `BankStep`.

    Args:
        obs_matrix: rows of H, hashable as a part of the code's signature; None if the model is not linear.
        innovations: whether to record innovations and their variances, to calibrate by.
    """

    obs_matrix: tuple[tuple[float, ...], ...] | None
    innovations: bool = False

    def __call__(self, state: PyTree, info: StepInfo) -> dict[str, Array]:
        """Select the fields of one step."""
        kept = {"mean": state.mean, "variances": state.variances, "weight": info.weight, "outlier": info.outlier}
        if self.innovations:
            kept |= {"prediction": info.residual, "half_width": linalg.diagonal(info.innovation_cov)}
        if self.obs_matrix is None or state.cov is None:
            return kept
        H = jnp.asarray(self.obs_matrix, state.mean.dtype)
        signal = {"signal": linalg.matvec(H, state.mean)}
        return kept | signal | {"signal_variances": linalg.diagonal(linalg.sandwich(H, state.cov))}


def join_kinds(parts: list[BankStep], order: np.ndarray) -> BankStep:
    """Join results of several kinds; means of filters with fewer states end with NaN.

    Args:
        parts: one for each kind.
        order: position of each row among those of all parts.
    """
    whole: list[np.ndarray | None] = []
    for arrays in zip(*parts, strict=True):
        present = [each for each in arrays if each is not None]
        if len(present) < len(arrays):
            whole.append(None)
            continue
        if any(each.ndim != present[0].ndim for each in present):  # one weight for all coordinates, or one for each
            present = [each if each.ndim > 1 else each[:, None] for each in present]
        width = max((each.shape[1] for each in present if each.ndim > 1), default=0)
        whole.append(np.concatenate([_wide(each, width) for each in present])[order])
    return BankStep._make(whole)


def _wide(array: np.ndarray, width: int) -> np.ndarray:
    """Append columns: NaN for means and variances; a single weight or outlier is that of all coordinates."""
    if array.ndim == 1 or array.shape[1] == width:
        return array
    if array.shape[1] == 1 and array.dtype.kind == "b":
        return np.broadcast_to(array, (len(array), width))
    return np.hstack([array, np.full((len(array), width - array.shape[1]), np.nan, array.dtype)])


class BankStepper:
    """Native code of models of one kind, which advances the states of a table.

    Args:
        model: as the user gave it.
        adapted: the same, adapted to the method.
        method: a filter.
        dtype: precision.
        intervals: by which measurements are calibrated.
    """

    def __init__(
        self, model: Model, adapted: Model, method: Filter, dtype: Dtype, intervals: ConformalIntervals | None = None
    ):
        self.model, self.method, self._given, self._models = model, method, [model], [adapted]
        self._methods, self._dtype, self._intervals = [method], dtype, intervals
        rows = np.asarray(model.H).tolist() if isinstance(model, LinearModel) else None
        self._recorder = _BankRecorder(None if rows is None else tuple(map(tuple, rows)), intervals is not None)
        self._programs: dict[tuple[bool, bool], native.NativeProgram] = {}
        self._kept: dict[tuple[bool, bool], np.ndarray] = {}  # of each model, (models, K)

    def program(self, timed: bool, noisy: bool) -> native.NativeProgram:
        """Compile, on first use, the code for rows with or without times and noise covariances.

        All programs read and write the same layout of states.
        """
        if (timed, noisy) not in self._programs:
            self._programs[timed, noisy] = self._make(0, timed, noisy)
        return self._programs[timed, noisy]

    def _make(self, number: int, timed: bool, noisy: bool) -> native.NativeProgram:
        """Make the program of one of the models; those of one kind share the code."""
        try:
            return native.NativeProgram(self._flatten(number, timed, noisy))
        except native.UNSUPPORTED as error:
            raise ValueError(f"a bank needs native code, which does not support this filter: {error}") from error

    def _flatten(self, number: int, timed: bool, noisy: bool) -> Arguments:
        """Split one of the models and its method into a signature and numbers."""
        model, changes = self._models[number], dict[str, np.ndarray]()
        if timed:
            assert isinstance(model, LinearModel)
            dynamics, noise = model.over(PROBE_STEPS)
            changes |= {"F": np.array(dynamics), "Q": np.array(noise)}
        if noisy:
            name = "R" if model.linear else "obs_cov"
            changes[name] = np.stack([np.asarray(model.obs_cov)] * (len(PROBE_STEPS) if timed else 1))
        general = frozenset({"R", "obs_cov"} & changes.keys())
        model = replace(model, **changes) if changes else model
        state = self.program(False, False).code.facts.state if changes else None
        method = self._methods[number]
        return flatten_model([model], method, self._dtype, False, None, self._recorder, general, state)

    @property
    def code(self) -> Compiled:
        """The code for rows without times, which packs and unpacks states."""
        return self.program(False, False).code

    def given_model(self, number: int) -> Model:
        """Return one of the models as the user gave it."""
        return self._given[number]

    @property
    def kind(self) -> tuple[Signature | None, ...]:
        """The signatures of the code, without and with times: equal for models that can be stepped in one call."""
        model = self._models[0]
        signature, timed = self._flatten(0, False, False).signature, None
        if isinstance(model, LinearModel) and model.step_time is not None:
            with suppress(ValueError):  # a pattern that requires whole steps
                timed = self._flatten(0, True, False).signature
        return signature, timed

    def add(self, other: "BankStepper") -> int:
        """Add the model of another stepper of the same kind, and return its number."""
        self._given += other._given
        self._models += other._models
        self._methods += other._methods
        return len(self._models) - 1

    @property
    def state_sizes(self) -> tuple[int, int]:
        """Numbers of floating-point and of integer entries of a state."""
        return self.program(False, False).code.state_sizes

    def start(self, models: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return states at the prior: their numbers and their counts.

        Args:
            models: number of the model of each state, (n,).
        """
        if len(self._models) == 1:
            return self.program(False, False).start(len(models))
        distinct, which = np.unique(models, return_inverse=True)
        parameters = np.concatenate([self._make(number, False, False).parameters for number in distinct.tolist()])
        numbers, counts = self.program(False, False).code.initial_states(parameters)
        return numbers[which], counts[which]

    def _kept_for(self, timed: bool, noisy: bool, states: StateTable) -> np.ndarray:
        """Return what was computed once for the model: one row for all states, or a row of each state's own model."""
        program, name = self.program(timed, noisy), (timed, noisy)
        if len(self._models) == 1:
            return program.kept
        kept = self._kept.get(name, program.kept)
        if len(kept) < len(self._models):
            kept = np.concatenate([kept, *(self._make(i, *name).kept for i in range(len(kept), len(self._models)))])
            self._kept[name] = kept
        own = np.minimum(states.models[:, 1], len(kept) - 1)  # rows of other kinds are not read
        return np.ascontiguousarray(kept[own])

    def advance_each(self, states: StateTable, rows: np.ndarray, ys: np.ndarray) -> BankStep:
        """Advance each state by one measurement.

        Args:
            states: of the bank, changed in place.
            rows: of the states, (n,), all different.
            ys: (n, M).
        """
        code = self.program(False, False).code
        facts, kept = code.facts, self._kept_for(False, False, states)
        outputs = [np.empty((len(rows), 1, *each.shape), each.dtype) for each in facts.outputs]
        given = {"y": np.ascontiguousarray(ys, self._dtype)[:, None]}
        numbers, counts = states.of_sizes(*code.state_sizes)
        run_rows(code, kept, numbers, counts, given, index=rows, outputs=outputs)
        fields = jax.tree.unflatten(facts.saved, [array[:, 0] for array in outputs])
        stepped = BankStep(**fields, used=np.ones(len(rows), bool))
        return self._calibrated(stepped, states, rows, given["y"][:, 0], [np.arange(len(rows))])

    def advance(
        self,
        states: StateTable,
        rows: np.ndarray,
        ys: np.ndarray,
        times: np.ndarray | None,
        noise: np.ndarray | None,
    ) -> tuple[BankStep, np.ndarray]:
        """Advance states by any number of measurements each, in groups of states that have equally many.

        Args:
            states: of the bank, changed in place.
            rows: row of the state of each measurement, (n,).
            ys: (n, M), in the precision of the bank.
            times: (n,), or None.
            noise: covariances, (n, M, M), or None.

        Returns:
            Results, and the status of each measurement as `keyed_rows.classify` defines it.
        """
        which, size = (times is not None, noise is not None), len(rows)
        program = self.program(*which)
        outputs = {
            name: np.full((size, *each.shape), np.nan if each.kind == "f" else False, each.dtype)
            for name, each in jax.tree.unflatten(program.code.facts.saved, program.code.facts.outputs).items()
        }
        kept, (numbers, counts) = self._kept_for(*which, states), states.of_sizes(*program.code.state_sizes)
        status, steps = keyed_rows.classify(rows, times, states.times)
        used, batches = status == keyed_rows.ON_TIME, []
        for group in keyed_rows.groups(rows, times, used):
            batches += list(group.T)
            given: dict[str, np.ndarray] = {"y": np.ascontiguousarray(ys[group])}
            varying: dict[str, np.ndarray] = {}
            if times is not None:
                varying |= dict(
                    zip("FQ", self._transitions(steps[group], states.models[rows[group[:, 0]], 1]), strict=True)
                )
            if noise is not None:
                varying["R"] = noise[group]
            # The code reads the varying arrays in the order of the fields of a LinearModel, which is alphabetical.
            for i, name in enumerate(sorted(varying)):
                given[f"now{i}"] = np.ascontiguousarray(varying[name], self._dtype)
            index = rows[group[:, 0]]
            saved = run_rows(program.code, kept, numbers, counts, given, index=index, threads=1)
            for name, array in saved.items():
                outputs[name][group] = array
            if times is not None:
                states.times[index] = times[group[:, -1]]
        return self._calibrated(BankStep(**outputs, used=used), states, rows, ys, batches), status

    def _calibrated(
        self, stepped: BankStep, states: StateTable, rows: np.ndarray, ys: np.ndarray, batches: list[np.ndarray]
    ) -> BankStep:
        """Calibrate the keys by their measurements, and return predictions and half-widths instead of innovations.

        Args:
            stepped: with innovations and their variances.
            states: whose further entries are the logarithms of radii.
            rows: row of the state of each measurement, (n,).
            ys: (n, M).
            batches: positions of measurements of different keys, those of one key in order.
        """
        if self._intervals is None or stepped.prediction is None or stepped.half_width is None:
            return stepped
        residuals = np.where(np.isfinite(ys), stepped.prediction, ys)  # an infinite value is outside of any interval
        variances, half_width = stepped.half_width, np.full(ys.shape, np.nan)
        for batch in batches:
            log_scale = states.extra[rows[batch]]
            half_width[batch] = self._intervals.radius(log_scale) * np.sqrt(variances[batch])
            states.extra[rows[batch]] = self._intervals.adapt(
                log_scale, residuals[batch], variances[batch], stepped.outlier[batch]
            )
        prediction = np.where(np.isfinite(ys), ys, np.nan) - np.where(np.isfinite(residuals), residuals, np.nan)
        return stepped._replace(prediction=prediction, half_width=half_width)

    def _transitions(self, steps: np.ndarray, models: np.ndarray) -> list[np.ndarray]:
        """Compute F and Q for the time steps of a group, (states, rows).

        Args:
            steps: time steps, (states, rows).
            models: number of the model of each state, (states,).

        Returns:
            Two arrays, (states, rows, D, D), or (rows, D, D) where the steps of all states are equal.
        """
        if len(self._models) > 1:
            return self._own_transitions(steps, models)
        model = self._models[0]
        assert isinstance(model, LinearModel)
        if np.array_equal(steps, np.broadcast_to(steps[0], steps.shape)):
            return [np.asarray(each) for each in model.over(steps[0])]
        distinct, which = np.unique(steps, return_inverse=True)  # sensors have clocks: few lengths occur
        return [each[which.reshape(steps.shape)] for each in model.over(distinct)]

    def _own_transitions(self, steps: np.ndarray, models: np.ndarray) -> list[np.ndarray]:
        """Compute F and Q of each state by its own model, (states, rows, D, D) each."""
        size = self._models[0].state_dim
        whole = [np.empty((*steps.shape, size, size)) for _ in "FQ"]
        order = np.argsort(models, kind="stable")
        distinct, starts = np.unique(models[order], return_index=True)
        for number, some in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
            model = self._models[number]
            assert isinstance(model, LinearModel)
            for array, found in zip(whole, model.over(steps[some].ravel()), strict=True):
                array[some] = np.asarray(found).reshape(len(some), -1, size, size)
        return whole
