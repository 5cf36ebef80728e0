"""Hash every output of the public API, so that two revisions of the library can be compared bit for bit.

    python tools/output_hashes.py --write base.json
    python tools/output_hashes.py --check base.json

An item is one array, or one group of numbers, of one call; its value is the SHA-256 of dtype, shape and bytes, or
"error: <type>" where the call raises. Texts are left out, except those of files, which are items of their own.
Compare only files that were written on one machine, with the same compiler settings and package versions.
"""

import argparse
import contextlib
import csv
import dataclasses
import hashlib
import io
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Attributes that are hashed, by class in `wolf`: label -> attribute. Labels are part of item names and stay as they are
# when attributes are renamed.
ATTRIBUTES: dict[str, dict[str, str]] = {
    "Filtered": {
        "MEAN": "means",
        "COV": "covs",
        "VAR": "variances",
        "PRIOR-MEAN": "predicted_means",
        "PRIOR-COV": "predicted_covs",
        "RESIDUAL": "residuals",
        "S": "innovation_covs",
        "W": "weights",
        "OUTLIER": "outliers",
        "NIS": "nis",
        "LOGLIK": "log_liks",
        "W-LOGLIK": "weighted_log_liks",
        "P-OUTLIER": "outlier_probabilities",
        "INFLATION": "inflations",
        "R-SCALE": "noise_scales",
        "Q-SCALE": "dynamics_scales",
        "TOTAL": "log_likelihood",
        "LAW": "learned_noise",
        "FINAL": "final",
    },
    "Smoothed": {"MEAN": "means", "COV": "covs", "W": "weights"},
    "Forecast": {
        "MEAN": "means",
        "COV": "covs",
        "Y-MEAN": "obs_means",
        "Y-COV": "obs_covs",
        "LOWER": "lower",
        "UPPER": "upper",
    },
    "Fit": {
        "PARAMETERS": "parameters",
        "ERRORS": "errors",
        "SHARE": "outlier_share",
        "WIDEN": "outlier_widen",
        "SCORE": "score",
        "COUNT": "count",
        "STARTS": "starts",
    },
    "TuningResult": {"VALUE": "value", "SCORE": "score", "VALUES": "values", "SCORES": "scores"},
    "Choice": {"PARAMETERS": "parameters", "TRIED": "candidates", "ROWS": "rows", "SHARE": "outlier_share"},
    "Changepoints": {"AT": "at", "P": "probabilities", "EVIDENCE": "log_evidence"},
    "Certificate": {"ENTRIES": "entries", "CURVES": "curves"},
    "Online": {"MEAN": "mean", "COV": "cov", "T": "t", "STATE": "state"},
}
REPORT = (
    *("predicted", "residual", "innovation_cov", "weight", "outlier", "nis", "log_likelihood"),
    *("weighted_log_likelihood", "outlier_probability", "inflation", "noise_scale", "dynamics_scale"),
)  # attributes of what a step of `wolf.Online` returns
SKIPPED = {"model", "method", "seconds", "message"}  # fields of other results: no numbers, or different in every run
NAME_FIELDS = {"kind", "name"}  # fields whose text is hashed, as an item of its own
OPTIMISER_HOMES = ("wolf.native.execute.llvm_jit", "wolf.native.machine")  # where the next name may be
OPTIMISER_LEVEL = "OPTIMIZATION_LEVEL"

# Names of methods, models and engines that have changed since a file was written: now -> then.
LABELS: dict[str, str] = {"accepted jump": "won vote"}  # an entry of certificates

CORE = (
    *("KF", "EKF", "UKF", "WoLF", "WoLF-IMQ", "WoLF-TMD", "WoLF-PerCoordinate"),
    *("Learned", "Adaptive", "KF-IW", "ADF", "IMM"),
)
RANDOM = ("PF", "EnKF", "ETKF", "EnSRF")  # parts of names of methods that need a key
SIZES = (1, 2, 4, 12)
ALL_WAYS = (1, 4)  # sizes at which all doors are used
DTYPES = ("float64", "float32")
ENGINES = ("native", "xla")
STEPS = 160
MOST_MAPS = 25_000  # memory maps of a process above which its compiled programs are dropped; it dies at 65,530
MAPS = Path("/proc/self/maps")

Items = dict[str, str]


class Task(NamedTuple):
    """Items that are computed together.

    Attributes:
        name: what the names of its items begin with.
        function: takes a `Recorder` and the arguments.
        arguments: those.
    """

    name: str
    function: Callable[..., None]
    arguments: tuple = ()


# Hashing


