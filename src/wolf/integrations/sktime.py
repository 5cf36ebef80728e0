"""A sktime transformer, `RobustLevelTransformer`. sktime is large and not part of any extra."""

from typing import Any, ClassVar

import numpy as np

from wolf.readings import Options, clean

try:
    from sktime.transformations.base import BaseTransformer
except ImportError as missing:
    raise ModuleNotFoundError(
        "this RobustLevelTransformer needs sktime: pip install sktime", name="sktime"
    ) from missing


class RobustLevelTransformer(BaseTransformer):
    """Replace a series by its robust level, or only its outliers and gaps.

    Filters each variable with a Kalman filter that outliers do not break; noise variances are fitted. NaN is missing.

    Parameters
    ----------
    model : str, default="local-level"
        "auto" to choose one from the data, "local-level", "local-trend" or "seasonal:24", as in `wolf.filter_frame`.
    method : str or method, optional
        As in `wolf.filter`; default: robust.
    smooth : bool, default=False
        Use the whole series for each step, not only its past.
    output : str, default="level"
        "level" for the estimate at every step, "repaired" for the readings with the estimate in place of outliers and
        missing ones.

    Examples:
    --------
    >>> import numpy as np, pandas as pd
    >>> from wolf.integrations.sktime import RobustLevelTransformer
    >>> readings = np.random.default_rng(0).normal(20.0, 1.0, 200)
    >>> readings[50] = 999.0
    >>> out = RobustLevelTransformer(output="repaired").fit_transform(pd.Series(readings))
    >>> bool(abs(out.iloc[50] - 20.0) < 3.0)
    True
    """

    _tags: ClassVar[dict[str, Any]] = {
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

    def __init__(self, model: str = "auto", method: Any = None, smooth: bool = False, output: str = "level"):
        self.model = model
        self.method = method
        self.smooth = smooth
        self.output = output
        super().__init__()

    def _transform(self, X: Any, y: Any = None) -> Any:
        """Filter each variable."""
        if self.output not in ("level", "repaired"):
            raise ValueError(f"output must be 'level' or 'repaired'; got {self.output!r}")
        values = X.to_numpy(dtype=np.float64)
        columns = [self._column(column) for column in values.T]
        return type(X)(np.stack(columns, axis=1), index=X.index, columns=X.columns)

    def _column(self, column: np.ndarray) -> np.ndarray:
        known = column[np.isfinite(column)]
        if known.size < 5 or np.all(known == known[0]):  # too little to fit a noise to
            return np.where(np.isfinite(column), column, np.median(known)) if known.size else column
        how: Any = {"smooth": self.smooth, "live": not self.smooth, "diagnostics": False}
        options = Options(self.model, self.method, {}, **how)
        found = clean(column[:, None], None, options)[0]
        if self.output == "level":
            return found.mean[:, 0]
        doubtful = found.outlier.reshape(len(column)) | ~np.isfinite(column)
        return np.where(doubtful, found.mean[:, 0], column)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """List settings for sktime's own tests."""
        return [{}, {"output": "repaired", "smooth": True}]
