"""Candidates of a model selection, in the order of their cost; each round builds on the best of the previous ones."""

from collections.abc import Callable, Iterator, Sequence

from wolf.fitting.select.candidate_fit import CandidateFit
from wolf.fitting.select.seasonality import Season

SIMPLE = ("local-level", "local-trend")
DAMPED = ("damped-trend:0.8", "damped-trend:0.95")
AUTOCORRELATED = ("level+ar-noise:0.5", "level+ar-noise:0.9")
TRACK = ("wiener-velocity", "constant-velocity")
MAX_SEASONS = 2
MAX_WAVES_OF_SECOND = 3  # waves of a second season: the first one models the shape


def evaluate_candidates(seasons: Sequence[Season], evaluate: Callable[[str], CandidateFit]) -> Iterator[CandidateFit]:
    """Evaluate candidates on one series.

    Args:
        seasons: that it may have, the strongest first, at most `MAX_SEASONS`.
        evaluate: function from a name to its fit.
    """
    fits = []
    for name in (*SIMPLE, *DAMPED, *AUTOCORRELATED):
        fits.append(evaluate(name))
        yield fits[-1]
    if not seasons:
        return
    best = max(fits, key=lambda fit: fit.penalised_score)
    bases = dict.fromkeys(["level", _base_term(best.name)])
    season_fits = []
    for base in bases:
        for season in seasons:
            fit = evaluate(f"{base}+{season_term(season)}")
            season_fits.append((fit.penalised_score, base, season))
            yield fit
    _, base, season = max(season_fits)
    if AUTOCORRELATED[-1] not in bases:  # an unmodelled season resembles a slope and hides autocorrelated noise
        fit = evaluate(f"{AUTOCORRELATED[-1]}+{season_term(season)}")
        season_fits.append((fit.penalised_score, AUTOCORRELATED[-1], season))
        yield fit
    if len(seasons) < 2:
        return
    _, base, season = max(season_fits)
    other = next(each for each in seasons if each is not season)
    first, second = sorted([season, other], key=lambda each: each.period)
    waves = min(second.waves, MAX_WAVES_OF_SECOND)
    yield evaluate(f"{base}+{season_term(first)}+{season_term(second._replace(waves=waves))}")


def season_term(season: Season) -> str:
    """Format a season as a term of a model name."""
    return f"seasonal:{season.period:.10g}:{season.waves}"


def _base_term(name: str) -> str:
    return {"local-level": "level", "local-trend": "trend"}.get(name, name)
