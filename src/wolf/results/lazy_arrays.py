"""A dictionary of arrays of which some are computed when they are first read."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from threading import RLock
from typing import Any

import jax
import numpy as np

from wolf.numerics.pytree import PyTree

Arrays = dict[str, np.ndarray]


class LazyArrays(dict[str, np.ndarray]):
    """A dictionary of arrays of which some are computed when one of them is first read.

    It behaves like a dictionary of all arrays; copied, pickled or mapped by JAX it becomes a plain one.

    Args:
        computed: the arrays that exist already.
        names: of all arrays, in order.
        compute: returns all of the others; called once.

    Example:
        >>> arrays = LazyArrays({"a": np.zeros(2)}, ("a", "b"), lambda: {"b": np.ones(2)})
        >>> len(arrays), arrays.pending, arrays["b"].tolist(), arrays.pending
        (2, True, [1.0, 1.0], False)
    """

    def __init__(self, computed: Mapping[str, np.ndarray], names: Iterable[str], compute: Callable[[], Arrays]):
        super().__init__(computed)
        self._names, self._lock = tuple(names), RLock()
        self._compute: Callable[[], Arrays] | None = compute

    @property
    def pending(self) -> bool:
        """Whether some arrays are not computed yet."""
        return self._compute is not None

    def all(self) -> Arrays:
        """Return all arrays as a plain dictionary, computing the pending ones."""
        with self._lock:
            if self._compute is not None:
                self.update(self._compute())
                self._compute = None  # releases the inputs of the computation
        return {name: dict.__getitem__(self, name) for name in self._names}

    def cut(self, piece: Callable[[np.ndarray], np.ndarray]) -> "LazyArrays":
        """Apply a function to every array; to the pending ones when they are read."""
        computed = {name: piece(values) for name, values in dict.items(self)}
        return LazyArrays(computed, self._names, lambda: {name: piece(values) for name, values in self.all().items()})

    def __getitem__(self, name: str) -> np.ndarray:
        """Return one array."""
        return dict.__getitem__(self, name) if dict.__contains__(self, name) else self.all()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return one array, or the default for an unknown name."""
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        """Return whether there is an array of this name."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._names)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names."""
        return dict.fromkeys(self._names).keys()

    def values(self) -> ValuesView[np.ndarray]:  # type: ignore[override]
        """Return all arrays."""
        return self.all().values()

    def items(self) -> ItemsView[str, np.ndarray]:  # type: ignore[override]
        """Return all names and arrays."""
        return self.all().items()

    def copy(self) -> Arrays:
        """Return a plain dictionary."""
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
        """Return the text of a plain dictionary."""
        return repr(self.all())

    def __reduce__(self) -> tuple[type[dict], tuple[Arrays]]:
        """Pickle as a plain dictionary."""
        return dict, (self.all(),)


def _join(names: tuple[str, ...], values: Iterable[PyTree]) -> PyTree:
    return dict(zip(names, values, strict=True))


jax.tree_util.register_pytree_node(LazyArrays, lambda later: (tuple(later.all().values()), tuple(later)), _join)
