"""Sums of components, independent of the data, as given by a name, a file or a call of `structural`.

A sum has its variances by name, given or free, and builds a model for even steps or for gaps of any length.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models.components import Part
from wolf.models.discretization import Gaps, along_axes, axis_names, block_diagonal, non_integer_gaps
from wolf.models.priors import diffuse_prior, prior_from_data
from wolf.numerics.pytree import array_module
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace

DIFFUSE_VARIANCE_RATIO = 1e6  # prior over measurement variance without a given prior: the first data dominate
MIN_STATES_FOR_SIZE_CHECK = 16  # above, the memory of the matrices of uneven steps is checked
MAX_MATRIX_ENTRIES = 2**26  # of all steps together: half a gigabyte


class Sum(NamedTuple):
    """Sum of components, built by `add_up`.

    Attributes:
        name: as given by the user.
        parts: components, whose variances all have different names.
        obs_var: variance of the measurement noise; None is free.
        columns: measured coordinates of one series, or None for any number, each with the same components.
    """

    name: str
    parts: tuple[Part, ...]
    obs_var: float | None = None
    columns: int | None = 1

    @property
    def variances(self) -> dict[str, float | None]:
        """Values of all variances by name; None is free."""
        return {name: value for part in self.parts for name, value in part.variances.items()} | {
            "obs_var": self.obs_var
        }

    @property
    def parameters(self) -> list[str]:
        """Names of all variances, given and free."""
        return list(self.variances)

    @property
    def given(self) -> dict[str, float]:
        """Values of the variances that are not free."""
        return {name: value for name, value in self.variances.items() if value is not None}

    def states(self, columns: int) -> int:
        """Count the states."""
        return columns * sum(part.size for part in self.parts)

    def state_names(self, columns: int) -> tuple[str, ...]:
        """Return the name of each state; of a moving point, px, py and so on, the positions first.

        Example:
            >>> from wolf.models.components import level, seasonal
            >>> add_up("mine", [level(), seasonal(24, harmonics=1)]).state_names(1)
            ('level', 'seasonal_24[0]', 'seasonal_24[1]')
        """
        groups, used = list[str](), set[str]()
        for part in self.parts:
            own = {name.partition("[")[0] for name in part.state_names}
            new = {name: _unused(name, used) for name in sorted(own)}
            used.update(new.values())
            groups += [new[name.partition("[")[0]] + "".join(name.partition("[")[1:]) for name in part.state_names]
        if self.columns == 1:
            return tuple(groups)
        return tuple(name + axis for name in groups for axis in axis_names(columns))

    def start(self, values: np.ndarray, step_var: float) -> Gaussian:
        """Estimate a prior from data; arguments as in `prior_from_data`."""
        return prior_from_data([role for part in self.parts for role in part.roles], values, step_var)

    def check_gaps(self, gaps: Gaps) -> None:
        """Validate that gaps are whole steps where a component requires that."""
        rows = [] if gaps is None else non_integer_gaps(gaps).tolist()
        for part in self.parts:
            if gaps is not None and rows and part.whole_steps_advice:
                found = f"row {rows[0] + 1} is {gaps[rows[0]]:.4g} steps after the previous one"
                raise ValueError(f"{part.name} requires whole steps, and {found}: {part.whole_steps_advice}")

    def builder(self, gaps: Gaps, prior: Gaussian, columns: int = 1) -> Callable[..., LinearModel]:
        """Return a function of the variances, by name, that returns a model.

        Args:
            gaps: before each measurement, (T,), in steps; None where all are 1.
            prior: belief before the first step.
            columns: measured coordinates, each with the same components: first all positions, then all velocities.
        """
        self.check_gaps(gaps)
        self._check_size(gaps, columns)
        axes = np.eye(columns)
        dynamics: Any = along_axes(block_diagonal([part.dynamics(gaps) for part in self.parts]), columns)
        row, shares = along_axes(_rows(self.parts), columns), self._shares(gaps, columns)
        named, measured = self.state_names(columns), None if self.columns == 1 else axis_names(columns)
        known = not validation.is_traced(dynamics)
        if known and dynamics.ndim == 2 and np.array_equal(dynamics, np.eye(len(dynamics))):
            dynamics = None  # the identity, without a product

        def build(obs_var: float, **variances: float) -> LinearModel:
            total: Any = sum(variances[name] * share for name, share in shares.items())
            return LinearModel(
                F=dynamics,
                H=row,
                Q=total,
                R=obs_var * axes,
                mean=prior.mean,
                cov=prior.cov,
                state_names=named,
                obs_names=measured,
            )

        return build

    def model(
        self, gaps: Gaps = None, prior: Gaussian | None = None, columns: int = 1, **variances: float
    ) -> LinearModel:
        """Build the model, with an explicit F.

        Args:
            gaps: as in `builder`.
            prior: as in `builder`; default: the priors of the components, diffuse where a component has none.
            columns: as in `builder`.
            **variances: values of the free variances, or other values of the given ones.
        """
        known = self.given | variances
        absent = [name for name in self.parameters if name not in known]
        if absent:
            raise ValueError(f"{self.name} needs {', '.join(f'{name}=...' for name in absent)}")
        given = None if prior is None else Gaussian(*validation.prior(prior, self.states(columns)))
        prior = self._prior(known, columns) if given is None else given
        built = self.builder(gaps, prior, columns)(**known)
        explicit = built if built.F is not None else replace(built, F=np.eye(built.state_dim))
        return explicit.with_motion(partial(self._motion, columns=columns, known=known))

    def _motion(self, gaps: np.ndarray, columns: int, known: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Compute F and Q over gaps of any length, in steps."""
        self.check_gaps(gaps)
        dynamics = along_axes(block_diagonal([part.dynamics(gaps) for part in self.parts]), columns)
        noise: Any = sum(known[name] * share for name, share in self._shares(gaps, columns).items())
        return dynamics, noise

    def _prior(self, known: Mapping[str, float], columns: int) -> Gaussian:
        """Combine the priors of the components, diffuse where a component has none."""
        priors = []
        for part in self.parts:
            prior = (
                part.prior
                if part.stationary_prior is None
                else part.stationary_prior(*(known[name] for name in part.variances))
            )
            priors.append(
                diffuse_prior(part.size, DIFFUSE_VARIANCE_RATIO * known["obs_var"]) if prior is None else prior
            )
        means = [p.mean for p in priors]
        mean = array_module(*means).concatenate(means)
        return Gaussian(mean.repeat(columns), along_axes(block_diagonal([p.cov for p in priors]), columns))

    def _shares(self, gaps: Gaps, columns: int) -> dict[str, np.ndarray]:
        """Compute the dynamics covariance for a unit of each variance."""
        blanks = [np.zeros((part.size, part.size)) for part in self.parts]
        return {
            name: along_axes(block_diagonal([*blanks[:i], noise(gaps), *blanks[i + 1 :]]), columns)
            for i, part in enumerate(self.parts)
            for name, noise in part.noise.items()
        }

    def _check_size(self, gaps: Gaps, columns: int) -> None:
        if self.columns not in (None, columns):
            advice = "only a moving point, such as wiener-velocity, has several"
            raise ValueError(f"{self.name} measures {self.columns} column, not {columns}: {advice}")
        size = self.states(columns)
        if gaps is not None and size > MIN_STATES_FOR_SIZE_CHECK and len(gaps) * size**2 > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"{self.name} has {size} states, too many for {len(gaps):,} uneven times: use a few harmonics instead "
                "of a full pattern, or even steps with NaN where nothing was measured"
            )


