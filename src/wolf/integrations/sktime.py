"""Estimators for sktime: `RobustLevelTransformer`, `RobustForecaster`, `RobustDetector`; install sktime separately."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wolf import api
from wolf.cleaning import Options, clean
from wolf.fitting.robust_regression import difference_coefficients
from wolf.interfaces import Filter
from wolf.models.exogenous import with_exogenous
from wolf.models.registry import parse
from wolf.results import Filtered

if TYPE_CHECKING:
    import pandas as pd
    from sktime.forecasting.base import ForecastingHorizon

try:
    from sktime.detection.base import BaseDetector
    from sktime.forecasting.base import BaseForecaster
    from sktime.transformations.base import BaseTransformer
except ImportError as missing:
    raise ModuleNotFoundError(
        "RobustLevelTransformer, RobustForecaster and RobustDetector of this module need sktime: pip install sktime",
        name="sktime",
    ) from missing

MIN_FIT_VALUES = 5  # for a fit of the noise
CONSTANT_NOISE_SHARE = 1e-12  # noise variance of a constant, relative to its square


class RobustLevelTransformer(BaseTransformer):
    """Replace a series by its robust level, or only its outliers and gaps.

    Filters each variable with an outlier-robust Kalman filter; noise variances are fitted. NaN is missing.

    Parameters
    ----------
    model : str, default="local-level"
        "auto" to select one from the data, "local-level", "local-trend" or "seasonal:24", as in `wolf.filter_frame`.
    method : str or method, optional
        As in `wolf.filter`; default: robust.
    smooth : bool, default=False
        Use the whole series for each step, and not only its past.
    output : str, default="level"
        "level" for the estimate at every step, "cleaned" for the values with the estimate in place of outliers and
        missing ones.

    Examples:
    --------
    >>> import numpy as np, pandas as pd
    >>> from wolf.integrations.sktime import RobustLevelTransformer
    >>> readings = np.random.default_rng(0).normal(20.0, 1.0, 200)
    >>> readings[50] = 999.0
    >>> out = RobustLevelTransformer(output="cleaned").fit_transform(pd.Series(readings))
    >>> bool(abs(out.iloc[50] - 20.0) < 3.0)
    True
    """

    _tags: ClassVar[dict[str, object]] = {
        "authors": ["wolf"],
        "maintainers": ["wolf"],
        "scitype:transform-input": "Series",
        "scitype:transform-output": "Series",
        "scitype:instancewise": True,
        "X_inner_mtype": "pd.DataFrame",
        "y_inner_mtype": "None",
        "capability:multivariate": True,
        "capability:missing_values": True,
        "capability:missing_values:removes": True,
        "fit_is_empty": True,
        "transform-returns-same-time-index": True,
    }

    def __init__(
        self, model: str = "auto", method: str | Filter | None = None, smooth: bool = False, output: str = "level"
    ):
        self.model = model
        self.method = method
        self.smooth = smooth
        self.output = output
        super().__init__()

    def _transform(self, X: "pd.DataFrame", y: object = None) -> "pd.DataFrame":
        """Filter each variable."""
        if self.output not in ("level", "cleaned"):
            raise ValueError(f"output must be 'level' or 'cleaned'; got {self.output!r}")
        values = X.to_numpy(dtype=np.float64)
        columns = [self._column(column) for column in values.T]
        return type(X)(np.stack(columns, axis=1), index=X.index, columns=X.columns)

    def _column(self, column: np.ndarray) -> np.ndarray:
        known = column[np.isfinite(column)]
        if known.size < MIN_FIT_VALUES or np.all(known == known[0]):  # too few values for a fit
            return np.where(np.isfinite(column), column, np.median(known)) if known.size else column
        options = Options(self.model, self.method, {}, smooth=self.smooth, causal=not self.smooth, diagnostics=False)
        found = clean(column[:, None], None, options)[0]
        if self.output == "level":
            return found.mean[:, 0]
        replaced = found.outlier.reshape(len(column)) | ~np.isfinite(column)
        return np.where(replaced, found.mean[:, 0], column)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, object]]:
        """List settings for sktime's tests."""
        return [{}, {"output": "cleaned", "smooth": True}]


