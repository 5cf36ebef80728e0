"""Models by name, for people who have readings and no model: "local-level", "seasonal:24", "constant-velocity", a file.

A recipe is a sum of parts. Each part says how it moves over a gap of any length, what it adds to the measurement, and
how much variance each of its parameters brings, so that one recipe serves even and uneven time stamps. Gaps are counted
in typical steps, the median gap of the data; variances are those of one typical step.
"""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolf import checks
from wolf.belief import Gaussian
from wolf.statespace import LinearModel

WAVES = 3  # sines and cosines of a season, unless told; enough for a smooth pattern, and a small state
FIRST = 15  # values that say where a series starts
WIDE = 3.0  # deviations of those values that the start may be off
MAD = 1.4826  # from a median absolute deviation to the standard deviation of a Gaussian

WORDS = {
    "local-level": "a level that wanders: level_var, obs_var",
    "local-trend": "a level with a slope that wanders: level_var, slope_var, obs_var",
    "seasonal:PERIOD": "a level and a pattern that repeats every PERIOD steps (seasonal:24, or seasonal:24:5 for a "
    "pattern of 5 waves): level_var, seasonal_var, obs_var",
    "constant-velocity": "a moving point, one column for each coordinate: accel_var, obs_var",
    "FILE.toml": "your own: parts with their variances, or the matrices F, H, Q, R, mean, cov",
}


class Part(NamedTuple):
    """One part of a recipe.

    Attributes:
        name: for messages.
        size: number of states, D.
        row: what it adds to the measurement, (D,).
        move: gaps (T,) or None for single steps -> F, (T, D, D) or (D, D).
        noise: parameter name -> (gaps -> the covariance that a unit of it brings).
        role: of each state: "level", "slope" or "season"; says how its prior is guessed.
    """

    name: str
    size: int
    row: np.ndarray
    move: Callable[[Any], np.ndarray]
    noise: dict[str, Callable[[Any], np.ndarray]]
    role: tuple[str, ...]


class Recipe(NamedTuple):
    """A model before the data.

    Attributes:
        name: as given.
        parts: summed; () for fixed matrices.
        columns: measured coordinates of one series, or None for any number, each with the same parts.
        given: parameters whose values are known.
        fixed: the whole model, where a file gave its matrices.
    """

    name: str
    parts: tuple[Part, ...]
    columns: int | None
    given: dict[str, float]
    fixed: LinearModel | None = None

    @property
    def parameters(self) -> list[str]:
        """List the variances that the recipe has."""
        names = [name for part in self.parts for name in part.noise]
        return [] if self.fixed is not None else [*dict.fromkeys(names), "obs_var"]

    def builder(self, gaps: np.ndarray | None, prior: Gaussian, columns: int = 1) -> Callable[..., LinearModel]:
        """Return a function of the parameters that returns a model.

        Args:
            gaps: before each measurement, (T,), in typical steps; None where all are 1.
            prior: belief before the first step.
            columns: measured coordinates.
        """
        if self.fixed is not None:
            fixed = self.fixed
            return lambda: fixed
        axes = np.eye(columns)
        dynamics = _kron(_diagonal([part.move(gaps) for part in self.parts]), axes)
        row = np.kron(np.concatenate([part.row for part in self.parts])[None], axes)
        sizes = [part.size for part in self.parts]
        shares: dict[str, Any] = {}
        for i, part in enumerate(self.parts):
            for name, noise in part.noise.items():
                shares[name] = shares.get(name, 0.0) + _kron(_placed(noise(gaps), i, sizes), axes)
        dynamics_or_none = None if dynamics.ndim == 2 and np.array_equal(dynamics, np.eye(len(dynamics))) else dynamics

        def build(obs_var: float, **variances: float) -> LinearModel:
            total = sum(variances[name] * share for name, share in shares.items())
            return _assemble(dynamics_or_none, row, total, obs_var * axes, prior)

        return build

    def start(self, values: np.ndarray, step_var: float) -> Gaussian:
        """Guess where a series starts, from its first values.

        The middle of the first values is a place that one outlier cannot move; the prior is as wide as they are.

        Args:
            values: (T, M).
            step_var: variance of the step from one value to the next.
        """
        if self.fixed is not None:
            return Gaussian(self.fixed.mean, self.fixed.cov)
        roles = [role for part in self.parts for role in part.role]
        columns = values.shape[1]
        means, variances = np.zeros((len(roles), columns)), np.full((len(roles), columns), step_var)
        for j, column in enumerate(values.T):
            some = column[np.isfinite(column)][:FIRST]
            middle = float(np.median(some)) if some.size else 0.0
            near = (MAD * float(np.median(np.abs(some - middle)))) ** 2 if some.size else 0.0
            for i, role in enumerate(roles):
                if role == "level":
                    means[i, j], variances[i, j] = middle, WIDE**2 * near + step_var
                elif role == "season":
                    variances[i, j] = _spread(column) + step_var
        return Gaussian(means.ravel(), np.diag(variances.ravel()))


