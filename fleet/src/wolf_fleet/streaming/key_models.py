"""Models by key for streams and services: read from a file, or learned from the first rows of each key.

A file assigns models to keys by patterns. A warm-up selects the model of each key, or of each group of keys, and fits
its variances to the first rows; these are filtered afterwards, so that no row is left out.
"""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Hashable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from wolf import validation
from wolf.cleaning import runs
from wolf.diagnostics.faults import sentinel_values
from wolf.fitting.initial_values import DYNAMICS_SHARE, OBS_SHARE, difference_var
from wolf.fitting.select import choose_rows
from wolf.fitting.select.selection import MAX_VALUE
from wolf.interfaces import Filter
from wolf.models import registry
from wolf.models.priors import diffuse_prior
from wolf.online.bank.bank import Bank
from wolf.online.bank.models_by_key import Choice
from wolf.statespace import LinearModel
from wolf_fleet.streaming.row_parser import JsonObject

DIFFUSE_VARIANCE = 1e12  # of each state of a new key: its first row determines the level, in any unit
AUTO, SIMPLE_MODEL = "auto", "local-level"
WARM_UP_ROWS = 500
MIN_WARM_UP_ROWS = 20
MAX_KEYS_PER_GROUP = 20  # to which the variances of a group are fitted
MAX_USUAL_STEPS = 2.0  # between two rows, and its inverse: beyond, only a level is fitted, which has no period
CONSTANT_RELATIVE_STD = 1e-3  # of the noise of a key whose values are all equal
EVEN_TOLERANCE = 1e-6
RESTARTS = 2


@dataclasses.dataclass(frozen=True)
class KeyPatterns:
    """Function from a key to the first of some patterns that matches it; None if none does."""

    patterns: tuple[str, ...]

    def __call__(self, key: object) -> str | None:
        """Return the pattern."""
        return next((pattern for pattern in self.patterns if fnmatchcase(str(key), pattern)), None)


@dataclasses.dataclass(frozen=True)
class KeyGroups:
    """Function from a key to its group: what a regular expression finds in it; the key itself if it finds nothing."""

    expression: str

    def __call__(self, key: object) -> str:
        """Return the group: the first one of the expression, or the whole match."""
        found = re.search(self.expression, str(key))
        return str(key) if found is None else found[1 if found.re.groups else 0] or ""


@runtime_checkable
class ModelLearner(Protocol):
    """Protocol of learning the models of keys from their first rows; `WarmUp` is one."""

    @property
    def rows(self) -> int:
        """Number of rows of a key from which its model is learned."""
        ...

    @property
    def groups(self) -> Callable[[object], str] | None:
        """Function from a key to its group; None if each key is its own."""
        ...

    @property
    def settings(self) -> JsonObject:
        """Settings that a later run with the same state must share."""
        ...

    def make_bank(self, num_values: int) -> Bank:
        """Create a bank without models of keys."""
        ...

    def learn(self, series: list[tuple[np.ndarray | None, np.ndarray]]) -> JsonObject:
        """Return the name and the variances of the model of a group of keys."""
        ...