class RobustForecaster(BaseForecaster):
    """Forecast a series robustly.

    A structural model is filtered by an outlier-robust Kalman filter; its noise variances are fitted. NaN is missing.
    Steps are even: rows count, not their dates. Forecast variances include the measurement noise. Exogenous variables X
    have constant coefficients, which are states of the model.

    Parameters
    ----------
    model : str, default="auto"
        "auto" to select one from the data, "local-level", "local-trend" or "seasonal:24", as in `wolf.filter_frame`.
    method : str or method, optional
        As in `wolf.filter`; default: robust.

    Examples:
    --------
    >>> import numpy as np, pandas as pd
    >>> from wolf.integrations.sktime import RobustForecaster
    >>> readings = np.random.default_rng(0).normal(20.0, 1.0, 200)
    >>> readings[190:194] = 999.0
    >>> ahead = RobustForecaster("local-level").fit(pd.Series(readings)).predict(fh=[1, 2, 3])
    >>> bool((abs(ahead - 20.0) < 2.0).all())
    True
    """

    _tags: ClassVar[dict[str, object]] = {
        "authors": ["wolf"],
        "maintainers": ["wolf"],
        "scitype:y": "univariate",
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "capability:exogenous": True,
        "requires-fh-in-fit": False,
        "capability:missing_values": True,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
    }

    def __init__(self, model: str = "auto", method: str | Filter | None = None):
        self.model = model
        self.method = method
        super().__init__()

    def _fit(self, y: "pd.Series", X: "pd.DataFrame | None" = None, fh: object = None) -> "RobustForecaster":
        """Select the model and fit its noise."""
        self._readings, self._regressors = y, X
        values, exog = y.to_numpy(dtype=np.float64), None if X is None else X.to_numpy(dtype=np.float64)
        self.model_, self.parameters_ = _fitted(self.model, self.method, values, exog)
        return self

    def _update(
        self, y: "pd.Series", X: "pd.DataFrame | None" = None, update_params: bool = True
    ) -> "RobustForecaster":
        """Append values, and refit if requested."""
        self._readings = y.combine_first(self._readings)
        if X is not None and self._regressors is not None:
            self._regressors = X.combine_first(self._regressors)
        return self._fit(self._readings, self._regressors) if update_params else self

    def _predict(self, fh: "ForecastingHorizon", X: "pd.DataFrame | None" = None) -> "pd.Series":
        """Compute predictive means; in sample, one-step predictions."""
        return self._predict_moments(fh, X)[0]

    def _predict_var(
        self, fh: "ForecastingHorizon", X: "pd.DataFrame | None" = None, cov: bool = False
    ) -> "pd.DataFrame":
        """Compute predictive variances, by step."""
        mean, variances = self._predict_moments(fh, X)
        name = mean.name if mean.name is not None else 0
        if cov:
            raise NotImplementedError(
                "RobustForecaster has variances of single steps, but no covariances between steps"
            )
        return type(mean)(variances, index=mean.index, name=name).to_frame()

    def _predict_moments(self, fh: "ForecastingHorizon", X: "pd.DataFrame | None") -> tuple["pd.Series", np.ndarray]:
        """Filter all values and forecast as far as requested; means with their index, and variances."""
        values = self._readings.to_numpy(dtype=np.float64)
        wanted = np.asarray(fh.to_absolute_int(self._readings.index[0], self._cutoff).to_numpy(), int)
        known = None if self._regressors is None else self._regressors.to_numpy(dtype=np.float64)
        out = _filtered(self.model_, self.parameters_, self.method, values, known)
        rows = np.broadcast_to(np.asarray(out.model.H)[..., 0, :], out.predicted_means.shape)
        mean, variance = np.sum(out.predicted_means * rows, axis=1), out.innovation_covs[:, 0, 0]
        steps = int(wanted.max()) + 1 - len(values)
        if steps > 0:
            future = None if known is None or X is None else _future(X, self._readings, steps)
            ahead = api.forecast(out, steps=steps, exog=future)
            mean = np.concatenate([mean, ahead.obs_means[:, 0]])
            variance = np.concatenate([variance, ahead.obs_covs[:, 0, 0]])
        index = fh.to_absolute_index(self._cutoff)
        return type(self._readings)(mean[wanted], index=index, name=self._readings.name), variance[wanted]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, object]]:
        """List settings for sktime's tests."""
        return [{"model": "local-level"}, {"model": "local-level", "method": "WoLF"}]