def parse(spec: str) -> Recipe:
    """Find the recipe that a person means.

    Example:
        >>> parse("seasonal:24").parameters
        ['level_var', 'seasonal_var', 'obs_var']
    """
    name, _, rest = str(spec).partition(":")
    if name == "local-level" and not rest:
        return Recipe(spec, (level(),), 1, {})
    if name == "local-trend" and not rest:
        return Recipe(spec, (trend(),), 1, {})
    if name == "constant-velocity" and not rest:
        return Recipe(spec, (velocity(),), None, {})
    if name == "seasonal":
        return Recipe(spec, (level(), seasonal(*_season_numbers(spec, rest))), 1, {})
    if str(spec).endswith(".toml"):
        return read_file(Path(spec))
    close = get_close_matches(str(spec), WORDS, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"no model is called {spec!r}.{hint} There are: {', '.join(WORDS)}")


def level(name: str = "level_var") -> Part:
    """Make a level that moves as Brownian motion."""
    return Part("level", 1, np.ones(1), lambda gaps: np.eye(1), {name: _scaled(np.eye(1))}, ("level",))


def trend() -> Part:
    """Make a level with a slope; both move as Brownian motion, or as random walks when all steps are 1."""
    noise = {"level_var": _scaled(np.diag([1.0, 0.0])), "slope_var": _slope_noise}
    return Part("trend", 2, np.array([1.0, 0.0]), _shear, noise, ("level", "slope"))


def velocity() -> Part:
    """Make a position whose velocity moves as Brownian motion."""
    return Part("velocity", 2, np.array([1.0, 0.0]), _shear, {"accel_var": _integrated}, ("level", "slope"))


def seasonal(period: float, waves: int, name: str = "seasonal_var") -> Part:
    """Make a pattern of sines and cosines (Harvey 1989, section 2.3.4), each turning on with time.

    Args:
        period: steps in a season.
        waves: number of them; half of a whole period at most.
        name: of its variance.
    """
    angles = 2 * np.pi * np.arange(1, waves + 1) / period
    row = np.tile([1.0, 0.0], waves)

    def move(gaps: Any) -> np.ndarray:
        turned = np.multiply.outer(np.ones(()) if gaps is None else gaps, angles)
        cosine, sine = np.cos(turned), np.sin(turned)
        blocks = [[[cosine[..., k], sine[..., k]], [-sine[..., k], cosine[..., k]]] for k in range(waves)]
        return _diagonal([np.moveaxis(np.array(block), (0, 1), (-2, -1)) for block in blocks])

    # Turning leaves the covariance of isotropic noise as it is, so the noise of a gap is exact.
    return Part("seasonal", 2 * waves, row, move, {name: _scaled(np.eye(2 * waves))}, ("season",) * (2 * waves))


