"""Which drift `OnlineRegressor` should have by default: progressive errors on streams that move and that stand still.

    python benchmarks/drift.py            # the seeds that the default was chosen on
    python benchmarks/drift.py --fresh    # seeds that were not used in development

A stream has 2,000 rows of 3 features; the target is a linear relation that moves, in units of its spread, plus a sine
of the first feature and noise of 0.2; in the dirty ones a tenth of the targets is wrong. Numbers are root mean squared
errors after row 300 of predictions made before each block of 50 rows was learned, against the noise-free target.
"""

import sys
from collections.abc import Iterator

import numpy as np

import wolf

DRIFTS = (0.0, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
ROWS, BLOCK, BURN = 2_000, 50, 300
TUNING, FRESH = range(2), range(100, 105)


def weights(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Draw coefficients (ROWS, 3): still, wandering, turning once around, or replaced midway."""
    start = rng.normal(size=3)
    if kind == "still":
        return np.tile(start, (ROWS, 1))
    if kind == "wandering":
        return start + np.cumsum(0.03 * rng.normal(size=(ROWS, 3)), axis=0)
    if kind == "turning":
        angle = np.linspace(0.0, 2 * np.pi, ROWS)
        other = rng.normal(size=3)
        return np.outer(np.cos(angle), start) + np.outer(np.sin(angle), other)
    return np.where(np.arange(ROWS)[:, None] < ROWS // 2, start, rng.normal(size=3))


def streams(seeds: range) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield a name, features, targets and what the targets should be."""
    for kind in ("still", "wandering", "turning", "replaced"):
        for dirty in (False, True):
            for seed in seeds:
                rng = np.random.default_rng(seed)
                X = rng.normal(size=(ROWS, 3))
                signal = np.einsum("tk,tk->t", X, weights(kind, rng))
                signal = signal / signal.std() + 0.5 * np.sin(2 * X[:, 0])
                y = signal + 0.2 * rng.normal(size=ROWS)
                if dirty:
                    y = np.where(rng.random(ROWS) < 0.1, 20 * rng.normal(size=ROWS), y)
                yield f"{kind}{', 10 % wrong' if dirty else ''}", X, y, signal


def progressive_error(drift: float, X: np.ndarray, y: np.ndarray, signal: np.ndarray) -> float:
    learner = wolf.OnlineRegressor(drift_var=drift)
    learner.partial_fit(X[:BLOCK], y[:BLOCK])
    errors = []
    for first in range(BLOCK, ROWS, BLOCK):
        block = slice(first, first + BLOCK)
        errors.append(learner.predict(X[block]) - signal[block])
        learner.partial_fit(X[block], y[block])
    return float(np.sqrt(np.mean(np.concatenate(errors)[BURN - BLOCK :] ** 2)))


def main() -> None:
    fresh = "--fresh" in sys.argv
    seeds, drifts = (FRESH, (0.0, wolf.OnlineRegressor().drift_var, 1e-4)) if fresh else (TUNING, DRIFTS)
    found: dict[str, list[list[float]]] = {}
    for name, *stream in streams(seeds):
        found.setdefault(name, []).append([progressive_error(drift, *stream) for drift in drifts])
    print(f"{'stream':26}" + "".join(f"{drift:>9g}" for drift in drifts))
    for name, errors in found.items():
        print(f"{name:26}" + "".join(f"{error:9.3f}" for error in np.mean(errors, axis=0)))
    logs = np.log([np.mean(errors, axis=0) for errors in found.values()])
    regret = np.exp((logs - logs.min(axis=1, keepdims=True)).max(axis=0))
    print(f"{'worst ratio to the best':26}" + "".join(f"{each:9.2f}" for each in regret))


if __name__ == "__main__":
    main()
