"""The public names of wolf with their signatures, as text: `tests/project/public_api.txt`.

    python tests/project/public_api.py --write

A difference of that file shows in review what a change does to users; `docs/stability.md` has the rules. Annotations
are left out, and a default that is not a plain value is written as `...`.
"""

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import wolf

RECORD = Path(__file__).parent / "public_api.txt"
OPTIONAL = ("OnlineClassifier", "OnlineRegressor")  # with scikit-learn; not in __all__
PLAIN = (bool, int, float, str, type(None))


def lines() -> Iterator[str]:
    """Yield one line per public name: of `wolf`, its public modules, and the members of its classes."""
    for name in sorted({*wolf.__all__, *OPTIONAL}):
        found = getattr(wolf, name)
        if isinstance(found, ModuleType):
            yield f"wolf.{name}: module"
            for inner in sorted(_names(found)):
                yield from _described(f"wolf.{name}.{inner}", getattr(found, inner))
        else:
            yield from _described(f"wolf.{name}", found)


def _names(module: ModuleType) -> Iterator[str]:
    """Yield what a public module lists in `__all__`, or defines or gathers from below it."""
    if hasattr(module, "__all__"):
        yield from module.__all__
        return
    for name, value in vars(module).items():
        inside = str(getattr(value, "__module__", "")).startswith(f"{module.__name__}")
        if not name.startswith("_") and callable(value) and inside:
            yield name


def _described(path: str, found: object) -> Iterator[str]:
    if isinstance(found, ModuleType):
        yield f"{path}: module"
    elif not callable(found):
        yield f"{path}: {type(found).__name__}"
    else:
        yield f"{path}{_signature(found)}"
        if inspect.isclass(found) and path.count(".") == 1:
            yield from _members(path, found)


def _members(path: str, found: type) -> Iterator[str]:
    ours = [each for each in found.__mro__ if each.__module__.startswith("wolf")]  # not scikit-learn's, not tuple's
    for name in sorted({name for each in ours for name in vars(each) if not name.startswith("_")}):
        member = inspect.getattr_static(found, name)
        if isinstance(member, classmethod | staticmethod):
            yield f"{path}.{name}{_signature(getattr(found, name))}"
        elif inspect.isfunction(member):
            yield f"{path}.{name}{_signature(member)}"
        else:
            yield f"{path}.{name}"


def _signature(found: object) -> str:
    try:
        signature = inspect.signature(found)
    except ValueError:
        return "(...)"
    parts = [
        each.replace(annotation=inspect.Parameter.empty, default=_plain(each.default))
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts, return_annotation=inspect.Signature.empty)).replace(
        "Ellipsis", "..."
    )


def _plain(default: object) -> object:
    simple = default is inspect.Parameter.empty or (isinstance(default, PLAIN) and not isinstance(default, Enum))
    return default if simple else ...


if __name__ == "__main__":
    text = "".join(f"{line}\n" for line in lines())
    RECORD.write_text(text) if "--write" in sys.argv else print(text, end="")