class RobustDetector(BaseDetector):
    """Detect outliers in a series, each judged by its past.

    Parameters
    ----------
    model : str, default="local-level"
        As in `RobustForecaster`.
    method : str or method, optional
        As in `wolf.filter`; default: robust.

    Examples:
    --------
    >>> import numpy as np, pandas as pd
    >>> from wolf.integrations.sktime import RobustDetector
    >>> readings = np.random.default_rng(0).normal(20.0, 1.0, 200)
    >>> readings[50] = 999.0
    >>> RobustDetector().fit_predict(pd.Series(readings))["ilocs"].tolist()
    [50]
    """

    _tags: ClassVar[dict[str, object]] = {
        "authors": ["wolf"],
        "maintainers": ["wolf"],
        "object_type": "detector",
        "learning_type": "unsupervised",
        "task": "anomaly_detection",
        "capability:multivariate": False,
        "capability:missing_values": True,
        "capability:update": False,
        "capability:variable_identification": False,
        "X_inner_mtype": "pd.Series",
        "fit_is_empty": False,
    }

    def __init__(self, model: str = "local-level", method: str | Filter | None = None):
        self.model = model
        self.method = method
        super().__init__()

    def _fit(self, X: "pd.Series", y: object = None) -> "RobustDetector":
        """Select the model and fit its noise."""
        self.model_, self.parameters_ = _fitted(self.model, self.method, X.to_numpy(dtype=np.float64))
        return self

    def _predict(self, X: "pd.Series") -> "pd.Series":
        """List the rows that are outliers."""
        out = _filtered(self.model_, self.parameters_, self.method, X.to_numpy(dtype=np.float64))
        return type(X)(np.flatnonzero(np.reshape(out.outliers, (len(X), -1)).any(1)), name="ilocs", dtype="int64")

    def _transform_scores(self, X: "pd.Series") -> "pd.DataFrame":
        """Compute the absolute residual of each value, in predicted standard deviations; 0 if missing."""
        out = _filtered(self.model_, self.parameters_, self.method, X.to_numpy(dtype=np.float64))
        distance = np.abs(out.residuals[:, 0]) / np.sqrt(out.innovation_covs[:, 0, 0])
        return type(X)(np.nan_to_num(distance, nan=0.0), index=X.index, name="scores").to_frame()

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, object]]:
        """List settings for sktime's tests."""
        return [{}, {"method": "WoLF"}]


def _future(X: "pd.DataFrame", readings: "pd.Series", steps: int) -> np.ndarray:
    """Return the exogenous variables of the steps after the last value."""
    ahead = X.loc[X.index > readings.index[-1]].to_numpy(dtype=np.float64)
    if len(ahead) < steps:
        raise ValueError(f"X must have the exogenous variables of {steps} steps ahead; got {len(ahead)}")
    return np.asarray(ahead[:steps])


def _fitted(
    model: str, method: str | Filter | None, values: np.ndarray, exog: np.ndarray | None = None
) -> tuple[str, dict[str, float]]:
    """Select a model and fit its variances; nearly zero for a constant, or for too few values."""
    if exog is not None:
        values = values - (exog @ difference_coefficients(values[:, None], exog))[:, 0]
    known = values[np.isfinite(values)]
    if known.size < MIN_FIT_VALUES or np.all(known == known[0]):
        name = "local-level" if model == "auto" else model
        size = float(np.max(known**2, initial=1.0))
        return name, dict.fromkeys(parse(name).parameters, CONSTANT_NOISE_SHARE * size)
    found = clean(values[:, None], None, Options(model, method, {}, causal=True, diagnostics=False))[0]
    return found.model, found.parameters


def _filtered(
    name: str,
    parameters: dict[str, float],
    method: str | Filter | None,
    values: np.ndarray,
    exog: np.ndarray | None = None,
) -> Filtered:
    """Filter from a prior as wide as the values."""
    named, known = parse(name), values[np.isfinite(values)]
    step_var = max(float(np.median(np.diff(known) ** 2)), CONSTANT_NOISE_SHARE) if known.size > 1 else 1.0
    start = named.start(known[:, None] if known.size else np.zeros((1, 1)), step_var)
    model = named.builder(None, start, 1)(**parameters)
    return api.filter(model if exog is None else with_exogenous(model, exog), values, method=method)
