"""How the states of many keys advance by a batch of rows: native code, for rows with or without times and noise."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wolf import native
from wolf.interfaces import Dtype, StepInfo
from wolf.native import run_rows
from wolf.native.frontend.signature import flatten_model
from wolf.numerics import linalg
from wolf.online.bank import keyed_rows
from wolf.online.bank.state_table import StateTable
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace

PROBES = np.array([0.37, 1.0, 2.9])  # times over which a model moves, to see which entries are always 0 or 1


class BankStep(NamedTuple):
    """What a batch of measurements came to, row by row in the order that they were given.

    Attributes:
        mean: of the state after the row, (n, D); NaN where the row was not used.
        variances: of the state, (n, D).
        weight: w of each row, or of each coordinate.
        outlier: whether a measurement came and is more likely an outlier than not.
        used: False for rows that came late, or twice.
        signal: mean of what a perfect sensor would say, H times the mean, (n, M); None if the model is not linear.
        signal_variances: its variances, (n, M).
    """

    mean: np.ndarray
    variances: np.ndarray
    weight: np.ndarray
    outlier: np.ndarray
    used: np.ndarray
    signal: np.ndarray | None = None
    signal_variances: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class _Kept:
    """Keeps what `BankStep` shows; `rows` are those of H, if the model is linear."""

    rows: tuple[tuple[float, ...], ...] | None

    def __call__(self, state: Any, info: StepInfo) -> dict[str, Any]:
        """Pick it out of a step."""
        kept = {"mean": state.mean, "variances": state.variances, "weight": info.weight, "outlier": info.outlier}
        if self.rows is None or state.cov is None:
            return kept
        row = jnp.asarray(self.rows, state.mean.dtype)
        seen = {"signal": linalg.matvec(row, state.mean)}
        return kept | seen | {"signal_variances": linalg.diagonal(linalg.sandwich(row, state.cov))}


class BankStepper:
    """The code of one model and method.

    Args:
        suited: the model in the form that suits the method.
        method: a filter.
        dtype: precision.
    """

    def __init__(self, suited: Any, method: Any, dtype: Dtype):
        self._suited, self._method, self._dtype = suited, method, dtype
        rows = np.asarray(suited.H).tolist() if isinstance(suited, LinearModel) else None
        self._kept = _Kept(None if rows is None else tuple(map(tuple, rows)))
        self._codes: dict[tuple[bool, bool], native.NativeProgram] = {}

    def ready(self, timed: bool, noisy: bool) -> native.NativeProgram:
        """Get the code for rows with or without times of their own, and noise of their own."""
        if (timed, noisy) not in self._codes:
            model = self._suited
            changes: dict[str, np.ndarray] = {}
            if timed:
                dynamics, noise = model.over(PROBES)
                changes |= {"F": np.array(dynamics), "Q": np.array(noise)}
            if noisy:
                name = "R" if model.linear else "obs_cov"
                changes[name] = np.stack([np.asarray(model.obs_cov)] * (len(PROBES) if timed else 1))
            general = frozenset({"R", "obs_cov"} & changes.keys())
            model = replace(model, **changes) if changes else model
            # All of them read and write the same states.
            state = self.ready(False, False).code.facts.state if changes else None
            given = flatten_model([model], self._method, self._dtype, False, None, self._kept, general, state)
            try:
                self._codes[timed, noisy] = native.NativeProgram(given)
            except native.UNSUPPORTED as error:
                raise ValueError(f"a bank runs by native code, which is not for this filter: {error}") from error
        return self._codes[timed, noisy]

    def advance_each(self, held: StateTable, rows: np.ndarray, ys: np.ndarray) -> BankStep:
        """Take one row of each key: what is told lies where it was made."""
        ready = self.ready(False, False)
        facts = ready.code.facts
        outputs = [np.empty((len(rows), 1, *each.shape), each.dtype) for each in facts.outputs]
        given = {"y": np.ascontiguousarray(ys, self._dtype)[:, None]}
        run_rows(ready.code, ready.kept, held.numbers, held.counts, given, index=rows, outputs=outputs)
        told = jax.tree.unflatten(facts.saved, [array[:, 0] for array in outputs])
        return BankStep(**told, used=np.ones(len(rows), bool))

    def advance(
        self,
        held: StateTable,
        rows: np.ndarray,
        ys: np.ndarray,
        times: np.ndarray | None,
        noise: np.ndarray | None,
    ) -> tuple[BankStep, np.ndarray]:
        """Take rows group by group: the keys of a group have as many rows each; say also which were late, or twice."""
        ready, size = self.ready(times is not None, noise is not None), len(rows)
        outputs = {
            name: np.full((size, *each.shape), np.nan if each.kind == "f" else False, each.dtype)
            for name, each in jax.tree.unflatten(ready.code.facts.saved, ready.code.facts.outputs).items()
        }
        verdict, gaps = keyed_rows.judge(rows, times, held.times)
        fine = verdict == keyed_rows.FINE
        for some in keyed_rows.groups(rows, times, fine):
            given: dict[str, np.ndarray] = {"y": np.ascontiguousarray(ys[some])}
            varying: dict[str, np.ndarray] = {}
            if times is not None:
                varying |= dict(zip("FQ", self._over(gaps[some]), strict=True))
            if noise is not None:
                varying["R"] = noise[some]
            # The fields of a linear model are in the order F, H, Q, R, and so are the rows that its code reads.
            for i, name in enumerate(sorted(varying)):
                given[f"now{i}"] = np.ascontiguousarray(varying[name], self._dtype)
            index = rows[some[:, 0]]
            saved = run_rows(ready.code, ready.kept, held.numbers, held.counts, given, index=index, threads=1)
            for name, array in saved.items():
                outputs[name][some] = array
            if times is not None:
                held.times[index] = times[some[:, -1]]
        return BankStep(**outputs, used=fine), verdict

    def _over(self, gaps: np.ndarray) -> list[np.ndarray]:
        """Give F and Q of a group's steps, (states, rows, D, D), or (rows, D, D) where all states step alike."""
        if np.array_equal(gaps, np.broadcast_to(gaps[0], gaps.shape)):
            return [np.asarray(each) for each in self._suited.over(gaps[0])]
        few, which = np.unique(gaps, return_inverse=True)  # sensors have clocks: there are few lengths of steps
        return [each[which.reshape(gaps.shape)] for each in self._suited.over(few)]
