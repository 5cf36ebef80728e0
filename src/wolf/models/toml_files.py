"""Models in TOML files: a name with its variances, components with theirs, or the matrices of a linear model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models.components import Part
from wolf.models.discretization import Gaps
from wolf.models.grammar import PARTS, find_word, parse_words
from wolf.models.structural import Sum, add_up
from wolf.statespace import LinearModel, time_axes
from wolf.statespace.array_fields import replace

MATRICES = ("F", "H", "Q", "R", "mean", "cov")


class Matrices(NamedTuple):
    """Model whose matrices are all known, with the interface of a `Sum`.

    Attributes:
        name: as given by the user.
        known: the model.
        lenient: whether a model without a motion over other time steps treats rows at uneven times as even steps.
    """

    name: str
    known: LinearModel
    lenient: bool = True

    @property
    def parameters(self) -> list[str]:
        """Names of variances: none."""
        return []

    @property
    def given(self) -> dict[str, float]:
        """Values of variances: none."""
        return {}

    @property
    def columns(self) -> int:
        """Number of measured coordinates."""
        return self.known.obs_dim

    def states(self, columns: int) -> int:
        """Count the states."""
        return self.known.state_dim

    def start(self, values: np.ndarray, step_var: float) -> Gaussian:
        """Return the prior of the model."""
        return self.known.prior

    def check_gaps(self, gaps: Gaps) -> None:
        """Validate that the model has a motion over uneven steps, unless it is lenient."""
        if gaps is not None and self.known.step_time is None and not self.lenient:
            raise ValueError(
                "the times are uneven, and your model has no motion over other time steps: add it by "
                "model.with_motion(...), or leave the times out to treat each row as one step"
            )

    def builder(self, gaps: Gaps, prior: Gaussian, columns: int = 1) -> Callable[..., LinearModel]:
        """Return a function that returns the model."""
        if gaps is None or self.known.step_time is None:
            return lambda: self.known
        dynamics, noise = self.known.over(gaps * self.known.step_time)
        return lambda: replace(self.known, F=dynamics, Q=noise)

    def model(self, gaps: Gaps = None, prior: Gaussian | None = None, columns: int = 1) -> LinearModel:
        """Return the model."""
        return self.known


Table = dict[str, Any]  # of a TOML file


def own(model: LinearModel) -> Matrices:
    """Wrap a user's model, which must be time-invariant and without inputs."""
    if model.takes_inputs or time_axes(model):
        what = "takes inputs" if model.takes_inputs else f"has {', '.join(time_axes(model))} that vary in time"
        raise ValueError(f"a model for readings must be time-invariant, and yours {what}: use wolf.filter")
    return Matrices("your model", model, lenient=False)


def read_file(path: Path) -> Sum | Matrices:
    """Read a model; a variance is a number, or "fit" to leave it free."""
    text = _read_toml(path)
    if "F" in text or "H" in text:
        absent = [name for name in MATRICES if name not in text]
        if absent:
            raise ValueError(f"{path} lacks {', '.join(absent)}; a linear model has F, H, Q, R, mean and cov")
        _check_keys(path, "a linear model", text, list(MATRICES))
        return Matrices(str(path), _read_matrices(path, text))
    if isinstance(text.get("model"), str):
        return _named(path, text)
    if not isinstance(text.get("parts"), list):
        raise ValueError(f"{path} has neither a model, nor [[parts]], nor matrices F, H, Q, R, mean, cov")
    if not text["parts"]:
        raise ValueError(f"{path} has an empty list of parts; a model needs at least one")
    parts = [_read_part(path, described) for described in text["parts"]]
    _check_keys(path, "the file", text, ["parts", "obs_var"])
    return add_up(str(path), parts, _variance(path, "obs_var", text))


def _read_matrices(path: Path, text: Table) -> LinearModel:
    try:
        for name in MATRICES:
            array = validation.number_array(name, text[name])
            if name != "mean" and array.ndim != 2:
                raise ValueError(f"{name} must be a list of rows; got an array of shape {array.shape}")
        return LinearModel(*(text[name] for name in MATRICES))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_toml(path: Path) -> Table:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no model file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error


def _named(path: Path, text: Table) -> Sum:
    """Read a model given by its name, with its variances."""
    found = parse_words(text["model"])
    _check_keys(path, text["model"], text, ["model", *found.parameters])
    parts = [_given(path, part, text) for part in found.parts]
    return Sum(str(path), tuple(parts), _variance(path, "obs_var", text), found.columns)


def _read_part(path: Path, described: Table) -> Part:
    kinds = {word.name: word for word in PARTS}
    if not isinstance(described, dict):
        raise ValueError(f'{path}: a part is a table, as [[parts]] and kind = "level" below it; got {described!r}')
    kind = described.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{path}: the kind of a part must be one of {', '.join(kinds)}; got {kind!r}")
    word = find_word(kind, kinds)
    absent = [name for name in word.arguments[: word.required] if name not in described]
    if absent:
        raise ValueError(f"{path}: a {kind} part needs {', '.join(absent)}")
    given = {name: described[name] for name in word.arguments if name in described}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path}: {name} of a {kind} part must be a number; got {value!r}")
    try:
        part = word.make(**given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    _check_keys(path, f"a {kind} part", described, ["kind", *word.arguments, *part.variances])
    return _given(path, part, described)


def _given(path: Path, part: Part, described: Table) -> Part:
    return part._replace(variances={name: _variance(path, name, described) for name in part.variances})


def _variance(path: Path, name: str, described: Table) -> float | None:
    value = described.get(name, "fit")
    if value == "fit":
        return None
    try:
        validation.variances(**{name: repr(value) if isinstance(value, bool) else value})
    except ValueError as error:
        raise ValueError(f'{path}: {error}; or "fit"') from error
    return float(value)


def _check_keys(path: Path, what: str, described: Table, known: list[str]) -> None:
    wrong = [name for name in described if name not in known]
    if wrong:
        raise ValueError(f"{path}: {what} has no {', '.join(wrong)}; it has {', '.join(known)}")
