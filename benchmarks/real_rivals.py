"""Detectors of other libraries for `real.py`: each is run if its library is installed, and named as absent if not.

None of these libraries cleans a series, so what a detector flags is bridged by a straight line. Those that need the
share of readings to flag are given the true share of the faults, which a user would not know.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pandas as pd

MEDIAN = 101  # readings of the running median that is taken off where a detector knows of no level
SHARE = 0.02  # of the readings that are damaged, about
LAGS = 24  # readings that a forecast sees
MAD = 1.4826
MOST_LASTING = 0.95  # correlation from one reading to the next
FAR = 4.0  # deviations at which an error of a forecast is flagged

Flags = Callable[[np.ndarray], np.ndarray]


def _rest(values: np.ndarray) -> np.ndarray:
    """Take off a running median, and put the usual deviation to 1."""
    rest = values - pd.Series(values).rolling(MEDIAN, center=True, min_periods=1).median().to_numpy()
    return rest / (MAD * max(float(np.median(np.abs(rest))), 1e-12))


def sktime_capa(values: np.ndarray) -> np.ndarray:
    """Find points and runs that are off: CAPA (Fisch, Eckley & Fearnhead 2022), up to 30 readings.

    It takes readings for independent; the variance of a mean of correlated ones, (1 + ρ) / (1 - ρ) times as large, is
    put in, without which it flags a fifth of an untouched series.
    """
    from sktime.detection.capa import CAPA

    rest = np.clip(_rest(values), -FAR, FAR)
    lasting = min(max(float(np.corrcoef(rest[1:], rest[:-1])[0, 1]), 0.0), MOST_LASTING)
    found = CAPA(max_segment_length=30).fit_predict(
        pd.DataFrame(_rest(values) / np.sqrt((1 + lasting) / (1 - lasting)))
    )
    flags = np.zeros(len(values), bool)
    for place in found["ilocs"]:
        flags[place.left : place.right] = True
    return flags


def pyod_windows(values: np.ndarray) -> np.ndarray:
    """Look at windows of 10 readings by an isolation forest (Liu, Ting & Zhou 2008)."""
    from pyod.models.iforest import IForest
    from pyod.models.ts_od import TimeSeriesOD

    forest = IForest(contamination=SHARE, random_state=0)
    windows = TimeSeriesOD(forest, window_size=10, score_aggregation="mean", contamination=SHARE)
    return np.asarray(windows.fit(_rest(values)).labels_ == 1)


def pyod_spectral(values: np.ndarray) -> np.ndarray:
    """Look for what stands out of the spectrum (Ren et al. 2019)."""
    from pyod.models.ts_spectral_residual import SpectralResidual

    return np.asarray(SpectralResidual(contamination=SHARE).fit(values).labels_ == 1)


def darts_forecast(values: np.ndarray) -> np.ndarray:
    """Forecast each reading from 24 before it by linear regression, and flag far errors."""
    from darts import TimeSeries
    from darts.ad import ForecastingAnomalyModel, NormScorer
    from darts.models import LinearRegressionModel

    series = TimeSeries.from_values(values)
    model = ForecastingAnomalyModel(LinearRegressionModel(lags=LAGS), NormScorer())
    model.fit(series, allow_model_training=True)
    scores = model.score(series).values()[:, 0]
    errors = np.concatenate([np.zeros(len(values) - len(scores)), scores])
    return np.asarray(errors > FAR * MAD * np.median(scores))


RIVALS: dict[str, tuple[str, Flags]] = {
    "sktime CAPA": ("sktime", sktime_capa),
    "PyOD windows": ("pyod", pyod_windows),
    "PyOD spectral residual": ("pyod", pyod_spectral),
    "darts regression": ("darts", darts_forecast),
}


def installed() -> dict[str, Flags]:
    """Keep the rivals whose library is there; say which are not."""
    absent = sorted({library for library, _ in RIVALS.values() if find_spec(library) is None})
    if absent:
        print(f"not installed and left out: {', '.join(absent)}")
    return {name: flags for name, (library, flags) in RIVALS.items() if library not in absent}


def bridged(flags: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Put straight lines where readings are flagged."""
    kept = pd.Series(np.where(flags, np.nan, values))
    return kept.interpolate(limit_direction="both").to_numpy()