@dataclasses.dataclass(frozen=True)
class WarmUp:
    r"""Models that are learned from the first rows of each key; in place of a bank for streams and services.

    Args:
        rows: number of rows of a key from which its model is learned. They wait until then.
        model: name of a model whose variances are fitted, or "auto" to select one too (`wolf.choose`).
        method: as in `wolf.filter`.
        group: regular expression whose match in a key names its group, as "^[a-z]+" for "pump17". The keys of a group
            share the model that is learned when the first of them has enough rows. Default: each key is its own group.

    Example:
        >>> import tempfile, wolf_fleet
        >>> names = {"key": "sensor", "values": "celsius"}
        >>> with wolf_fleet.Service(wolf_fleet.WarmUp(20), tempfile.mkdtemp(), **names) as service:
        ...     rows = "".join(f"hall,{20 + i % 3}\n" for i in range(30))
        ...     answer = service.post("csv", ("sensor,celsius\n" + rows).encode())
        >>> answer["used"], list(service.pipeline.warm_up.learned)
        (30, ['hall'])
    """

    rows: int = WARM_UP_ROWS
    model: str = SIMPLE_MODEL
    method: str | Filter | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        validation.count("rows", self.rows)
        if self.rows < MIN_WARM_UP_ROWS:
            raise ValueError(f"a warm-up needs at least {MIN_WARM_UP_ROWS} rows of a key; got {self.rows}")
        if self.model != AUTO and not registry.parse(self.model).parameters:
            raise ValueError(f"the model {self.model} has no variances to learn; give it without a warm-up")
        try:
            re.compile(self.group or "")
        except re.error as error:
            raise ValueError(f"group is not a regular expression: {error}") from error

    @property
    def settings(self) -> JsonObject:
        """Settings that a later run with the same state must share."""
        return {"rows": self.rows, "model": self.model, "group": self.group}

    @property
    def groups(self) -> KeyGroups | None:
        """Function from a key to its group; None if each key is its own."""
        return None if self.group is None else KeyGroups(self.group)

    def make_bank(self, num_values: int) -> Bank:
        """Create a bank without models of keys; its default model is not used."""
        first = make_model(SIMPLE_MODEL, {"level_var": 1.0, "obs_var": 1.0}, num_values)
        return Bank(first, self.method, models={}, group=self.groups)

    def learn(self, series: list[tuple[np.ndarray | None, np.ndarray]]) -> JsonObject:
        """Learn the model of a group of keys.

        Args:
            series: times in steps (n,), or None, and values (n, M) of each key; the first one determines the model.

        Returns:
            Name of the model, and its variances: the medians of those that were fitted to each series.
        """
        found = [self._learn_one(*series[0], self.model)]
        found += [self._learn_one(*each, found[0]["model"]) for each in series[1:MAX_KEYS_PER_GROUP]]
        same = [each["variances"] for each in found if each["model"] == found[0]["model"]]
        medians = {name: float(np.median([each[name] for each in same])) for name in same[0]}
        learned = {"model": found[0]["model"], "variances": medians}
        return learned if self._is_usable(learned, series[0]) else _level_for(series[0][1])

    def _is_usable(self, learned: JsonObject, series: tuple[np.ndarray | None, np.ndarray]) -> bool:
        times, values = series
        try:
            bank = Bank(make_model(learned["model"], learned["variances"], values.shape[1]), self.method)
            bank.step([], values[:0], None if times is None else times[:0])
        except ValueError:
            return False
        return True

    def _learn_one(self, times: np.ndarray | None, values: np.ndarray, model: str) -> JsonObject:
        if times is not None:
            times, index = np.unique(times, return_index=True)
            values = values[index]
        values = sentinel_values.without_codes(np.where(np.abs(values) < MAX_VALUE, values, np.nan))
        gaps = None if times is None else np.r_[1.0, np.diff(times)]
        if gaps is not None and np.all(np.abs(gaps - 1.0) < EVEN_TOLERANCE):
            gaps = None
        try:
            usual = 1.0 if gaps is None else float(np.median(gaps))
            if model == AUTO and 1 / MAX_USUAL_STEPS <= usual <= MAX_USUAL_STEPS:
                choice = choose_rows(values, None if gaps is None else times, None)
                return {"model": choice.name, "variances": choice.parameters}
            name = SIMPLE_MODEL if model == AUTO else model
            named, step_var = registry.parse(name), difference_var(values)
            prior = named.start(values, step_var)
            known = named.given
            found, _ = runs.fit_noise(named, values, gaps, prior, known, step_var, RESTARTS)
            return {"model": name, "variances": found.parameters | known}
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # constant, too few, no values at all
            return _level_for(values)


def _level_for(values: np.ndarray) -> JsonObject:
    """Return a level for values to which nothing can be fitted; the filter adapts its variances."""
    try:
        step_var = difference_var(values)
    except ValueError:
        known = np.abs(values[np.abs(values) < MAX_VALUE])
        step_var = (CONSTANT_RELATIVE_STD * float(known.max(initial=0.0))) ** 2 or 1.0
    variances = {"level_var": DYNAMICS_SHARE * step_var, "obs_var": OBS_SHARE * step_var}
    return {"model": SIMPLE_MODEL, "variances": variances}


def make_model(name: str, variances: dict[str, float], num_values: int) -> LinearModel:
    """Build a model with a diffuse prior.

    Args:
        name: of a model, or a TOML file.
        variances: all that the file does not define.
        num_values: values per row.
    """
    found = registry.parse(name)
    registry.check_parameters(found, variances)
    absent = [each for each in found.parameters if each not in found.given | variances]
    if absent:
        wanted = " ".join(f"--set {each}=..." for each in absent)
        raise ValueError(
            f"variances are not estimated online: give {wanted} (`wolf filter` on a sample of the rows estimates "
            "them; `wolf stream` and `wolf serve` learn them with --warm-up)"
        )
    prior = diffuse_prior(found.states(num_values), DIFFUSE_VARIANCE)
    return found.model(None, prior, num_values, **found.given | variances)


def read_models(
    path: Path,
    num_values: int,
    name: str,
    variances: dict[str, float],
    method_of: Callable[[str | None], Filter | None],
) -> tuple[dict[Hashable, Choice], KeyPatterns]:
    """Read a TOML file with a table for each pattern of keys.

    Args:
        path: of the file: `["roof-*"]`, and below it `model = "local-trend"`, `method = "WoLF"` and variances, each of
            which has the default of the following arguments. The first pattern that matches a key counts.
        num_values: values per row.
        name: default model.
        variances: default variances.
        method_of: function from the text of a method, or None, to the method.

    Returns:
        Model and method by pattern, and the function from a key to its pattern.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    models: dict[Hashable, Choice] = {}
    for pattern, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f'{path}: expected a table for each pattern of keys, as ["roof-*"]; got {pattern}')
        own = dict(table)
        model, method = str(own.pop("model", name)), own.pop("method", None)
        known = registry.parse(model).parameters
        given = {each: value for each, value in variances.items() if each in known} | own
        try:
            validation.variances(**given)
            made = make_model(model, {each: float(value) for each, value in given.items()}, num_values)
            models[pattern] = (made, method_of(method))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, [{pattern}]: {error}") from error
    if not models:
        raise ValueError(f"{path} has no models")
    return models, KeyPatterns(tuple(map(str, models)))
