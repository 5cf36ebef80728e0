"""What a run keeps, and what is made of it when somebody asks: arrays by name, some of them not there yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import RLock
from typing import Any

import jax
import numpy as np

Arrays = dict[str, np.ndarray]


class LazyArrays(dict[str, np.ndarray]):
    """A dictionary of arrays of which some are computed when one of them is first read.

    To everybody it is a dictionary with all of them; copied, pickled or mapped by JAX it becomes a plain one.

    Args:
        there: those that are there.
        names: of all, in their order.
        make: computes all of the others, once.

    Example:
        >>> later = LazyArrays({"a": np.zeros(2)}, ("a", "b"), lambda: {"b": np.ones(2)})
        >>> len(later), later.waits, later["b"].tolist(), later.waits
        (2, True, [1.0, 1.0], False)
    """

    def __init__(self, there: Mapping[str, np.ndarray], names: Iterable[str], make: Callable[[], Arrays]):
        super().__init__(there)
        self._names, self._lock = tuple(names), RLock()
        self._make: Callable[[], Arrays] | None = make

    @property
    def waits(self) -> bool:
        """Whether some are not there yet."""
        return self._make is not None

    def all(self) -> Arrays:
        """Compute what is not there yet, and give all of them as a plain dictionary."""
        with self._lock:
            if self._make is not None:
                self.update(self._make())
                self._make = None  # lets go of what it was made from
        return {name: dict.__getitem__(self, name) for name in self._names}

    def cut(self, piece: Callable[[np.ndarray], np.ndarray]) -> "LazyArrays":
        """Take a piece of every array, of those that are not there yet when they are read."""
        there = {name: piece(values) for name, values in dict.items(self)}
        return LazyArrays(there, self._names, lambda: {name: piece(values) for name, values in self.all().items()})

    def __getitem__(self, name: str) -> np.ndarray:
        """Read one."""
        return dict.__getitem__(self, name) if dict.__contains__(self, name) else self.all()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Read one, or the default where there is none of this name."""
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        """Say whether there is one of this name."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count them."""
        return len(self._names)

    def keys(self) -> Any:
        """Give the names."""
        return dict.fromkeys(self._names).keys()

    def values(self) -> Any:
        """Give all arrays."""
        return self.all().values()

    def items(self) -> Any:
        """Give all names and arrays."""
        return self.all().items()

    def copy(self) -> Arrays:
        """Make a plain dictionary."""
        return self.all()

    def __eq__(self, other: object) -> bool:
        """Compare as a dictionary."""
        return self.all() == other

    def __or__(self, other: Any) -> Any:
        """Join with another dictionary."""
        return self.all() | dict(other)

    def __ror__(self, other: Any) -> Any:
        """Join another dictionary with this one."""
        return dict(other) | self.all()

    def __repr__(self) -> str:
        """Show all."""
        return repr(self.all())

    def __reduce__(self) -> Any:
        """Pickle as a plain dictionary."""
        return dict, (self.all(),)


def _join(names: tuple[str, ...], values: Iterable[Any]) -> Any:
    return dict(zip(names, values, strict=True))


jax.tree_util.register_pytree_node(LazyArrays, lambda later: (tuple(later.all().values()), tuple(later)), _join)
