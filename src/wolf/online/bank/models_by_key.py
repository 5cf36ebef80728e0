"""Models by key: keys whose models differ in numbers only share compiled code, and are stepped in one call."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wolf import validation
from wolf.execution import backend_selection, function_checks, prepared, validate
from wolf.interfaces import Dtype, Filter
from wolf.native.frontend.signature import Signature
from wolf.online.bank.step import BankStepper
from wolf.results.conformal import ConformalIntervals
from wolf.statespace import Model, time_axes

Choice = Model | tuple[Model, str | Filter | None]  # the model of a key, or model and method
Table = Mapping[Hashable, Choice]
Group = Callable[[Hashable], Hashable]


class ModelOfKey(NamedTuple):
    """Where the model of a key is: number of its kind, and number within the kind."""

    kind: int
    number: int


class ModelsByKey:
    """Model and method of each key.

    Args:
        default: model of the keys that the table lacks; None makes such a key an error.
        method: of models that come without one, as in `wolf.filter`.
        models: models by key or by group, or a function from a key or group to its model; None for `default` only.
        group: function from a key to its group; default: each key is its own group.
        dtype: precision.
        intervals: by which measurements are calibrated.
    """

    def __init__(
        self,
        default: Model | None,
        method: str | Filter | None,
        models: Table | Callable[[Hashable], Choice] | None,
        group: Group | None,
        dtype: Dtype,
        intervals: ConformalIntervals | None,
    ):
        if models is not None and not isinstance(models, Mapping) and not callable(models):
            raise ValueError(f"models must be a dict or a function of a key; got {validation.short_repr(models)}")
        if default is None and not models:
            raise ValueError("give a model, or models= by key; a first model tells how many coordinates are measured")
        if group is not None and (models is None or not callable(group)):
            raise ValueError("group must be a function from a key to its group, and needs models=")
        self._method, self._dtype, self._intervals, self._group = method, dtype, intervals, group
        self._table: Table = models if isinstance(models, Mapping) else {}
        self._make = None if isinstance(models, Mapping) else models
        self.kinds: list[BankStepper] = []
        self._kind_of: dict[tuple[Signature | None, ...], int] = {}
        self._found: dict[Hashable, ModelOfKey] = {}  # by group
        self.is_single = models is None
        self._default = None if default is None else self._add(default, "the model")
        for name, choice in self._table.items():
            self._found[name] = self._add(choice, f"the model of {validation.short_repr(name)}")

    @property
    def widths(self) -> tuple[int, int]:
        """Largest numbers of floating-point and of integer entries of a state."""
        sizes = [kind.state_sizes for kind in self.kinds]
        return max(size[0] for size in sizes), max(size[1] for size in sizes)

    @property
    def default_model(self) -> Model | None:
        """The model of keys that have none of their own; None if there is none."""
        return None if self._default is None else self.kinds[self._default.kind].given_model(self._default.number)

    def _add(self, choice: Choice, name: str) -> ModelOfKey:
        """Add a model to the kind that it is of, or to a new one."""
        model, method = choice if isinstance(choice, tuple) else (choice, self._method)
        pair = prepared.resolve(model, method, 0)
        check_model(model, pair.method, self._dtype)
        if self.kinds and model.obs_dim != self.kinds[0].model.obs_dim:
            expected = self.kinds[0].model.obs_dim
            raise ValueError(f"all models must measure {expected} coordinates; {name} measures {model.obs_dim}")
        stepper = BankStepper(model, pair.adapted[0], pair.method, self._dtype, self._intervals)
        with function_checks.explained():
            stepper.program(False, False)
        if self.is_single:
            self.kinds.append(stepper)
            return ModelOfKey(0, 0)
        number = self._kind_of.setdefault(stepper.kind, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(stepper)
            return ModelOfKey(number, 0)
        return ModelOfKey(number, self.kinds[number].add(stepper))

    def find(self, keys: Sequence[Hashable]) -> np.ndarray:
        """Find kind and number of the model of each key, (n, 2); raise a ValueError for a key that has none."""
        if self.is_single:
            return np.zeros((len(keys), 2), np.int64)
        return np.array([self._find(key) for key in keys], np.int64).reshape(len(keys), 2)

    def _find(self, key: Hashable) -> ModelOfKey:
        name = key if self._group is None else self._group(key)
        if name not in self._found and self._make is not None:
            self._found[name] = self._add(self._make(name), f"the model of {validation.short_repr(name)}")
        found = self._found.get(name, self._default)
        if found is None:
            raise ValueError(
                f"there is no model for the key {validation.short_repr(key)}: add it to models=, "
                "or give a default model"
            )
        return found

    def add(self, models: Table) -> None:
        """Add models of keys or groups that had none."""
        if self.is_single:
            raise ValueError("this bank has one model for all keys; make it with models={} to add some by key")
        known = [name for name in models if name in self._found]
        if known:
            raise ValueError(f"{validation.short_repr(known[0])} has a model already")
        for name, choice in models.items():
            self._found[name] = self._add(choice, f"the model of {validation.short_repr(name)}")

    def start(self, models: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return states at the prior: their numbers and their counts, one row for each.

        Args:
            models: kind and number of each, (n, 2).
        """
        widths = self.widths
        numbers, counts = np.zeros((len(models), widths[0]), self._dtype), np.zeros((len(models), widths[1]), np.int32)
        for number, kind in enumerate(self.kinds):
            where = np.flatnonzero(models[:, 0] == number)
            if len(where):
                some, whole = kind.start(models[where, 1])
                numbers[where, : some.shape[1]], counts[where, : whole.shape[1]] = some, whole
        return numbers, counts


def check_model(model: Model, method: Filter, dtype: Dtype) -> None:
    """Raise a ValueError for a model or a method that a bank does not support."""
    validate.check_options(dtype, "all")
    if time_axes(model):
        raise ValueError("a bank takes models that are fixed in time; pass the times of measurements as times=")
    if model.takes_inputs:
        raise ValueError("a bank takes models without inputs")
    validate.check_functions(model, None, dtype)
    reason = backend_selection.unsupported_reason("native", model, method, None)
    if reason is not None:
        raise ValueError(
            f"a bank needs native code, which does not support this filter: {reason.detail}; use wolf.filter_many"
        )
