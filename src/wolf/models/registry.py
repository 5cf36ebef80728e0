"""Models by name or from a file, as for `--model`, `wolf.filter_frame(model=...)` and `make`."""

from os import PathLike
from pathlib import Path

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models import grammar
from wolf.models.continuous import time_steps
from wolf.models.structural import Sum
from wolf.models.toml_files import Matrices, own, read_file
from wolf.statespace import LinearModel

Named = Sum | Matrices  # a model before its variances, times and prior are known


def names() -> list[str]:
    """List the names of models and components.

    Example:
        >>> "constant-velocity" in names()
        True
    """
    return list(grammar.WORDS)


def make(
    name: str,
    dims: int = 1,
    prior: Gaussian | None = None,
    times: object = None,
    start: float | None = None,
    **variances: float,
) -> LinearModel:
    """Build a model by its name, as on the command line.

    Args:
        name: such as "local-trend", "seasonal:24" or "trend+seasonal:24:3", or a TOML file; see `wolf models`.
        dims: measured coordinates, for a moving point.
        prior: belief before the first step; default: as in the function of the same name.
        times: of the measurements, (T,), in units of steps; default: even steps.
        start: time of the prior; default: the first time. Only with times.
        **variances: by name, all that a file does not define.

    Example:
        >>> make("trend+seasonal:24:3", level_var=0.1, slope_var=0.0, seasonal_var=0.0, obs_var=1.0)
        LinearModel(8 states, 1 measured)
    """
    if not isinstance(name, str | PathLike):
        raise ValueError(
            f"name must be the name of a model, such as 'local-level', or a file; got {validation.short_repr(name)}"
        )
    found = parse(str(name))
    check_parameters(found, variances)
    validation.variances(**variances)
    validation.count("dims", dims)
    gaps = None if times is None else time_steps(times, start)
    return found.model(gaps, prior, dims, **variances)


def parse(text: str | LinearModel) -> Named:
    """Parse a model, before its variances and times are known.

    Args:
        text: a name, a file, or a linear model.

    Example:
        >>> parse("seasonal:24").parameters
        ['level_var', 'seasonal_var', 'obs_var']
    """
    if isinstance(text, LinearModel):
        return own(text)
    return read_file(Path(text)) if str(text).endswith(".toml") else grammar.parse_words(str(text))


def check_parameters(model: Named, variances: dict[str, float]) -> None:
    """Validate that a model has the given parameters."""
    wrong = [name for name in variances if name not in model.parameters]
    if wrong:
        has = ", ".join(model.parameters) or "none to set: its matrices are given"
        raise ValueError(f"{model.name} has no parameter {', '.join(wrong)}; it has {has}")


def describe() -> str:
    """Format the table of models: names, descriptions and variances."""
    groups = {
        "models": [(word.usage, f"{word.words}: {', '.join(word.parameters)}") for word in grammar.MODELS],
        "components, added as in trend+seasonal:24; a level is prepended if there is neither level nor trend": [
            (word.usage, f"{word.words}: {', '.join(word.part.variances)}") for word in grammar.PARTS
        ],
        "files": [("FILE.toml", "a name or parts with variances, or the matrices F, H, Q, R, mean, cov")],
    }
    width = max(len(name) for rows in groups.values() for name, _ in rows) + 2
    lines = []
    for title, rows in groups.items():
        lines += [title, *(f"  {name:<{width}}{words}" for name, words in rows)]
    return "\n".join(lines)
