"""Training of a neural network by a robust filter: what the online estimators of scikit-learn and river share."""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf.engine import scan
from wolf.execution import validate
from wolf.inference.filters.gaussian import GaussianState
from wolf.inference.filters.low_rank import LowRankState
from wolf.interfaces import Filter, State, StepInfo
from wolf.models import mlp
from wolf.numerics.precision import precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.statespace import ParameterModel, families

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("wolf.OnlineRegressor needs scikit-learn: pip install scikit-learn") from error

BLOCK_ROWS = 64  # filtered by one program; the rest goes row by row through a second one, so two are compiled
NORMAL_IQR = 1.349  # interquartile range of a standard normal

RandomState = int | np.random.RandomState | None  # as in scikit-learn


class OnlineNetwork(BaseEstimator):
    """Base of both estimators: scaling, the filter and its blocks of rows.

    The first `warmup` rows determine robust scales of the features (and of the targets of a regression); until then
    every call filters all rows again. From then on each row is filtered once, so training in pieces gives
    what training on the whole gives.
    """

    hidden: Sequence[int]
    activation: str | Callable
    prior_var: float
    drift_var: float
    method: str | Filter | None
    warmup: int
    random_state: RandomState
    seen_: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train from the start on rows, in their order.

        Args:
            X: features, (n, K).
            y: targets, (n,).
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]:
            delattr(self, name)
        return self.partial_fit(X, y)

    @property
    def _is_started(self) -> bool:
        """Whether rows were learned; scikit-learn: an attribute that ends in "_" exists only after the first fit."""
        return "seen_" in vars(self)

    def _learn(self, rows: np.ndarray, targets: np.ndarray) -> None:
        """Train on rows (n, K) with their statistics (n, M)."""
        count, seen = len(rows), self.seen_ if self._is_started else 0
        if seen == 0:
            self._early_: tuple[np.ndarray, np.ndarray] | None = (rows[:0], targets[:0])
            self._seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        state, early = self.state_ if self._is_started else None, self._early_
        if early is not None:
            rows, targets = (np.concatenate(pair) for pair in zip(early, (rows, targets), strict=True))
            early = (rows, targets) if len(rows) < self.warmup else None
            self._set_scales(rows[: self.warmup], targets[: self.warmup])
            state, self.residual_scale_ = None, 1.0
        saved = self._run(state, (rows - self._shift_) / self._spread_, self._scale_targets(targets))
        # Counted last, so that after an error above the call can be repeated.
        self.seen_, self._early_ = seen + count, early
        self.weights_ = saved["weight"][-count:] if "weight" in saved else np.ones(count)
        self._calibrate(saved)

    def _set_scales(self, rows: np.ndarray, targets: np.ndarray) -> None:
        self._shift_, self._spread_ = robust_scale(rows)

    def _scale_targets(self, targets: np.ndarray) -> np.ndarray:
        return targets

    def _calibrate(self, saved: dict[str, np.ndarray]) -> None:
        pass

    def _family(self) -> families.Family:
        raise NotImplementedError

    def _build(self) -> tuple[ParameterModel, Filter]:
        """Build model and method for each call, so that a pickle holds no functions."""
        model = mlp(
            self.n_features_in_,
            self.hidden,
            activation=self.activation,
            key=self._seed_,
            prior_var=self.prior_var,
            drift_var=self.drift_var,
            family=self._family(),
        )
        return model, validate.resolve_method(self.method, model)

    def _run(self, state: State | None, rows: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Filter in blocks of one length, then row by row."""
        model, method = (cast(part, "float64") for part in self._build())
        cuts = [*range(0, len(rows) - BLOCK_ROWS + 1, BLOCK_ROWS), len(rows) - len(rows) % BLOCK_ROWS]
        edges = [*dict.fromkeys(cuts), *range(cuts[-1] + 1, len(rows) + 1)]
        parts = []
        with precision("float64"):
            state = scan.init(model, method) if state is None else state
            for start, end in pairwise(edges):
                block = slice(start, end)
                state, saved = scan.run_filter(model, targets[block], method, rows[block], state=state, save=_record)
                parts.append(saved)
            self.state_ = to_numpy(state)
            return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}

    def _predict_eta(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Predict the network output η and its covariance for rows, in blocks of one length."""
        check_is_fitted(self, "state_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        model = cast(self._build()[0], "float64")
        scaled = (rows - self._shift_) / self._spread_
        padded = np.concatenate([scaled, np.zeros((-len(rows) % BLOCK_ROWS, rows.shape[1]))])
        with precision("float64"):
            starts = range(0, len(padded), BLOCK_ROWS)
            blocks = [_eta_moments(model, self.state_, padded[i : i + BLOCK_ROWS]) for i in starts]
            means, covs = (np.concatenate([np.asarray(block[part]) for block in blocks]) for part in (0, 1))
        return means[: len(rows)], covs[: len(rows)]

    def _row_from_dict(self, x: dict[Hashable, float]) -> np.ndarray:
        """Order the features of a dict as in the first one."""
        if "features_" not in vars(self):
            self.features_ = list(x)
        if set(x) != set(self.features_):
            raise ValueError(f"x must have the features {self.features_}, as the first one had; got {list(x)}")
        return np.array([[x[name] for name in self.features_]], dtype=np.float64)


def _record(state: State, info: StepInfo) -> dict[str, Array]:
    fields = {"residual": info.residual, "variance": info.innovation_cov, "weight": info.weight}
    return {name: value for name, value in fields.items() if value is not None}


@jax.jit
def _eta_moments(model: ParameterModel, state: State, rows: Array) -> tuple[Array, Array]:
    """Compute means (n, outputs) and covariances (n, outputs, outputs) of the linearised network, row by row."""

    def one(row: Array) -> tuple[Array, Array]:
        jac = jax.jacrev(model.observe)(state.mean, row)
        return model.observe(state.mean, row), _eta_cov(state, jac)

    return jax.vmap(one)(rows)


def _eta_cov(state: State, jac: Array) -> Array:
    """Compute the covariance of η; zero if the filter has no covariance."""
    if isinstance(state, GaussianState | LowRankState):
        return state.project(jac)
    return jnp.zeros((len(jac), len(jac)), jac.dtype) if state.cov is None else jac @ state.cov @ jac.T


def robust_scale(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the median and the normalised interquartile range of each column; its deviation where that is 0."""
    low, middle, high = np.quantile(columns, (0.25, 0.5, 0.75), axis=0)
    spread, deviation = (high - low) / NORMAL_IQR, columns.std(axis=0)
    spread = np.where(spread > 0, spread, deviation)
    return middle, np.where(spread > 0, spread, 1.0)
