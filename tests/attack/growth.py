"""Use the library over and over in one process, and tell what memory it holds: after two fifths, and at the end.

Series are filtered by the engine that compiles a program for each shape.

python tests/attack/growth.py lengths 2000    series of as many lengths
python tests/attack/growth.py steps 100000    measurements one by one
python tests/attack/growth.py models 300      models that were never seen before
"""

import gc
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import numpy as np

import wolf


def tell():
    """Print how much memory this process has, in how many maps."""
    gc.collect()
    status, maps = Path("/proc/self/status").read_text(), Path("/proc/self/maps").read_text()
    print(int(re.search(r"VmRSS:\s*(\d+)", status)[1]) // 1024, "MB,", maps.count("\n"), "maps", flush=True)


def lengths(model, count):
    ys = np.random.default_rng(0).normal(size=(count + 10, 1))
    for k, i in enumerate(np.random.default_rng(1).permutation(count)):
        if k % 10 == 0:  # many series have programs of their own; both kinds are there when memory is told first
            wolf.filter_many(model, ys[None, : i // 10 + 10], save="final", backend="xla")
        yield wolf.filter(model, ys[: i + 10], save="means", backend="xla")


def steps(model, count):
    online = wolf.Online(model)
    for y in np.random.default_rng(0).normal(size=(count, 1)):
        yield online.step(y)


def models(_, count):
    ys = np.zeros((20, 1))
    for _ in range(count):
        prior = wolf.Gaussian(np.zeros(1), np.eye(1))
        move = lambda x: 0.9 * x  # noqa: E731
        model = wolf.StateSpaceModel(move, move, np.eye(1), np.eye(1), prior)
        yield wolf.filter(model, ys, method="EKF", backend="xla")


def main():
    """Run one kind."""
    kind, count = {"lengths": lengths, "steps": steps, "models": models}[sys.argv[1]], int(sys.argv[2])
    early = 2 * count // 5
    for i, _ in enumerate(kind(wolf.models.local_level(1.0, 1.0), count)):
        if i == early:
            tell()
    tell()


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # fresh functions get a warning, and are the point
    main()
