"""Transformer and outlier detector for scikit-learn: `RobustLevel`, `RobustOutlierDetector` (the extra `learn`).

Rows are steps in time, and every column is a separate series, as for lag and rolling features of a pipeline.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from wolf.cleaning import CleanedSeries, Options, clean
from wolf.interfaces import Filter
from wolf.models.continuous import read_times

if TYPE_CHECKING:
    from sklearn.utils import Tags

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, OutlierMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ModuleNotFoundError(
        "RobustLevel and RobustOutlierDetector need scikit-learn: pip install scikit-learn",
        name="sklearn",
    ) from missing

INDEX = "index"
OUTPUTS = ("level", "cleaned")
MAX_CONTAMINATION = 0.5  # outliers are a minority
OUTLIER_SCORE = 3.0  # standard deviations that separate inliers and outliers, on the scale of the scores
CONSTANT_NOISE_SHARE = 1e-12  # noise variance of a constant, relative to its square: it is returned unchanged


class _ByColumn(BaseEstimator):
    """Base class: the noise of each column is fitted by `fit`, and the filter runs with it."""

    model: str
    method: str | Filter | None
    smooth: bool
    times: str | None = None

    def __sklearn_tags__(self) -> "Tags":
        """Declare that NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: ArrayLike, reset: bool) -> np.ndarray:
        options: dict[str, Any] = {"reset": reset, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, X, **options))

    def _stamps(self, X: object) -> np.ndarray | None:
        """Read the times of the rows from the index of a frame, if requested; seconds for dates."""
        if self.times is None:
            return None
        if self.times != INDEX:
            raise ValueError(f"times must be 'index', for frames with an index of times, or None; got {self.times!r}")
        if not hasattr(X, "index"):  # a frame of another library, or an array
            raise ValueError(f"times='index' needs a pandas frame with times as its index; got {type(X).__name__}")
        stamps = read_times(X.index.to_numpy())
        if not np.all(np.isfinite(stamps)) or np.any(np.diff(stamps) < 0):
            raise ValueError("the index must hold finite, nondecreasing times; try frame.sort_index()")
        return stamps

    def _fit_column(self, column: np.ndarray, stamps: np.ndarray | None = None) -> tuple[str, dict[str, float]]:
        known = column[np.isfinite(column)]
        if known.size and np.all(known == known[0]):
            name = "local-level" if self.model == "auto" else self.model
            return name, _constant_parameters(name, float(known[0]))
        options = Options(model=self.model, method=self.method, diagnostics=False, causal=True)
        found = clean(column[:, None], stamps, options)[0]
        return found.model, found.parameters

    def _clean_column(
        self, j: int, column: np.ndarray, diagnostics: bool = False, stamps: np.ndarray | None = None
    ) -> CleanedSeries:
        how: Any = {"smooth": self.smooth, "causal": not self.smooth, "diagnostics": diagnostics}
        options = Options(self.models_[j], self.method, self.parameters_[j], **how)
        return clean(column[:, None], stamps, options)[0]


