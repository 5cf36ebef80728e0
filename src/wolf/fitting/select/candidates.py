"""Which models are tried on a series, cheap ones first, each round led by what won the one before."""

from collections.abc import Callable, Iterator

import numpy as np

from wolf.fitting.select.candidate_fit import CandidateFit
from wolf.fitting.select.seasonality import Season, find_seasons

SIMPLE = ("local-level", "local-trend")
DAMPED = ("damped-trend:0.8", "damped-trend:0.95")
LASTING = ("level+ar-noise:0.5", "level+ar-noise:0.9")
TRACK = ("wiener-velocity", "constant-velocity")
MOST_SEASONS = 2
SECOND_WAVES = 3  # of a second season: the first has the shape


def search(values: np.ndarray, unit: float | None, attempt: Callable[[str], CandidateFit]) -> Iterator[CandidateFit]:
    """Try candidates on one series.

    Args:
        values: (T,), NaN where missing.
        unit: seconds in a step, if a clock's.
        attempt: name -> what it came to.
    """
    tried = []
    for name in (*SIMPLE, *DAMPED, *LASTING):
        tried.append(attempt(name))
        yield tried[-1]
    seasons = find_seasons(values, unit)[:MOST_SEASONS]
    if not seasons:
        return
    best = max(tried, key=lambda trial: trial.merit)
    bases = dict.fromkeys(["level", _base(best.name)])
    found = []
    for base in bases:
        for season in seasons:
            trial = attempt(f"{base}+{told(season)}")
            found.append((trial.merit, base, season))
            yield trial
    _, base, season = max(found)
    if LASTING[-1] not in bases:  # a season that is followed looks like a slope: without it, noise may last
        trial = attempt(f"{LASTING[-1]}+{told(season)}")
        found.append((trial.merit, LASTING[-1], season))
        yield trial
    if len(seasons) < 2:
        return
    _, base, season = max(found)
    other = next(each for each in seasons if each is not season)
    first, second = sorted([season, other], key=lambda each: each.period)
    waves = min(second.waves, SECOND_WAVES)
    yield attempt(f"{base}+{told(first)}+{told(second._replace(waves=waves))}")


def told(season: Season) -> str:
    """Write a season as a part of a model's name."""
    return f"seasonal:{season.period:.10g}:{season.waves}"


def _base(name: str) -> str:
    return {"local-level": "level", "local-trend": "trend"}.get(name, name)
