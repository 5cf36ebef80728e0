"""A scikit-learn transformer: `from wolf.integrations.sklearn import RobustLevel` (the extra `learn`).

Rows are steps in time and every column is a series of its own, as in the lag and rolling features of a pipeline.
"""

from typing import Any

import numpy as np

from wolf.readings import Options, clean

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ModuleNotFoundError(
        'RobustLevel needs scikit-learn: pip install "wolf-filter[learn]" (in a clone of wolf: pip install ".[learn]")',
        name="sklearn",
    ) from missing

OUTPUTS = ("level", "repaired")
QUIET = 1e-12  # share of a constant's square that stands for its noise: it has none, and comes back as it is


class RobustLevel(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Replace each column by its robust level, or only its outliers and gaps.

    `fit` finds the noise of every column; `transform` filters with it. NaN is missing.

    Args:
        model: "auto" to choose one for each column from its data, "local-level", "local-trend" or "seasonal:24", as in
            `wolf.filter_frame`.
        method: as in `wolf.filter`.
        smooth: use the whole series for each row; a filter sees only the past, as it must for prediction.
        output: "level" for the estimate in every row, "repaired" for the readings with the estimate in place of
            outliers and missing ones.

    Attributes:
        models_: name of the model of each column.
        parameters_: fitted variances of each column, a list of dicts.

    Example:
        >>> readings = np.random.default_rng(0).normal(20.0, 1.0, (200, 1))
        >>> readings[50] = 999.0
        >>> out = RobustLevel(output="repaired").fit_transform(readings)
        >>> bool(abs(out[50, 0] - 20.0) < 3.0), bool(out[49, 0] == readings[49, 0])
        (True, True)
    """

    def __init__(self, model: str = "auto", method: Any = None, smooth: bool = False, output: str = "level"):
        self.model = model
        self.method = method
        self.smooth = smooth
        self.output = output

    def fit(self, X: Any, y: Any = None) -> "RobustLevel":
        """Find the noise of each column.

        Args:
            X: (rows, columns), in the order of time.
            y: not used.
        """
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {self.output!r}")
        values = self._validate(X, reset=True)
        fitted = [self._fit_column(column) for column in values.T]
        self.models_, self.parameters_ = [name for name, _ in fitted], [variances for _, variances in fitted]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Filter each column.

        Args:
            X: (rows, columns), in the order of time.
        """
        check_is_fitted(self)
        values = self._validate(X, reset=False)
        return np.stack([self._column(j, column) for j, column in enumerate(values.T)], axis=1)

    def __sklearn_tags__(self) -> Any:
        """Say that NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: Any, reset: bool) -> np.ndarray:
        options: dict[str, Any] = {"reset": reset, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, X, **options))

    def _fit_column(self, column: np.ndarray) -> tuple[str, dict[str, float]]:
        known = column[np.isfinite(column)]
        if known.size and np.all(known == known[0]):
            name = "local-level" if self.model == "auto" else self.model
            return name, _quiet(name, float(known[0]))
        options = Options(model=self.model, method=self.method, diagnostics=False, live=True)
        found = clean(column[:, None], None, options)[0]
        return found.model, found.parameters

    def _column(self, j: int, column: np.ndarray) -> np.ndarray:
        if not np.isfinite(column).any():
            return column
        how: Any = {"smooth": self.smooth, "live": not self.smooth, "diagnostics": False}
        options = Options(self.models_[j], self.method, self.parameters_[j], **how)
        found = clean(column[:, None], None, options)[0]
        if self.output == "level":
            return found.mean[:, 0]
        doubtful = found.outlier.reshape(len(column)) | ~np.isfinite(column)
        return np.where(doubtful, found.mean[:, 0], column)


def _quiet(model: str, value: float) -> dict[str, float]:
    from wolf.models.named import parse

    return dict.fromkeys(parse(model).parameters, QUIET * max(value**2, 1.0))