class RobustLevel(OneToOneFeatureMixin, TransformerMixin, _ByColumn):
    """Replace each column by its robust level, or only its outliers and gaps.

    `fit` fits the noise of every column; `transform` filters with it. NaN is missing.

    Args:
        model: "auto" to select one for each column from its data, "local-level", "local-trend" or "seasonal:24", as in
            `wolf.filter_frame`.
        method: as in `wolf.filter`.
        smooth: use the whole series for each row, and not only its past.
        output: "level" for the estimate in every row, "cleaned" for the values with the estimate in place of
            outliers and missing ones.
        times: "index" for the times of the rows from the index of a pandas frame, dates or numbers; None for even
            steps. Variances refer to the typical step of the fitted data.

    Attributes:
        models_: name of the model of each column.
        parameters_: fitted variances of each column, a list of dicts.

    Example:
        >>> readings = np.random.default_rng(0).normal(20.0, 1.0, (200, 1))
        >>> readings[50] = 999.0
        >>> out = RobustLevel(output="cleaned").fit_transform(readings)
        >>> bool(abs(out[50, 0] - 20.0) < 3.0), bool(out[49, 0] == readings[49, 0])
        (True, True)
    """

    def __init__(
        self,
        model: str = "auto",
        method: str | Filter | None = None,
        smooth: bool = False,
        output: str = "level",
        times: str | None = None,
    ):
        self.model = model
        self.method = method
        self.smooth = smooth
        self.output = output
        self.times = times

    def fit(self, X: ArrayLike, y: object = None) -> "RobustLevel":
        """Fit the noise of each column.

        Args:
            X: (rows, columns), in the order of time.
            y: not used.
        """
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {self.output!r}")
        values, stamps = self._validate(X, reset=True), self._stamps(X)
        fitted = [self._fit_column(column, stamps) for column in values.T]
        self.models_, self.parameters_ = [name for name, _ in fitted], [variances for _, variances in fitted]
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Filter each column.

        Args:
            X: (rows, columns), in the order of time.
        """
        check_is_fitted(self)
        values, stamps = self._validate(X, reset=False), self._stamps(X)
        return np.stack([self._column(j, column, stamps) for j, column in enumerate(values.T)], axis=1)

    def _column(self, j: int, column: np.ndarray, stamps: np.ndarray | None) -> np.ndarray:
        if not np.isfinite(column).any():
            return column
        found = self._clean_column(j, column, stamps=stamps)
        if self.output == "level":
            return found.mean[:, 0]
        replaced = found.outlier.reshape(len(column)) | ~np.isfinite(column)
        return np.where(replaced, found.mean[:, 0], column)


class RobustOutlierDetector(OutlierMixin, _ByColumn):
    """Detect outliers in series: 1 for an inlier, -1 for a row with an outlier in any column.

    Each row is judged by its one-step prediction, at the current level: a value that is usual at noon is an outlier at
    night. NaN is missing, and no outlier.

    Args:
        model: "local-level", "local-trend" or "seasonal:24", as in `wolf.filter_frame`.
        method: as in `wolf.filter`.
        contamination: "auto" for the outliers of the method, or the share of outliers among the rows of `fit`, in
            (0, 0.5].

    Attributes:
        parameters_: fitted variances of each column, a list of dicts.
        offset_: score below which a row is an outlier.

    Example:
        >>> readings = np.random.default_rng(0).normal(20.0, 1.0, (200, 1))
        >>> readings[50] = 999.0
        >>> np.flatnonzero(RobustOutlierDetector().fit_predict(readings) == -1).tolist()
        [50]
    """

    smooth = False  # each value is judged by its prediction

    def __init__(
        self, model: str = "local-level", method: str | Filter | None = None, contamination: float | str = "auto"
    ):
        self.model = model
        self.method = method
        self.contamination = contamination

    def fit(self, X: ArrayLike, y: object = None) -> "RobustOutlierDetector":
        """Fit the noise of each column, and the score threshold of outliers.

        Args:
            X: (rows, columns), in the order of time.
            y: not used.
        """
        share = self.contamination
        if share != "auto" and not (isinstance(share, int | float) and 0 < share <= MAX_CONTAMINATION):
            raise ValueError(f"contamination must be 'auto' or a share of rows in (0, 0.5]; got {share!r}")
        values = self._validate(X, reset=True)
        fitted = [self._fit_column(column) for column in values.T]
        self.models_, self.parameters_ = [name for name, _ in fitted], [parameters for _, parameters in fitted]
        self.offset_ = -OUTLIER_SCORE
        if isinstance(share, int | float):
            self.offset_ = float(np.percentile(self._scores(values), 100.0 * share))
        return self

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Score each row: minus the largest absolute residual, in predicted standard deviations.

        Outliers of the method have a score just below -3 or lower, other values at least -3.

        Args:
            X: (rows, columns), in the order of time.
        """
        check_is_fitted(self)
        return self._scores(self._validate(X, reset=False))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the scores minus `offset_`: negative for outliers.

        Args:
            X: (rows, columns), in the order of time.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Classify each row: -1 for an outlier, 1 otherwise.

        Args:
            X: (rows, columns), in the order of time.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _scores(self, values: np.ndarray) -> np.ndarray:
        return np.min([self._score_column(j, column) for j, column in enumerate(values.T)], axis=0)

    def _score_column(self, j: int, column: np.ndarray) -> np.ndarray:
        if not np.isfinite(column).any():
            return np.zeros(len(column))
        found = self._clean_column(j, column, diagnostics=True)
        distance = np.nan_to_num(np.abs(found.standardised[:, 0]), nan=0.0)
        outlier = found.outlier.reshape(len(column))
        above = np.nextafter(OUTLIER_SCORE, np.inf)
        return -np.where(outlier, np.maximum(distance, above), np.minimum(distance, OUTLIER_SCORE))


def _constant_parameters(model: str, value: float) -> dict[str, float]:
    from wolf.models.registry import parse

    return dict.fromkeys(parse(model).parameters, CONSTANT_NOISE_SHARE * max(value**2, 1.0))
