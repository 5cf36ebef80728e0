"""What a run kept, as people are shown it: what was missing, where series end, and the settings."""

import platform
from typing import Any

import jax
import numpy as np

from wolf.engine.measurements import is_unusable
from wolf.execution import validate
from wolf.execution.prepared import Prepared


def shown(saved: dict[str, np.ndarray], ys: np.ndarray, lengths: np.ndarray | None) -> dict[str, np.ndarray]:
    """Mark what was not there in what was kept of many series, and blank what lies beyond their ends."""
    saved = mark_missing(saved, ys)
    return saved if lengths is None else {name: blank_after(each, lengths) for name, each in saved.items()}


def mark_missing(saved: dict[str, np.ndarray], ys: np.ndarray) -> dict[str, np.ndarray]:
    """Show what was not there: residuals and NIS of missing values are NaN, of wild ones as wild as they came."""
    if "residuals" not in saved:
        return saved
    wild = is_unusable(ys, saved["residuals"].dtype)
    residuals = np.where(wild, ys, np.where(np.isnan(ys), np.nan, saved["residuals"]))
    if "nis" not in saved:
        return saved | {"residuals": residuals}
    nis = np.where(np.isnan(ys).all(-1), np.nan, np.where(wild.any(-1), np.inf, saved["nis"]))
    return saved | {"residuals": residuals, "nis": nis}


def blank_after(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Blank what lies beyond the end of each series: NaN, or False."""
    inside = np.arange(values.shape[1]) < lengths[:, None]
    inside = inside.reshape(inside.shape + (1,) * (values.ndim - 2))
    return np.where(inside, values, False if values.dtype == bool else np.nan)


def settings_of(ready: Prepared, steps: int) -> dict[str, Any]:
    """Return how a run was made: method, options, backend and versions."""
    options, save = ready.options, ready.options.save
    return {
        "method": repr(ready.pair.method),
        "steps": steps,
        "dtype": options.dtype,
        "save": save if isinstance(save, str) else getattr(save, "__name__", repr(save)),
        "update_first": options.update_first,
        "backend": ready.choice,
        "wolf": validate.package_version(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }
