"""Sums of parts before the data: what a name on the command line, a file or a call of `structural` stands for.

A sum knows its variances by name, given or free, and builds a model for even steps or for gaps of any length.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models import discretization as over
from wolf.models.components import Part
from wolf.models.discretization import Gaps
from wolf.models.priors import diffuse_prior, guess_start
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace

VAGUE = 1e6  # prior variance over measurement variance, when no prior is given: the first data decide
MANY_STATES = 16  # from here on the matrices of uneven steps are counted
MOST_NUMBERS = 2**26  # in the matrices of all steps together: half a gigabyte


class Sum(NamedTuple):
    """A sum of parts; `add_up` makes one.

    Attributes:
        name: as a person gave it.
        parts: whose variances all have different names.
        obs_var: variance of the measurement noise; None is free.
        columns: measured coordinates of one series, or None for any number, each with the same parts.
    """

    name: str
    parts: tuple[Part, ...]
    obs_var: float | None = None
    columns: int | None = 1

    @property
    def variances(self) -> dict[str, Any]:
        """All variances with their values; None is free."""
        return {name: value for part in self.parts for name, value in part.variances.items()} | {
            "obs_var": self.obs_var
        }

    @property
    def parameters(self) -> list[str]:
        """Variances, given and free."""
        return list(self.variances)

    @property
    def given(self) -> dict[str, float]:
        """Variances that are not free, with their values."""
        return {name: value for name, value in self.variances.items() if value is not None}

    def states(self, columns: int) -> int:
        """Count the states."""
        return columns * sum(part.size for part in self.parts)

    def start(self, values: np.ndarray, step_var: float) -> Gaussian:
        """Guess where a series starts; arguments as in `guess_start`."""
        return guess_start([role for part in self.parts for role in part.roles], values, step_var)

    def check_gaps(self, gaps: Gaps) -> None:
        """Refuse gaps that are not whole steps where a part knows no others."""
        rows = [] if gaps is None else over.not_whole(gaps).tolist()
        for part in self.parts:
            if gaps is not None and rows and part.whole:
                found = f"row {rows[0] + 1} comes {gaps[rows[0]]:.4g} steps after the one before it"
                raise ValueError(f"{part.name} moves in whole steps, and {found}: {part.whole}")

    def builder(self, gaps: Gaps, prior: Gaussian, columns: int = 1) -> Callable[..., LinearModel]:
        """Return a function of the variances, by name, that returns a model.

        Args:
            gaps: before each measurement, (T,), in steps; None where all are 1.
            prior: belief before the first step.
            columns: measured coordinates, each with the same parts: all positions come first, then all velocities.
        """
        self.check_gaps(gaps)
        self._check_size(gaps, columns)
        axes = np.eye(columns)
        dynamics: Any = over.along_axes(over.diagonal([part.dynamics(gaps) for part in self.parts]), columns)
        row, shares = over.along_axes(_rows(self.parts), columns), self._shares(gaps, columns)
        if dynamics.ndim == 2 and np.array_equal(dynamics, np.eye(len(dynamics))):
            dynamics = None  # the identity, which costs nothing

        def build(obs_var: float, **variances: Any) -> LinearModel:
            total: Any = sum(variances[name] * share for name, share in shares.items())
            return LinearModel(F=dynamics, H=row, Q=total, R=obs_var * axes, mean=prior.mean, cov=prior.cov)

        return build

    def model(
        self, gaps: Gaps = None, prior: Gaussian | None = None, columns: int = 1, **variances: Any
    ) -> LinearModel:
        """Build the model, with F written out.

        Args:
            gaps: as in `builder`.
            prior: as in `builder`; the parts' own without one, vague where a part has none.
            columns: as in `builder`.
            **variances: those that are free, or others than the given.
        """
        known = self.given | variances
        absent = [name for name in self.parameters if name not in known]
        if absent:
            raise ValueError(f"{self.name} needs {', '.join(f'{name}=...' for name in absent)}")
        given = None if prior is None else Gaussian(*validation.prior(prior, self.states(columns)))
        prior = self._prior(known, columns) if given is None else given
        built = self.builder(gaps, prior, columns)(**known)
        whole = built if built.F is not None else replace(built, F=np.eye(built.state_dim))
        return whole.with_motion(partial(self._motion, columns=columns, known=known))

    def _motion(self, gaps: np.ndarray, columns: int, known: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Give F and Q over gaps of any length, in steps."""
        self.check_gaps(gaps)
        dynamics = over.along_axes(over.diagonal([part.dynamics(gaps) for part in self.parts]), columns)
        noise: Any = sum(known[name] * share for name, share in self._shares(gaps, columns).items())
        return dynamics, noise

    def _prior(self, known: dict[str, float], columns: int) -> Gaussian:
        """Put the priors of the parts together, vague where a part has none."""
        priors = []
        for part in self.parts:
            prior = part.prior if part.settled is None else part.settled(*(known[name] for name in part.variances))
            priors.append(diffuse_prior(part.size, VAGUE * known["obs_var"]) if prior is None else prior)
        mean, cov = np.concatenate([p.mean for p in priors]), over.diagonal([np.asarray(p.cov) for p in priors])
        return Gaussian(np.repeat(mean, columns), over.along_axes(cov, columns))

    def _shares(self, gaps: Gaps, columns: int) -> dict[str, np.ndarray]:
        """Pair each variance with the covariance that a unit of it brings."""
        blanks = [np.zeros((part.size, part.size)) for part in self.parts]
        return {
            name: over.along_axes(over.diagonal([*blanks[:i], noise(gaps), *blanks[i + 1 :]]), columns)
            for i, part in enumerate(self.parts)
            for name, noise in part.noise.items()
        }

    def _check_size(self, gaps: Gaps, columns: int) -> None:
        if self.columns not in (None, columns):
            advice = "only a moving point, such as wiener-velocity, has several"
            raise ValueError(f"{self.name} measures {self.columns} column, not {columns}: {advice}")
        size = self.states(columns)
        if gaps is not None and size > MANY_STATES and len(gaps) * size**2 > MOST_NUMBERS:
            raise ValueError(
                f"{self.name} has {size} states, too many for {len(gaps):,} uneven times: use a few harmonics in place "
                "of a full pattern, or even steps with blanks where nothing was measured"
            )


def add_up(
    name: str, parts: tuple[Part, ...] | list[Part], obs_var: float | None = None, columns: int | None = 1
) -> Sum:
    """Make a sum; a second variance of one name is called name_2.

    Example:
        >>> from wolf.models.components import level, seasonal
        >>> add_up("mine", [level(), seasonal(24), seasonal(168, harmonics=2)]).parameters
        ['level_var', 'seasonal_var', 'seasonal_var_2', 'obs_var']
    """
    taken: set[str] = set()
    apart = []
    for part in parts:
        new = {each: _unused(each, taken) for each in part.variances}
        taken.update(new.values())
        noise, variances = ({new[each]: told[each] for each in new} for told in (part.noise, part.variances))
        apart.append(part._replace(noise=noise, variances=variances))
    return Sum(name, tuple(apart), obs_var, columns)


def _unused(name: str, taken: set[str]) -> str:
    count, new = 1, name
    while new in taken:
        count += 1
        new = f"{name}_{count}"
    return new


def _rows(parts: tuple[Part, ...]) -> np.ndarray:
    """Put what the parts add to the measurement side by side, (1, D) or (T, 1, D)."""
    steps = {len(part.H) for part in parts if part.H.ndim == 3}
    if len(steps) > 1:
        raise ValueError(f"the parts' regressors must have one length; got {sorted(steps)}")
    return np.concatenate([np.broadcast_to(part.H, (*steps, *part.H.shape[-2:])) for part in parts], axis=-1)
