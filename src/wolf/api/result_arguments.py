"""Arguments that `smooth`, `forecast` and `sample_paths` share: a `Filtered` and its model."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from wolf.execution import validate
from wolf.inference.filters import ErrorState
from wolf.results import Filtered
from wolf.statespace import Model, is_model, with_matrices

T = TypeVar("T")
ON_MANIFOLDS = ("smooth", "forecast")  # what works on the errors of states that cannot be added
Models = Model | Sequence[Model]  # one for all series, or one for each


def model_optional(verb: Callable[..., T]) -> Callable[..., T]:
    """Allow `verb(out, ...)` for `verb(model, out, ...)`; the model is then that of the result."""

    @wraps(verb)
    def call(*args: Any, **options: Any) -> T:
        out = args[0] if args else options.get("out")
        if isinstance(out, Filtered) and "model" not in options:
            return verb(out.model, *args, **options)
        return verb(*args, **options)

    return call


def stack_with_matrices(model: Models) -> tuple[bool, Model]:
    """Return whether each series has a model of its own, and the models with matrices, stacked in that case."""
    if is_model(model):
        return False, with_matrices(model)
    return True, validate.stack_models(tuple(map(with_matrices, cast(Sequence[Model], model))))


def check_result(verb: str, model: Models, out: Filtered) -> None:
    """Raise a ValueError unless `out` is the result of a Gaussian filter with this model."""
    if not isinstance(out, Filtered):
        raise ValueError(f"{verb} takes what wolf.filter returned; got {type(out).__name__}")
    if isinstance(out.method, ErrorState) and verb not in ON_MANIFOLDS:
        raise ValueError(f"{verb} adds states, and those of this model are on a manifold: use smooth or forecast")
    if out.method.linearization is None and not isinstance(out.method, ErrorState):
        raise ValueError(f"{verb} needs a Gaussian filter, such as method='WoLF'; this ran {type(out.method).__name__}")
    models: Sequence[Any] = model if isinstance(model, list | tuple) and model else [model]
    for each in models:
        validate.check_model(each)
    sizes = {(each.state_dim, each.obs_dim) for each in models}
    first = out.model[0] if isinstance(out.model, tuple) else out.model
    if sizes != {(first.state_dim, first.obs_dim)}:
        raise ValueError(f"model must be the one that was filtered, {first!r}; got {models[0]!r}")


def check_smoothable(verb: str, model: Models, out: Filtered) -> None:
    """Raise a ValueError unless `out` has all covariances and ends at its final state."""
    check_result(verb, model, out)
    if out.settings["save"] != "all":
        raise ValueError(f'smoothing needs covariances: filter with save="all", not save={out.settings["save"]!r}')
    if "slice" in out.settings:
        raise ValueError("a slice lacks what came after it; smooth the whole result, then slice its means")