def read_file(path: Path) -> Recipe:
    """Read a recipe: `[[parts]]` with their variances (a number, or "fit"), or the matrices of a linear model."""
    import tomllib

    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no model file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    if "F" in text or "H" in text:
        absent = [name for name in ("F", "H", "Q", "R", "mean", "cov") if name not in text]
        if absent:
            raise ValueError(f"{path} lacks {', '.join(absent)}; a linear model has F, H, Q, R, mean and cov")
        fixed = LinearModel(*(text[name] for name in ("F", "H", "Q", "R", "mean", "cov")))
        return Recipe(str(path), (), fixed.obs_dim, {}, fixed)
    if not isinstance(text.get("parts"), list):
        raise ValueError(f"{path} has neither [[parts]] nor matrices F, H, Q, R, mean, cov")
    parts: list[Part] = []
    given: dict[str, float] = {}
    for described in text["parts"]:
        part = _read_part(path, described)
        if any(part.name == other.name for other in parts):
            raise ValueError(f"{path} has two parts of kind {part.name}; one of each")
        given |= {name: float(described[name]) for name in part.noise if described.get(name, "fit") != "fit"}
        parts.append(part)
    if text.get("obs_var", "fit") != "fit":
        given["obs_var"] = float(text["obs_var"])
    return Recipe(str(path), tuple(parts), 1, given)


def _read_part(path: Path, described: dict[str, Any]) -> Part:
    kind = described.get("kind")
    if kind == "level":
        part = level()
    elif kind == "trend":
        part = trend()
    elif kind == "seasonal":
        period = described.get("period")
        if not isinstance(period, int | float) or period < 2:
            raise ValueError(f"{path}: a seasonal part needs a period of at least 2 steps; got {period!r}")
        part = seasonal(period, int(described.get("waves", min(WAVES, int(period) // 2))))
    else:
        raise ValueError(f"{path}: a part is of kind level, trend or seasonal; got {kind!r}")
    wrong = set(described) - {"kind", "period", "waves", *part.noise}
    if wrong:
        raise ValueError(f"{path}: a {kind} part has no {', '.join(sorted(wrong))}; it has {', '.join(part.noise)}")
    for name in part.noise:
        if described.get(name, "fit") != "fit":
            checks.variances(**{name: described[name]})
    return part


def _season_numbers(spec: str, rest: str) -> tuple[int, int]:
    period, _, waves = rest.partition(":")
    if not period.isdigit() or int(period) < 2 or (waves and not waves.isdigit()):
        raise ValueError(f"a seasonal model needs its period in steps, as seasonal:24 or seasonal:24:5; got {spec!r}")
    most = int(period) // 2
    number = int(waves) if waves else min(WAVES, most)
    if not 1 <= number <= most:
        raise ValueError(f"a season of {period} steps has between 1 and {most} waves; got {spec!r}")
    return int(period), number


def _shear(gaps: Any) -> np.ndarray:
    size = np.ones(()) if gaps is None else gaps
    return np.eye(2) + np.multiply.outer(size, [[0.0, 1.0], [0.0, 0.0]])


def _scaled(matrix: np.ndarray) -> Callable[[Any], np.ndarray]:
    return lambda gaps: matrix if gaps is None else np.multiply.outer(gaps, matrix)


def _slope_noise(gaps: Any) -> np.ndarray:
    return np.diag([0.0, 1.0]) if gaps is None else _integrated(gaps)


def _integrated(gaps: Any) -> np.ndarray:
    """Integrate white noise twice (Bar-Shalom, Li & Kirubarajan 2001, eq. 6.2.2-10)."""
    g = np.ones(()) if gaps is None else gaps
    rows = [[g**3 / 3, g**2 / 2], [g**2 / 2, g]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    sizes = [block.shape[-1] for block in blocks]
    return np.asarray(sum(_placed(block, i, sizes) for i, block in enumerate(blocks)))


def _placed(block: np.ndarray, index: int, sizes: list[int]) -> np.ndarray:
    """Put a block on the diagonal of a larger matrix of zeros."""
    before, after = sum(sizes[:index]), sum(sizes[index + 1 :])
    return np.pad(block, [(0, 0)] * (block.ndim - 2) + [(before, after)] * 2)


def _kron(matrix: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return matrix if axes.shape == (1, 1) else np.kron(matrix, axes)


def _assemble(dynamics: Any, row: np.ndarray, noise: Any, obs_cov: np.ndarray, prior: Gaussian) -> LinearModel:
    return LinearModel(F=dynamics, H=row, Q=noise, R=obs_cov, mean=prior.mean, cov=prior.cov)


def _spread(column: np.ndarray) -> float:
    some = column[np.isfinite(column)]
    return (MAD * float(np.median(np.abs(some - np.median(some))))) ** 2 if some.size else 0.0
