"""Evidence of segments without a model: a level or a line with autocorrelated noise of a variance of its own.

Within a segment y(t) = β₀ + β₁ t + u(t) with u an AR(1) process of a common coefficient ρ, started afresh in each
segment. Prais-Winsten scaling (1954) whitens it: the first row times sqrt(1 - ρ²), the others minus ρ times the row
before. With conjugate priors, β ~ N(m, σ² V) and σ² inverse gamma for each segment, the evidence is that of a
multivariate Student t distribution, from running sums of the rows. The priors are centred on the noise and the
spread of the whole series (empirical Bayes). Readings far from their neighbours are moved to the limit of that distance
(Huber 1964), and a season is subtracted. Level or line, and ρ, are those with the largest evidence for the series.
"""

import numpy as np

from wolf.fitting.select.seasonality import find_seasons
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median

AUTOCORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.99)  # ρ that are tried
NOISE_SHAPE = (
    50.0  # a of the inverse gamma prior of σ²: the variance of a segment differs by some 20 % from that of the others
)
CLIP_DEVIATIONS = 4.0  # from the median of the neighbours, at which a reading is clipped
MEDIAN_WINDOW = 7  # of these neighbours
MIN_NOISE_SHARE = 0.1  # of the spread of the series: smaller deviations from a line are not visible in a plot of it
MIN_CYCLES = 4  # of a season that is subtracted
MIN_ROWS_FOR_SEASON = 40
SLOPE_SPAN = 0.25  # share of the series over which a slope changes the level by its spread (prior)


def prepare(values: np.ndarray) -> np.ndarray:
    """Subtract a season, clip spikes, and scale to unit noise; (T,), NaN where missing.

    Args:
        values: one column, (T,), NaN where missing.
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2:
        return np.zeros(len(values))
    filled = np.interp(np.arange(len(values)), known, values[known])
    if len(filled) >= MIN_ROWS_FOR_SEASON:
        filled = _without_season(filled)
    if len(filled) > MEDIAN_WINDOW:
        median = running_median(filled, MEDIAN_WINDOW, "nearest")
        half = MEDIAN_WINDOW // 2  # an outlier at an end would be repeated in its own window
        median[:half], median[-half:] = median[half], median[-half - 1]
        apart = filled - median
        limit = CLIP_DEVIATIONS * MAD_TO_STD * float(np.median(np.abs(apart[apart != 0.0]))) if apart.any() else 0.0
        filled = median + np.clip(apart, -limit, limit)
    spread = float(np.std(filled))
    noise = max(noise_deviation(filled), MIN_NOISE_SHARE * spread) or 1.0
    scaled = (filled - np.median(filled)) / noise
    scaled[~np.isfinite(values)] = np.nan
    return scaled


def noise_deviation(values: np.ndarray) -> float:
    """Estimate the standard deviation of the noise from second differences, which a line does not affect."""
    for order, gain in ((2, 6.0), (1, 2.0)):
        sizes = np.abs(np.diff(values, order))
        sizes = sizes[sizes > 0.0]
        if sizes.size:
            return MAD_TO_STD * float(np.median(sizes)) / np.sqrt(gain)
    return 1.0


def _without_season(values: np.ndarray) -> np.ndarray:
    """Subtract the median course of the strongest season."""
    for season in find_seasons(values)[:1]:
        period = round(season.period)
        if abs(season.period - period) < 0.02 * period and len(values) >= MIN_CYCLES * period:
            level = running_median(values, period + 1 - period % 2, "reflect")
            phase = np.arange(len(values)) % period
            course = np.array([np.median((values - level)[phase == k]) for k in range(period)])
            return np.asarray(values - (course - course.mean())[phase])
    return values


def segment_evidence(values: np.ndarray, max_steps: int, correlation: float, line: bool) -> np.ndarray:
    """Compute log p(y_s ... y_{s+n}) for every start s and n < max_steps, (T, max_steps); -inf beyond the end.

    Args:
        values: scaled to unit noise, (T,), NaN where missing.
        max_steps: of a segment.
        correlation: ρ.
        line: a line in each segment; a level otherwise.
    """
    steps = len(values)
    padded = np.concatenate([values, np.full(max_steps, np.nan)])
    y = np.lib.stride_tricks.sliding_window_view(padded, max_steps)[:steps]
    known = np.isfinite(y)
    y = np.where(known, y, 0.0)
    first = np.arange(max_steps) == 0
    follows = known & np.concatenate([np.zeros((steps, 1), bool), known[:, :-1]], axis=1)
    rho = np.where(follows, correlation, 0.0)
    gain = np.where(follows, 1.0, np.sqrt(1.0 - correlation**2)) * known  # a row after a gap starts afresh
    before = np.concatenate([np.zeros((steps, 1)), y[:, :-1]], axis=1)
    whitened = gain * y - rho * before
    one = gain - rho
    spread = max(float(np.nanvar(values)), 1.0)
    count = np.cumsum(known, axis=1)
    squares = np.cumsum(whitened**2, axis=1)
    log_jacobian = np.cumsum(np.where(known & ~follows, 0.5 * np.log1p(-(correlation**2)), 0.0), axis=1)
    sums = [np.cumsum(one**2, axis=1), np.cumsum(one * whitened, axis=1)]
    precision = 1.0 / spread
    noise_scale = NOISE_SHAPE * (1.0 - correlation**2) if correlation else NOISE_SHAPE
    if line:
        t = np.arange(max_steps) / max(SLOPE_SPAN * steps, 1.0)
        ramp = gain * t - rho * np.where(first, 0.0, t - t[1] if max_steps > 1 else 0.0)
        a, b, d = sums[0] + precision, np.cumsum(one * ramp, axis=1), np.cumsum(ramp**2, axis=1) + precision
        u, v = sums[1], np.cumsum(ramp * whitened, axis=1)
        determinant = a * d - b**2
        explained = (d * u**2 - 2 * b * u * v + a * v**2) / determinant
        log_det = np.log(determinant) - 2 * np.log(precision)
    else:
        a = sums[0] + precision
        explained, log_det = sums[1] ** 2 / a, np.log(a) - np.log(precision)
    from scipy.special import gammaln

    rest = np.maximum(squares - explained, 0.0)
    shape = NOISE_SHAPE + 0.5 * count
    evidence = (
        gammaln(shape)
        - gammaln(NOISE_SHAPE)
        + NOISE_SHAPE * np.log(noise_scale)
        - shape * np.log(noise_scale + 0.5 * rest)
        - 0.5 * log_det
        - 0.5 * count * np.log(2 * np.pi)
        + log_jacobian
    )
    evidence[np.arange(steps)[:, None] + np.arange(max_steps) >= steps] = -np.inf
    return np.asarray(evidence)