def add_up(
    name: str, parts: tuple[Part, ...] | list[Part], obs_var: float | None = None, columns: int | None = 1
) -> Sum:
    """Build a sum of components; a second variance of the same name is called name_2.

    Example:
        >>> from wolf.models.components import level, seasonal
        >>> add_up("mine", [level(), seasonal(24), seasonal(168, harmonics=2)]).parameters
        ['level_var', 'seasonal_var', 'seasonal_var_2', 'obs_var']
    """
    used: set[str] = set()
    renamed = []
    for part in parts:
        new = {each: _unused(each, used) for each in part.variances}
        used.update(new.values())
        noise = {new[each]: part.noise[each] for each in new}
        variances = {new[each]: part.variances[each] for each in new}
        renamed.append(part._replace(noise=noise, variances=variances))
    return Sum(name, tuple(renamed), obs_var, columns)


def _unused(name: str, used: set[str]) -> str:
    count, new = 1, name
    while new in used:
        count += 1
        new = f"{name}_{count}"
    return new


def _rows(parts: tuple[Part, ...]) -> np.ndarray:
    """Concatenate the observation rows of the components, (1, D) or (T, 1, D)."""
    steps = {len(part.H) for part in parts if part.H.ndim == 3}
    if len(steps) > 1:
        raise ValueError(f"regressors must have the same length; got {sorted(steps)}")
    return np.concatenate([np.broadcast_to(part.H, (*steps, *part.H.shape[-2:])) for part in parts], axis=-1)
