"""Post-processing of saved arrays: missing values, ends of series."""

import numpy as np

from wolf.engine.measurements import is_unusable


def postprocess_many(saved: dict[str, np.ndarray], ys: np.ndarray, lengths: np.ndarray | None) -> dict[str, np.ndarray]:
    """Set saved values of many series to NaN where the measurement is missing and after the end of a series."""
    saved = mark_missing(saved, ys)
    return saved if lengths is None else {name: blank_after(each, lengths) for name, each in saved.items()}


def mark_missing(saved: dict[str, np.ndarray], ys: np.ndarray) -> dict[str, np.ndarray]:
    """Set residuals and NIS to NaN for missing values, and to the value itself or inf for non-finite ones."""
    if "residuals" not in saved:
        return saved
    non_finite = is_unusable(ys, saved["residuals"].dtype)
    residuals = np.where(non_finite, ys, np.where(np.isnan(ys), np.nan, saved["residuals"]))
    if "nis" not in saved:
        return saved | {"residuals": residuals}
    nis = np.where(np.isnan(ys).all(-1), np.nan, np.where(non_finite.any(-1), np.inf, saved["nis"]))
    return saved | {"residuals": residuals, "nis": nis}


def blank_after(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Set values after the end of each series to NaN, or to False."""
    inside = np.arange(values.shape[1]) < lengths[:, None]
    inside = inside.reshape(inside.shape + (1,) * (values.ndim - 2))
    return np.where(inside, values, False if values.dtype == bool else np.nan)