def numbers(value: Any) -> Iterator[np.ndarray]:
    """List the arrays in a result, in the order of its fields; text and functions are passed over."""
    if value is None:
        yield np.zeros(0, np.int8)
    elif isinstance(value, bool | int | float | complex | np.generic):
        yield np.asarray(value)
    elif hasattr(value, "dtype"):
        yield plain_array(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from numbers(each)
    elif isinstance(value, list | tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, each in zip(names, value, strict=True):
            if name not in SKIPPED:
                yield from numbers(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in SKIPPED:
                yield from numbers(getattr(value, field.name))


def plain_array(value: Any) -> np.ndarray:
    """Convert an array to NumPy; a random key to its bits."""
    import jax

    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def names_in(value: Any) -> Iterator[str]:
    """List the texts of a result that are names of kinds."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from names_in(each)
    elif dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        fields = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        for name in fields:
            each = getattr(value, name)
            if name in NAME_FIELDS and isinstance(each, str):
                yield LABELS.get(each, each)
            elif not isinstance(each, str):
                yield from names_in(each)


def hash_numbers(value: Any) -> str:
    """Hash dtype, shape and bytes of every array in a result."""
    digest = hashlib.sha256()
    for array in numbers(value):
        if array.dtype.kind in "biufcmM":
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def hash_text(text: str) -> str:
    """Hash a text."""
    return hashlib.sha256(text.encode()).hexdigest()


class Recorder:
    """Collects the items of a task.

    Args:
        prefix: what their names begin with.
    """

    def __init__(self, prefix: str):
        self.prefix, self.items = prefix, Items()

    def take(self, name: str, compute: Callable[[], Any]) -> Any:
        """Record the hashes of what a function returns, or its error; return the result, None after an error."""
        name = f"{self.prefix}/{name}"
        try:
            value = compute()
            self._record(name, value)
        except Exception as error:
            self.items[name] = f"error: {type(error).__name__}"
            return None
        return value

    def text(self, name: str, text: str) -> None:
        """Record the hash of a text."""
        self.items[f"{self.prefix}/{name}"] = hash_text(text)

    def _record(self, name: str, value: Any) -> None:
        """Record a result of a known class attribute by attribute, any other as one item."""
        table = attributes_of(value)
        if table is None:
            self.items[name] = hash_numbers(value)
            return
        for label, attribute in table.items():
            try:
                self.items[f"{name}/{label}"] = hash_numbers(getattr(value, attribute))
            except AttributeError:
                continue  # this method does not tell
            except Exception as error:
                self.items[f"{name}/{label}"] = f"error: {type(error).__name__}"


def attributes_of(value: Any) -> dict[str, str] | None:
    """Find the attributes to hash of a result; None for a class without a table."""
    import wolf

    for name, table in ATTRIBUTES.items():
        if isinstance(value, getattr(wolf, name)):
            return table
    return None


def label_of(name: str) -> str:
    """Give the name under which items of a method are stored."""
    return LABELS.get(name, name)


# Data and models


def make_series(coordinates: int, steps: int = STEPS, seed: int = 0) -> np.ndarray:
    """Make a random walk with missing, infinite and huge values, spikes, a run of alike errors and a jump."""
    rng = np.random.default_rng(seed + 100 * coordinates)
    ys = np.cumsum(rng.normal(0, 0.3, (steps, coordinates)), 0) + rng.normal(0, 1, (steps, coordinates))
    ys[10, 0] = ys[20, -1] = np.nan
    ys[11:14] = np.nan
    ys[21, 0], ys[22, -1], ys[30, 0] = np.inf, -np.inf, 1e300
    ys[25 + seed :: 17, 0] += 40.0
    ys[90:98] += 25.0
    ys[130:] += 60.0
    return ys


def make_inputs(steps: int = STEPS) -> np.ndarray:
    """Make known inputs, (steps, 1)."""
    return np.sin(np.arange(steps) / 10)[:, None]


def linear_model(size: int) -> Any:
    """Make a linear model with a number of states."""
    import wolf

    if size == 1:
        return wolf.models.local_level(level_var=0.1, obs_var=1.0)
    if size == 2:
        return wolf.models.local_trend(level_var=0.1, slope_var=0.01, obs_var=1.0)
    if size == 4:
        return wolf.models.constant_velocity(2, 0.5, 0.1, 2.0)
    rng = np.random.default_rng(size)
    rotation = np.linalg.qr(rng.normal(size=(size, size)))[0]
    root = rng.normal(size=(size, size)) / size
    H = rng.normal(size=(3, size))
    return wolf.LinearModel(
        F=0.98 * rotation,
        H=H,
        Q=root @ root.T + 0.05 * np.eye(size),
        R=np.eye(3),
        mean=np.zeros(size),
        cov=np.eye(size),
    )


def driven_model() -> Any:
    """Make a linear model that takes inputs."""
    import wolf

    F, B, Q = [[1, 0.1], [0, 1]], [[0.005], [0.1]], 0.001 * np.eye(2)
    return wolf.LinearModel(F=F, B=B, H=[[1, 0]], Q=Q, R=[[0.04]], mean=[0, 0], cov=np.eye(2))


def varying_model(steps: int = STEPS) -> Any:
    """Make a linear model with F, Q and R that vary in time."""
    import wolf

    gaps = np.random.default_rng(3).exponential(1.0, steps)
    F = np.stack([[[1, gap], [0, 1]] for gap in gaps])
    Q = np.stack([0.01 * np.array([[gap**3 / 3 + 1e-6, gap**2 / 2], [gap**2 / 2, gap + 1e-6]]) for gap in gaps])
    R = (1.0 + 0.5 * np.sin(np.arange(steps)))[:, None, None]
    return wolf.LinearModel(F=F, H=[[1, 0]], Q=Q, R=R, mean=[0, 0], cov=np.eye(2))


def radar_model() -> Any:
    """Make a model of functions: distance and bearing of an object that moves."""
    import wolf

    prior = wolf.Gaussian([-80.0, 30.0, 1.0, -1.0], np.diag([100.0, 100.0, 1.0, 1.0]))
    return wolf.models.range_bearing(0.5, 0.05, 4.0, 1e-3, prior)


def radar_series(steps: int = STEPS) -> np.ndarray:
    """Make distances and bearings with gaps and errors."""
    rng = np.random.default_rng(8)
    x, y = -80.0 + 0.5 * np.arange(steps), 30.0 - 0.5 * np.arange(steps)
    ys = np.stack([np.hypot(x, y), np.arctan2(y, x)], 1) + rng.normal(0, [2.0, 0.03], (steps, 2))
    ys[5], ys[9, 0], ys[30, 1], ys[40] = np.nan, np.inf, np.nan, [1e300, 0.0]
    ys[20::15, 0] += 150.0
    ys[100:108, 0] += 60.0
    return ys


def square(x: Any) -> Any:
    """Observe a level through a curve."""
    return x + 0.05 * x * x


def drift(x: Any) -> Any:
    """Move a level by a function."""
    return 0.95 * x


def curved_model() -> Any:
    """Make a model of one's own functions with one state."""
    import wolf

    prior = wolf.Gaussian([0.0], [[1.0]])
    return wolf.StateSpaceModel(dynamics=drift, observe=square, dynamics_cov=[[0.1]], obs_cov=[[1.0]], prior=prior)


# Rows of the registry


def needs_key(method: str) -> bool:
    """Say whether a method draws random numbers."""
    return any(part in method for part in RANDOM)


def hash_row(record: Recorder, method: str) -> None:
    """Filter by one method: linear data and functions, both dtypes, both engines."""
    import wolf

    data = {"linear": (linear_model(4), make_series(2)), "radar": (radar_model(), radar_series())}
    if needs_key(method):
        data["lorenz96"] = (wolf.models.lorenz96(dim=8, noise_std=0.5), make_series(8, 40))
    for dtype in DTYPES:
        for engine in ("xla",) if needs_key(method) else ENGINES:
            for name, (model, ys) in data.items():
                options: dict[str, Any] = {"dtype": dtype, "backend": engine} | (
                    {"key": 0} if needs_key(method) else {}
                )
                run = partial(wolf.filter, model, ys, method=method, save="all", **options)
                record.take(f"{name}/{dtype}/{engine}", run)


# Everything that can be done with a run


def hash_core(record: Recorder, method: str, size: int, engine: str) -> None:
    """Filter a linear model of one size by one method, and do what else can be done."""
    import wolf

    model = linear_model(size)
    ys = make_series(model.obs_dim)
    for dtype in DTYPES:
        run = partial(wolf.filter, model, ys, method=method, dtype=dtype, backend=engine)
        out = record.take(f"filter/{dtype}", run)
        if out is not None:
            sub = Recorder(f"{record.prefix}/{dtype}")
            if size in ALL_WAYS:
                hash_ways(sub, model, ys, {"method": method, "backend": engine, "dtype": dtype})
            hash_after(sub, out)
            record.items |= sub.items


def hash_ways(record: Recorder, model: Any, ys: np.ndarray, how: dict[str, Any]) -> None:
    """Filter the same data by the other doors: many series, chunks, step by step, a bank."""
    import wolf

    ragged = [ys, ys[:50], ys[15:140]]
    record.take("many", lambda: wolf.filter_many(model, ragged, **how))
    record.take("many-means", lambda: wolf.filter_many(model, ragged, save="means", **how))
    chunks = partial(wolf.filter_chunks, model, (ys[:80], ys[80:]), save="all", **how)
    for i, part in enumerate(record_list(record, "chunks", chunks)):
        record.take(f"chunks/{i}", partial(same, part))
    record.take("online", lambda: step_through(wolf.Online(model, **how), ys[:60]))
    if how["backend"] == "native":
        options = {name: value for name, value in how.items() if name != "backend"}
        record.take("bank", lambda: step_bank(wolf.Bank(model, **options), ys))


def record_list(record: Recorder, name: str, compute: Callable[[], Any]) -> list[Any]:
    """Run a generator to its end; record its error, if there is one."""
    found: list[Any] = []
    record.take(name, lambda: found.extend(compute()))
    return found


def same(value: Any) -> Any:
    """Return the argument."""
    return value


def hash_after(record: Recorder, out: Any) -> None:
    """Smooth, forecast and draw from a run."""
    import wolf

    record.take("smooth", lambda: wolf.smooth(out))
    record.take("smooth-twice", lambda: wolf.smooth(out, reweight=True))
    record.take("forecast", lambda: wolf.forecast(out, steps=7, level=0.9))
    record.take("paths", lambda: wolf.sample_paths(out, num=3, key=0))


def step_through(online: Any, ys: np.ndarray, **options: Any) -> list[Any]:
    """Step through data one by one; return what each step told, and where the filter stands."""
    found: list[Any] = []
    for y in ys:
        told = online.step(y, **options)
        found += [[getattr(told, name) for name in REPORT], online.mean]
    return [*found, online.cov, online.t, state_of(online)]


def state_of(online: Any) -> list[Any]:
    """List the leaves of the state of an online filter."""
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(getattr(online, ATTRIBUTES["Online"]["STATE"]))]


def step_bank(bank: Any, ys: np.ndarray) -> list[Any]:
    """Step a bank with keys that come twice, with and without times, and with noise of each row."""
    keys = ["a", "b", "a", "c", "b", "a", "d", "c"]
    found: list[Any] = [bank.step(keys, ys[i : i + 8]) for i in range(0, 48, 8)]
    found.append(bank.step(["a", "b", "c", "d"], ys[50:54]))
    times = np.array([1.0, 1.5, 2.5, 0.5, 1.5, 2.0, 7.0, 4.0])
    variances = np.linspace(0.5, 2.0, 8 * ys.shape[1]).reshape(8, ys.shape[1])
    for options in ({"times": times}, {"times": times + 3.0}, {"R": variances}):
        try:
            found += [1, bank.step(keys, ys[60:68], **options)]  # type: ignore[arg-type]
        except ValueError:
            found.append(0)  # a model that moves only by whole steps
    return [*found, bank.late, bank.repeated, [[bank[key].mean, bank[key].cov, bank[key].t] for key in bank]]


# Special cases


def hash_radar(record: Recorder, method: str | None, engine: str) -> None:
    """Do everything with a model of functions."""
    import wolf

    for name, model, ys in (("radar", radar_model(), radar_series()), ("curve", curved_model(), make_series(1))):
        sub = Recorder(f"{record.prefix}/{name}")
        out = sub.take("filter", partial(wolf.filter, model, ys, method=method, backend=engine))
        if out is not None:
            hash_ways(sub, model, ys, {"method": method, "backend": engine})
            hash_after(sub, out)
        record.items |= sub.items


def hash_inputs(record: Recorder, method: str | None, engine: str) -> None:
    """Filter a model with inputs, with the prior before and at the first measurement."""
    import wolf

    model, ys, us = driven_model(), make_series(1), make_inputs()
    for first in (False, True):
        how: dict[str, Any] = {"method": method, "backend": engine, "update_first": first}
        sub = Recorder(f"{record.prefix}/first={first}")
        out = sub.take("filter", partial(wolf.filter, model, ys, inputs=us, **how))
        sub.take("many", partial(wolf.filter_many, model, [ys, ys[:90]], inputs=us, **how))
        if out is not None:
            sub.take("smooth", partial(wolf.smooth, out))
            sub.take("smooth-twice", partial(wolf.smooth, out, reweight=True))
            sub.take("forecast", partial(wolf.forecast, out, steps=4, inputs=us[:4]))
            sub.take("paths", partial(wolf.sample_paths, out, num=2, key=1))
        online = wolf.Online(model, method, update_first=first, backend=engine)
        sub.take("online", partial(step_through, online, ys[:40], u=[0.5]))
        record.items |= sub.items


def hash_times(record: Recorder, method: str | None, engine: str) -> None:
    """Filter models that vary in time, irregular times, and a model for each series."""
    import wolf

    how: dict[str, Any] = {"method": method, "backend": engine}
    ys, times = make_series(1), np.cumsum(np.random.default_rng(4).exponential(1.0, STEPS))
    parts = wolf.models.trend(0.1, 0.01), wolf.models.seasonal(4, 0.01, harmonics=1)
    uneven = {"varying": varying_model(), "times": wolf.models.structural(*parts, obs_var=1.0, times=times)}
    for name, model in uneven.items():
        out = record.take(f"{name}/filter", partial(wolf.filter, model, ys, **how))
        record.take(f"{name}/first", partial(wolf.filter, model, ys, update_first=True, **how))
        if out is not None:
            record.take(f"{name}/smooth", partial(wolf.smooth, out))
        online = wolf.Online(model, method, backend=engine)
        record.take(f"{name}/online", partial(step_through, online, ys[:40]))
    own = [wolf.models.local_level(level_var=q, obs_var=1.0) for q in (0.1, 0.5, 2.0)]
    many = record.take("own/many", partial(wolf.filter_many, own, np.stack([ys[:, 0], -ys[:, 0], 2 * ys[:, 0]]), **how))
    if many is not None:
        record.take("own/smooth", partial(wolf.smooth, many))
        record.take("own/forecast", partial(wolf.forecast, many, steps=5))
        record.take("own/on", partial(wolf.filter_many, own, np.ones((3, 9)), state=many.states, **how))
        record.take("own/one", lambda: many[1])


def hash_online(record: Recorder, method: str | None, engine: str) -> None:
    """Step with matrices, times and sensors of single steps, with late measurements, and with a fixed lag."""
    import wolf

    model, ys = linear_model(4), make_series(2)
    sensor = wolf.Sensor([[0.0, 0.0, 1.0, 0.0]], [[0.5]])
    varied = wolf.Online(model, method, backend=engine)
    for name, options in {
        "dt": {"dt": 1.7},
        "R": {"R": 3.0 * np.eye(2)},
        "F": {"F": 0.9 * np.eye(4), "Q": np.eye(4)},
        "H": {"H": np.eye(2, 4, k=1), "R": np.eye(2)},
    }.items():
        record.take(name, partial(step_through, varied, ys[:12], **options))
    record.take("sensor", partial(step_through, varied, ys[:5, :1], sensor=sensor))
    late = wolf.Online(model, method, horizon=5, backend=engine)
    record.take("late", lambda: [step_through(late, ys[:15]), [late.late(ys[40], 12).residual], late.mean, late.cov])
    if engine == "native":
        lagged = wolf.FixedLag(model, method, lag=6)
        record.take("lag", lambda: [(now.t, now.mean, now.cov) for now in map(lagged.step, ys)])


def hash_options(record: Recorder) -> None:
    """Filter with options of methods, and by methods of parameters, bounds and attitudes."""
    import wolf

    model, ys = linear_model(4), make_series(2)
    values = {
        "imq": wolf.WoLF(wolf.IMQ(c=4.0)),
        "group": wolf.WoLF(wolf.PerGroup(wolf.IMQ(c=3.0), (0, 1))),
        "sensors": wolf.Adaptive(sensors="each"),
        "steady": wolf.Adaptive(q_uncertainty=0, estimate_autocorrelation=False, patience=8),
        "each": wolf.Learned(sensors=(0, 1), patience=4),
        "joseph": wolf.KF(form="joseph"),
        "gate": wolf.WoLF(wolf.MahalanobisThreshold(c=9.0, metric="S"), iterations=3),
    }
    for name, method in values.items():
        for engine in ENGINES:
            record.take(f"{name}/{engine}", partial(wolf.filter, model, ys, method=method, backend=engine))
    rng = np.random.default_rng(0)
    features, target = rng.normal(size=(80, 3)), rng.normal(size=(80, 1))
    network = wolf.models.mlp(3, hidden=(4,), key=0)
    record.take("network", partial(wolf.filter, network, target, inputs=features))
    record.take("lofi", partial(wolf.filter, network, target, inputs=features, method=wolf.LowRank(rank=3)))
    record.take("final", partial(wolf.filter, model, ys, save="final"))
    record.take("simulate", partial(wolf.simulate.trajectory, model, 50, key=1))


def hash_zoo(record: Recorder) -> None:
    """Build models; hash their arrays, and simulate from them."""
    import wolf

    zoo = wolf.models
    prior, times = wolf.Gaussian(np.zeros(5), np.eye(5)), np.cumsum(0.1 + np.arange(60) % 7)
    parts: dict[str, Callable[[], Any]] = {
        "trend": partial(zoo.trend, 0.1, 0.01),
        "seasonal": partial(zoo.seasonal, 7, 0.01),
        "waves": partial(zoo.seasonal, 12.5, 0.01, harmonics=2),
        "damped": partial(zoo.damped_trend, 0.9, 0.1, 0.01),
        "ar": partial(zoo.ar, [0.5, 0.2], 0.3),
        "arma": partial(zoo.arma, [0.5], [0.2], 0.3),
        "cycle": partial(zoo.cycle, 9.0, 0.95, 0.1),
    }
    models: dict[str, Callable[[], Any]] = {
        name: lambda part=part: zoo.structural(zoo.level(0.1), part(), obs_var=1.0) for name, part in parts.items()
    }
    models |= {
        "acceleration": partial(zoo.constant_acceleration, 2, 0.5, 0.1, 1.0),
        "singer": partial(zoo.singer, 2, 0.5, 10.0, 1.0, 1.0),
        "matern": partial(zoo.matern, times, 1.5, 3.0, 2.0, 0.5),
        "ornstein": partial(zoo.ornstein_uhlenbeck, times, 0.5, 1.0, 0.5),
        "turn": partial(zoo.coordinated_turn, 0.5, 0.1, 0.01, 1.0, prior),
        "lorenz63": zoo.lorenz63,
        "lorenz96": partial(zoo.lorenz96, 8),
        "coloured": lambda: zoo.with_ar1_noise(linear_model(1), 0.8),
    }
    for name, build in models.items():
        model = record.take(name, build)
        if model is not None:
            record.take(f"{name}/path", partial(wolf.simulate.trajectory, model, 30, key=2))
            record.take(f"{name}/filter", lambda model=model: wolf.filter(model, make_series(model.obs_dim, 60)))


# Fitting, choosing, explaining


def two_levels(level_var: float, obs_var: float) -> Any:
    """Build a model of two parameters that is no row of `wolf.models`."""
    import wolf

    F, H = [[1.0, 1.0], [0.0, 0.9]], [[1.0, 0.0]]
    Q, R = np.diag([1.0, 0.1]) * level_var, [[obs_var]]
    return wolf.LinearModel(F=F, H=H, Q=Q, R=R, mean=[0, 0], cov=10.0 * np.eye(2))


def hash_fits(record: Recorder, which: str) -> None:
    """Fit parameters of one and of many series."""
    import wolf

    ys = make_series(1)[:, 0]
    fits: dict[str, Callable[[], Any]] = {
        "level": partial(wolf.fit, wolf.models.local_level, ys),
        "gaussian": partial(wolf.fit, wolf.models.local_level, ys[31:88], score="gaussian"),
        "hold": partial(wolf.fit, wolf.models.local_trend, ys, hold={"obs_var": 1.0}),
        "builder": partial(wolf.fit, two_levels, ys, start={"level_var": 0.2, "obs_var": 1.0}, restarts=1),
    }
    if which == "many":
        series = [ys, ys[:100], -ys]
        for i, fit in enumerate(record_list(record, "all", partial(wolf.fit_many, wolf.models.local_level, series))):
            record.take(f"{i}", partial(same, fit))
    else:
        record.take("found", fits[which])


def hash_memory(record: Recorder) -> None:
    """Fit how long errors last."""
    import wolf

    ys = np.random.default_rng(7).normal(size=200)
    ys = ys + np.convolve(ys, 0.7 ** np.arange(20))[:200]
    record.take("found", partial(wolf.fit_ar1_noise, linear_model(1), ys))


def hash_learner(record: Recorder) -> None:
    """Learn a regression row by row."""
    import wolf

    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.normal(size=150)
    record.take("network", lambda: wolf.OnlineRegressor(random_state=0).fit(X, y).predict(X))


def hash_tuned(record: Recorder) -> None:
    """Tune thresholds."""
    import wolf

    model, ys = linear_model(1), make_series(1)
    for method in ("WoLF-TMD", "WoLF-IMQ", "WoLF-StudentT"):
        record.take(method, partial(wolf.tune, model, ys, method))


def hash_choices(record: Recorder, which: str) -> None:
    """Choose models for series with and without a season."""
    import wolf

    rng, steps = np.random.default_rng(2), np.arange(240)
    level = np.cumsum(rng.normal(0, 0.2, 240)) + rng.normal(size=240)
    season = 5 * np.sin(2 * np.pi * steps / 12) + rng.normal(size=240)
    level[50], season[70] = 40.0, np.nan
    ys = {"level": level, "season": season}[which]
    choice = record.take("found", partial(wolf.choose, ys))
    if choice is not None:
        record.text("name", choice.name)
        record.take("model", lambda: [np.asarray(getattr(choice.model, name)) for name in ("F", "H", "Q", "R")])


def hash_changes(record: Recorder) -> None:
    """Find changepoints."""
    import wolf

    level = wolf.models.local_level(0.0, obs_var=1.0, prior=wolf.Gaussian([0.0], [[100.0]]))
    ys = np.random.default_rng(6).normal(size=120) + np.repeat([0.0, 9.0, -4.0], 40)
    ys[20], ys[60] = np.nan, 50.0
    record.take("whole", partial(wolf.changepoints, level, ys))
    record.take("longest", partial(wolf.changepoints, level, ys, max_length=60, hazard=0.05))


def faulty_series(fault: str) -> np.ndarray:
    """Make a series with one kind of fault."""
    ys = np.random.default_rng(5).normal(size=120)
    if fault == "spike":
        ys[[20, 70]] += [30.0, -25.0]
    elif fault == "step":
        ys[60:] += 30.0
    elif fault == "stuck":
        ys[40:60] = ys[40]
    elif fault == "drift":
        ys[50:80] += np.linspace(0.0, 20.0, 30)
    else:
        ys[30:36], ys[80:90] = 20.0, np.nan
    return ys


def hash_causes(record: Recorder, fault: str) -> None:
    """Explain what happened to a series."""
    import wolf

    model = wolf.models.local_level(level_var=0.01, obs_var=1.0)
    for method in ("Adaptive", "WoLF-TMD"):
        out = wolf.filter(model, faulty_series(fault), method=method)
        found = record.take(method, lambda out=out: wolf.explain(out))
        record.text(f"{method}/kinds", "\n".join(names_in(found)))


def hash_audit(record: Recorder, which: str) -> None:
    """Certify and attack methods, and map their influence."""
    import wolf

    model, ys = linear_model(1), np.random.default_rng(9).normal(size=(40, 1))
    if which == "influence":
        grid = np.linspace(-20.0, 20.0, 11)[:, None]
        for method in ("KF", "WoLF", "WoLF-IMQ", "Adaptive"):
            record.take(method, partial(wolf.influence.pif, model, method, ys, grid))
    elif which == "attack":
        for method in ("KF", "WoLF"):
            record.take(method, partial(wolf.attack, model, method, ys, 2, restarts=4))
    else:
        found = record.take(which, partial(wolf.certify, model, which, trials=1, steps=60))
        record.text("names", "\n".join(names_in(getattr(found, "entries", {}))))


# Files


def hash_checkpoints(record: Recorder, method: str) -> None:
    """Save filters, load them, and go on."""
    import wolf

    model, ys = linear_model(4), make_series(2)
    with tempfile.TemporaryDirectory() as folder:
        online = wolf.Online(model, method)
        step_through(online, ys[:50])
        online.save(Path(folder) / "online.npz")
        loaded = record.take("online", lambda: wolf.Online.load(Path(folder) / "online.npz", model))
        record.take("online-on", lambda: step_through(loaded, ys[50:90]))
        record.take("online-same", lambda: step_through(online, ys[50:90]))
        bank = wolf.Bank(model, method)
        step_bank(bank, ys)
        bank.save(Path(folder) / "bank.npz")
        record.take("bank-on", lambda: step_bank(wolf.Bank.load(Path(folder) / "bank.npz", model), ys[::-1]))
        record.take("bank-same", lambda: step_bank(bank, ys[::-1]))
    many = wolf.filter_many(model, [ys, ys[:70]], method=method)
    kept = many.states.to_bytes()
    on = np.stack([ys[:30], ys[30:60]])
    record.take(
        "states-on", lambda: wolf.filter_many(model, on, method=method, state=wolf.States.from_bytes(kept, model))
    )
    record.take("restored", lambda: step_bank(wolf.Bank.from_states(many.states, ["a", "z"]), ys))


def hash_c(record: Recorder, name: str, method: str, dtype: str) -> None:
    """Export a filter as C; hash its text without comments, and once more without the names in it."""
    import wolf

    models = {"level": partial(linear_model, 1), "velocity": partial(linear_model, 4), "radar": radar_model}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.c"
        report = ("weight", "outlier", "residual", "nis", "log_likelihood")
        found = record.take(
            "facts", lambda: sizes_of(wolf.export_c(models[name](), method, path, dtype=dtype, report=report))
        )
        for suffix in () if found is None else (".c", ".h"):
            text = without_comments(path.with_suffix(suffix).read_text())
            record.text(f"text{suffix}", text)
            record.text(f"numbers{suffix}", without_names(text))


def sizes_of(exported: Any) -> list[Any]:
    """List the numbers of an export that do not depend on the compiler."""
    return [exported.operations, exported.state_bytes]


def without_comments(text: str) -> str:
    """Strip comments, blank lines and versions from C."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    text = re.sub(r"\w*\d+\.\d+\.\d+\.\w+", "", text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def without_names(text: str) -> str:
    """Replace each identifier by its number in the order of appearance."""
    seen: dict[str, str] = {}
    return re.sub(r"\b[A-Za-z_]\w*", lambda found: seen.setdefault(found[0], f"#{len(seen)}"), text)


# The command


def table_text(
    values: Sequence[Any], stamps: Sequence[Any] | None = None, header: str = "time,value", mark: str = ","
) -> str:
    """Lay values out as CSV, with a column of times."""
    stamps = range(len(values)) if stamps is None else stamps
    rows = [f"{stamp}{mark}{value}" for stamp, value in zip(stamps, values, strict=True)]
    return "\n".join(([header] if header else []) + rows) + "\n"


def made_values(seed: int = 0, steps: int = 90) -> list[str]:
    """Make readings as text, with three spikes."""
    rng = np.random.default_rng(seed)
    values = 20.0 + np.cumsum(rng.normal(0, 0.2, steps)) + rng.normal(0, 0.5, steps)
    values[[15, 40, 41]] += [25.0, -30.0, -28.0]
    return [f"{value:.3f}" for value in values]


def made_gpx() -> str:
    """Make a walk with two wild positions as GPX."""
    rng = np.random.default_rng(1)
    places = [52.5, 13.4] + np.cumsum(rng.normal(0, 1e-5, (80, 2)), 0) + 1e-5
    places[[30, 55]] += 4e-3
    points = "".join(
        f'<trkpt lat="{a:.9f}" lon="{b:.9f}"><time>2024-05-01T10:{i // 60:02d}:{i % 60:02d}Z</time></trkpt>'
        for i, (a, b) in enumerate(places)
    )
    head = '<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'
    return f"{head}<trk><trkseg>{points}</trkseg></trk></gpx>"


def command_cases() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """List files and options of `wolf filter`: name -> (file, content, options)."""
    values, other = made_values(), made_values(1)
    gaps = ["" if 50 <= i < 58 or i == 5 else value for i, value in enumerate(values)]
    coded = ["-999" if i % 11 == 3 else value for i, value in enumerate(values)]
    worst = ["inf" if i == 20 else "1e300" if i == 60 else value for i, value in enumerate(values)]
    stuck = [values[30] if 30 <= i < 48 else value for i, value in enumerate(values)]
    shifted = [f"{float(value) + 15 * (i >= 45):.3f}" for i, value in enumerate(values)]
    days = [f"2024-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(len(values))]
    uneven = np.cumsum(np.random.default_rng(2).integers(1, 9, len(values))).tolist()
    commas = table_text([value.replace(".", ",") for value in values], header="time;value", mark=";")
    keyed = table_text([f"{'ab'[i % 2]},{value}" for i, value in enumerate(values + other)], header="time,key,value")
    two = table_text([f"{a},{b}" for a, b in zip(values, other, strict=True)], header="time,left,right")
    known = ("--set", "level_var=0.1", "--set", "obs_var=1")
    plain = table_text(values)
    return {
        "plain": ("in.csv", plain, ()),
        "gaps": ("in.csv", table_text(gaps), ("--forecast", "5")),
        "commas": ("in.csv", commas, known),
        "dates": ("in.csv", table_text(values, days), ("--model", "level")),
        "uneven": ("in.csv", table_text(values, uneven), ("--model", "level")),
        "coded": ("in.csv", table_text(coded), ("--missing", "-999", *known)),
        "worst": ("in.csv", table_text(worst), known),
        "stuck": ("in.csv", table_text(stuck), known),
        "shifted": ("in.csv", table_text(shifted), known),
        "keys": ("in.csv", keyed, ("--by", "key", "--value", "value", *known)),
        "two": ("in.csv", two, ("--value", "left", "--value", "right", "--model", "level")),
        "headless": ("in.csv", table_text(values, header=""), ("--no-header",)),
        "live": ("in.csv", plain, ("--causal", "--patience", "8 rows", *known)),
        "smooth": ("in.csv", plain, ("--smooth", "--method", "WoLF-TMD:c=9.5", *known)),
        "gpx": ("in.gpx", made_gpx(), ()),
        "bad-cell": ("in.csv", plain.replace(values[7], "x"), ("--on-bad-cell", "missing", *known)),
        "empty": ("in.csv", "time,value\n", ()),
    }


def hash_command(record: Recorder, name: str) -> None:
    """Filter one file by the command; hash header, numbers and texts of its table, and what it says as JSON."""
    from click.testing import CliRunner

    from wolf.cli import main

    file, content, options = command_cases()[name]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(file).write_text(content)
        found = CliRunner().invoke(main, ["filter", file, "--out", "out.csv", "--json", *options])
        record.take("code", lambda: found.exit_code)
        if found.exit_code == 0:
            hash_table(record, Path("out.csv").read_text())
            record.take("json", lambda: timeless(json.loads(found.stdout)))
            record.text("json-names", " ".join(keys_of(json.loads(found.stdout))))


def hash_table(record: Recorder, text: str) -> None:
    """Hash the header of a table, its numbers, and its other cells."""
    header, *rows = csv.reader(io.StringIO(text))
    record.text("header", ",".join(header))
    is_text = [[not is_number(cell) for cell in row] for row in rows]
    shown = [
        ["" if text else cell for cell, text in zip(*pair, strict=True)] for pair in zip(rows, is_text, strict=True)
    ]
    words = [
        [cell if text else "" for cell, text in zip(*pair, strict=True)] for pair in zip(rows, is_text, strict=True)
    ]
    record.text("numbers", "\n".join(map(",".join, shown)))
    record.text("texts", "\n".join(map(",".join, words)))


def is_number(cell: str) -> bool:
    """Say whether a cell holds a number."""
    with contextlib.suppress(ValueError):
        float(cell)
        return True
    return False


def timeless(value: Any) -> Any:
    """Leave out of JSON what differs in every run."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in SKIPPED}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def keys_of(value: Any) -> Iterator[str]:
    """List the names in JSON."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(name, str):
            yield name
        yield from keys_of(each)


def hash_arrow(record: Recorder) -> None:
    """Filter record batches by key; hash the columns that were added."""
    import pyarrow

    import wolf

    values = [float(value) for value in made_values()]
    columns = {"id": ["a", "b", "c"] * 30, "at": [float(i) for i in range(90)], "y": values}
    batch = pyarrow.RecordBatch.from_pydict(columns)
    for name, options in {"plain": {}, "timed": {"time": "at"}}.items():
        run = partial(wolf.filter_batches, batch, linear_model(1), key="id", values="y", **options)
        tables = record_list(record, name, run)
        record.take(f"{name}/columns", lambda tables=tables: list(map(arrow_columns, tables)))


def hash_frame(record: Recorder) -> None:
    """Filter a data frame; hash its columns of numbers, and its names."""
    import pandas

    import wolf

    stamps = pandas.date_range("2024-01-01", periods=90, freq="h")
    values = [float(value) for value in made_values()]
    frame = pandas.DataFrame({"key": ["a", "b"] * 45, "y": values}, index=stamps)
    known = {"level_var": 0.1, "obs_var": 1.0}
    for name, options in {"one": {}, "by": {"by": "key"}, "live": {"causal": True}}.items():
        run = partial(wolf.filter_frame, frame, values="y", model="local-level", parameters=known, **options)
        found: Any = record.take(name, run)
        if found is not None:
            record.take(
                f"{name}/columns", lambda found=found: list(found.select_dtypes(["number", "bool"]).to_numpy().T)
            )
            record.text(f"{name}/header", ",".join(found.columns))


def arrow_columns(batch: Any) -> list[np.ndarray]:
    """Convert the columns of a record batch to arrays."""
    return [np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns]


# Running


def list_tasks() -> list[Task]:
    """List all tasks, those that take longest first."""
    import wolf

    tasks = [
        Task(f"core/{label_of(method)}/{size}/{engine}", hash_core, (method, size, engine))
        for size in reversed(SIZES)
        for method in reversed(CORE)
        for engine in ENGINES
    ]
    tasks += [Task(f"rows/{label_of(method)}", hash_row, (method,)) for method in reversed(wolf.methods.names())]
    for function in (hash_radar, hash_inputs, hash_times, hash_online):
        for method in ("Adaptive", "WoLF", "KF" if function is not hash_radar else "UKF"):
            kind = f"special/{function.__name__.removeprefix('hash_')}/{label_of(method)}"
            tasks += [Task(f"{kind}/{engine}", function, (method, engine)) for engine in ENGINES]
    tasks += [Task(f"fit/{which}", hash_fits, (which,)) for which in ("level", "gaussian", "hold", "builder", "many")]
    tasks += [Task(f"choose/{which}", hash_choices, (which,)) for which in ("level", "season")]
    faults = ("spike", "step", "stuck", "drift", "burst")
    tasks += [Task(f"explain/{fault}", hash_causes, (fault,)) for fault in faults]
    tasks += [
        Task(f"audit/{which}", hash_audit, (which,)) for which in ("influence", "attack", "KF", "WoLF", "Adaptive")
    ]
    tasks += [Task(f"checkpoint/{label_of(each)}", hash_checkpoints, (each,)) for each in ("Adaptive", "WoLF", "KF-IW")]
    for name in ("level", "velocity", "radar"):
        for method, dtype in (("WoLF", "float32"), ("Adaptive", "float64")):
            tasks.append(Task(f"export_c/{name}/{label_of(method)}/{dtype}", hash_c, (name, method, dtype)))
    tasks += [Task(f"command/{name}", hash_command, (name,)) for name in command_cases()]
    others = {"options": hash_options, "tune": hash_tuned, "changes": hash_changes, "arrow": hash_arrow}
    others |= {"models": hash_zoo, "memory": hash_memory, "learner": hash_learner, "frame": hash_frame}
    return tasks + [Task(name, function) for name, function in others.items()]


def run_task(task: Task) -> tuple[str, Items, float]:
    """Compute the items of a task in this process."""
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    record = Recorder(task.name)
    try:
        task.function(record, *task.arguments)
    except Exception as error:
        record.items[f"{task.name}/task"] = f"error: {type(error).__name__}"
        print(f"  {task.name} ended early: {type(error).__name__}: {error}", file=sys.stderr)
    if MAPS.exists() and MAPS.read_text().count("\n") > MOST_MAPS:
        import jax

        jax.clear_caches()
    return task.name, record.items, time.perf_counter() - began


def set_environment() -> None:
    """Set the compiler and the cache for the processes that will be started."""
    flags = ["backend_optimization_level=0"]
    if version("jaxlib").startswith("0.10."):
        flags += ["cpu_use_fusion_emitters=false", "cpu_parallel_codegen_split_count=1"]
    os.environ["XLA_FLAGS"] = " ".join(f"--xla_{flag}" for flag in flags)
    os.environ["WOLF_CACHE"] = "off"


def compile_quickly() -> None:
    """Let native code be compiled without an optimiser: the same bits in less time."""
    for home in OPTIMISER_HOMES:
        with contextlib.suppress(ImportError):
            setattr(import_module(home), OPTIMISER_LEVEL, 0)


def compute(jobs: int, only: str, quick: bool) -> Items:
    """Compute all items whose name begins in one way.

    Args:
        jobs: number of processes.
        only: the beginning.
        quick: whether native code is compiled without an optimiser.
    """
    tasks = [task for task in list_tasks() if task.name.startswith(only) or only.startswith(task.name)]
    began, items = time.perf_counter(), Items()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, compile_quickly if quick else None) as pool:
        running = [pool.submit(run_task, task) for task in tasks]
        for count, each in enumerate(as_completed(running), 1):
            name, found, seconds = each.result()
            items |= found
            spent = time.perf_counter() - began
            print(f"{spent:6.0f} s  {count}/{len(tasks)}  {name}: {len(found)} items, {seconds:.1f} s", flush=True)
    return {name: items[name] for name in sorted(items) if name.startswith(only)}


def compare(before: Items, now: Items) -> list[str]:
    """List the items that differ, are missing, or are new."""
    words = []
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            words.append(f"missing  {name}")
        elif name not in before:
            words.append(f"new      {name}")
        elif before[name] != now[name]:
            errors = [each for each in (before[name], now[name]) if each.startswith("error")]
            words.append(f"differs  {name}" + (f"  ({before[name][:30]} -> {now[name][:30]})" if errors else ""))
    return words


def main() -> int:
    """Write or check a file of hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="file to write the hashes to")
    action.add_argument("--check", type=Path, metavar="FILE", help="file to compare with")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--only", default="", metavar="PREFIX", help="beginning of the names of the items to compute")
    parser.add_argument("--quick", action="store_true", help="compile native code without an optimiser")
    options = parser.parse_args()
    set_environment()
    print(f"wolf is {find_spec('wolf').origin}", flush=True)  # type: ignore[union-attr]
    items = compute(options.jobs, options.only, options.quick)
    failed = sum(value.startswith("error") for value in items.values())
    print(f"{len(items)} items, {failed} of them errors")
    if options.write is not None:
        options.write.write_text(json.dumps(items, indent=0) + "\n")
        return 0
    before = json.loads(options.check.read_text())
    found = compare({name: each for name, each in before.items() if name.startswith(options.only)}, items)
    print("\n".join(found) or "all the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
