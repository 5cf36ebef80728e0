"""Names of states and measurements, which results carry into frames, figures and texts.

States of one component share the text before a bracket: `seasonal_24[0]` and `seasonal_24[1]` belong to `seasonal_24`.
"""

from collections.abc import Sequence

from wolf import validation
from wolf.statespace.linear import LinearModel
from wolf.statespace.model import Model
from wolf.statespace.nonlinear import StateSpaceModel

Names = tuple[str, ...] | None  # None: numbers are used


def state_names(model: Model | Sequence[Model]) -> Names:
    """Return the names of the states of a model, or of the first of many; None if it has none."""
    first = model[0] if isinstance(model, list | tuple) else model
    return first.state_names if isinstance(first, LinearModel | StateSpaceModel) else None  # type: ignore[return-value]


def obs_names(model: Model | Sequence[Model]) -> Names:
    """Return the names of the measured coordinates of a model, or of the first of many; None if it has none."""
    first = model[0] if isinstance(model, list | tuple) else model
    return first.obs_names if isinstance(first, LinearModel | StateSpaceModel) else None  # type: ignore[return-value]


def group_of(name: str) -> str:
    """Return the component that a state belongs to: its name before a bracket.

    Example:
        >>> group_of("seasonal_24[3]"), group_of("level")
        ('seasonal_24', 'level')
    """
    return name.partition("[")[0]


def find_name(kind: str, wanted: object, names: Names, size: int) -> int:
    """Return the number of a state or measurement, given by its number or its name.

    Args:
        kind: "state" or "measurement", for the error.
        wanted: number or name.
        names: of all of them; None if they have none.
        size: how many there are.

    Example:
        >>> find_name("state", "slope", ("level", "slope"), 2)
        1
    """
    if isinstance(wanted, str):
        if names is None or wanted not in names:
            listed = f"they are {', '.join(names)}" if names else f"they have none: use a number from 0 to {size - 1}"
            raise ValueError(f"no {kind} is called {wanted!r}; {listed}")
        return names.index(wanted)
    if validation.integer(kind, wanted) >= size:
        raise ValueError(f"{kind} must be a number between 0 and {size - 1}, or a name; got {wanted}")
    return int(wanted)  # type: ignore[call-overload]
