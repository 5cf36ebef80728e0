"""Components of a result: the share of each part of the state in the measurement, with its interval.

In a linear model y = H x + noise, the component of a group of states G is H_G x_G, with mean H_G m_G and variance
H_G P_GG H_Gᵀ. Groups come from the names of the states (`seasonal_24[0]`, `seasonal_24[1]`, ... are one group), so the
components of a model add up to its signal H x.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.results.views import data_frame
from wolf.statespace import LinearModel
from wolf.statespace.names import Names, group_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wolf.results.filtered import Filtered, FrameBackend


@dataclasses.dataclass(frozen=True, repr=False)
class Component:
    """Share of a group of states in the measurement, or a state that no measurement contains, such as a slope.

    Attributes:
        name: of the group or the state.
        mean: (T,), or (T, K) where it is part of several measured coordinates.
        sd: its standard deviation, in the same shape.
        lower: lower limit of its interval.
        upper: upper limit.
        level: probability of the interval.
        index: labels of the steps.
        measured: names of the K coordinates.
    """

    name: str
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    index: Any = None
    measured: tuple[str, ...] = ()

    def to_frame(self, backend: "FrameBackend" = "pandas") -> Any:
        """Return a data frame with the mean, standard deviation and interval; `backend` as in `Filtered.to_frame`."""
        return data_frame.make_frame([self._columns("")], backend, self.index)

    def _columns(self, title: str) -> dict[str, np.ndarray]:
        columns = {"mean": self.mean, "sd": self.sd, "lower": self.lower, "upper": self.upper}
        tails = [f"_{each}" for each in self.measured] if self.mean.ndim == 2 else [""]
        start = f"{title}_" if title else ""
        return {
            (start + kind + tail): (array[:, k] if array.ndim == 2 else array)
            for k, tail in enumerate(tails)
            for kind, array in columns.items()
        }

    def __repr__(self) -> str:
        """Return the name, the number of steps and the last value."""
        last = ", ".join(
            f"{mean:.4g} ± {sd:.2g}" for mean, sd in zip(np.ravel(self.mean[-1]), np.ravel(self.sd[-1]), strict=True)
        )
        return (
            f"Component {self.name}: {len(self.mean)} steps, last {last}, {self.level:.0%} interval in .lower, .upper"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Components(Mapping[str, Component]):
    """Components by name, in the order of the states; their means add up to the signal.

    Attributes:
        parts: the components.
        filtered: the filtered series.
    """

    parts: tuple[Component, ...]
    filtered: "Filtered"

    def __getitem__(self, name: str) -> Component:
        """Return a component by its name."""
        found = {part.name: part for part in self.parts}
        if name not in found:
            raise KeyError(f"no component is called {name!r}; they are {', '.join(found)}")
        return found[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return (part.name for part in self.parts)

    def __len__(self) -> int:
        """Count the components."""
        return len(self.parts)

    def to_frame(self, backend: "FrameBackend" = "pandas") -> Any:
        """Return a data frame with columns such as `level_mean`, `level_sd`, `level_lower` and `level_upper`."""
        columns = {name: array for part in self.parts for name, array in part._columns(part.name).items()}
        return data_frame.make_frame([columns], backend, self.filtered.index)

    def plot(self, **options: Any) -> "Figure":
        """Draw the measurements with the signal, and a panel for each component; options of `wolf.plots.components`."""
        from wolf.plots.components_plot import components

        return components(self, **options)

    def __repr__(self) -> str:
        """List the components."""
        return "\n".join(["Components:", *(f"  {part!r}" for part in self.parts)])


def component(out: "Filtered", means: np.ndarray, covs: np.ndarray, name: str, level: float = 0.95) -> Component:
    """Return one component.

    Args:
        out: one filtered series with a linear model, whose states have names.
        means: filtered or smoothed, (T, D).
        covs: (T, D, D).
        name: of a group ("seasonal_24"), the start of one ("seasonal"), or a state ("slope").
        level: probability of the interval.
    """
    names, rows = _names_and_rows(out, means)
    states = _states_of(name, names)
    groups = list(dict.fromkeys(group_of(names[k]) for k in states))
    title = names[states[0]] if len(states) == 1 else groups[0]
    return _component(out, (means, covs, rows), title, states, level)


def components(out: "Filtered", means: np.ndarray, covs: np.ndarray, level: float = 0.95) -> Components:
    """Return all components that are part of a measurement; arguments as in `component`."""
    names, rows = _names_and_rows(out, means)
    groups = list(dict.fromkeys(map(group_of, names)))
    members = [[k for k, name in enumerate(names) if group_of(name) == group] for group in groups]
    parts = [
        _component(out, (means, covs, rows), names[states[0]] if len(states) == 1 else group, states, level)
        for group, states in zip(groups, members, strict=True)
        if np.any(rows[..., states])
    ]
    return Components(tuple(parts), out)


def signal(out: "Filtered", means: np.ndarray, covs: np.ndarray, level: float = 0.95) -> Component:
    """Return the sum of all components, on the scale of the measurements; arguments as in `component`."""
    _, rows = _names_and_rows(out, means)
    whole = _component(out, (means, covs, rows), "signal", list(range(rows.shape[-1])), level)
    scale = out.transform
    if scale is None:
        return whole
    sd = scale.undo_deviation(whole.mean, whole.sd)
    mean, lower, upper = (scale.undo(each) for each in (whole.mean, whole.lower, whole.upper))
    return dataclasses.replace(whole, mean=mean, sd=sd, lower=lower, upper=upper)


def _component(
    out: "Filtered", belief: tuple[np.ndarray, np.ndarray, np.ndarray], title: str, states: list[int], level: float
) -> Component:
    means, covs, rows = belief
    share = rows[..., states]
    measured = np.flatnonzero(np.any(share, axis=(0, 2)))
    if not len(measured):  # a slope, a velocity: the state itself
        share, measured = np.ones((1, 1, 1)), np.zeros(1, int)
    share = share[:, measured]
    mean = np.sum(share * means[:, None, states], axis=-1)
    inner = covs[:, states][:, :, states]
    variance = np.sum((share @ inner) * share, axis=-1)
    names = out.obs_names or tuple(map(str, range(rows.shape[1])))
    sd = np.sqrt(np.maximum(variance, 0.0))
    if len(measured) == 1:
        mean, sd = mean[:, 0], sd[:, 0]
    half = deviations(validation.confidence_level(level)) * sd
    return Component(title, mean, sd, mean - half, mean + half, level, out.index, tuple(names[j] for j in measured))


def _names_and_rows(out: "Filtered", means: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the states, and H at the steps of the result, (T, M, D) or (1, M, D)."""
    if out.num_series is not None:
        raise ValueError("components are those of one series; pick one of many, as out[0]")
    model, names = out.model, out.state_names
    if not isinstance(model, LinearModel):
        raise ValueError(f"components need a linear model, y = H x + noise; got {model!r}")
    H = np.asarray(model.H)
    if H.ndim == 2:
        rows = H[None]
    elif "slice" in out.settings:
        raise ValueError("H varies in time: take the components of the whole result, and slice their arrays")
    else:
        first = int(out.final.t) - len(means)  # a continued run begins later
        rows = H[first : first + len(means)]
    return _default_names(names, model.state_dim), rows


def _default_names(names: Names, size: int) -> tuple[str, ...]:
    return names or tuple(f"state_{k}" for k in range(size))


def _states_of(wanted: str, names: tuple[str, ...]) -> list[int]:
    """Find the states of a component by its name, or by the unique start of its name."""
    groups = list(dict.fromkeys(map(group_of, names)))
    matches = [group for group in groups if group == wanted] or [
        group for group in groups if group.startswith(f"{wanted}_")
    ]
    if wanted in names:
        return [names.index(wanted)]
    if len(matches) == 1:
        return [k for k, name in enumerate(names) if group_of(name) == matches[0]]
    problem = f"{wanted!r} is ambiguous" if matches else f"no component or state is called {wanted!r}"
    raise ValueError(f"{problem}; there are {', '.join(groups)}")
