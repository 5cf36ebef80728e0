"""Results of filters on this platform, to be compared bit for bit with those of another one.

    python tools/platform_bits.py --write x86.npz
    python tools/platform_bits.py --compare x86.npz

The first writes means, covariances and weights of some methods on three models, for both backends and precisions. The
second computes them again and prints, per item, whether the bits are equal, or the largest difference relative to the
largest number. `make check-arm` runs the second on 64-bit ARM.
"""

import argparse
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import output_hashes

METHODS = ("KF", "WoLF", "WoLF-IMQ", "WoLF-TMD", "WoLF-PerCoordinate", "Learned", "Adaptive")
RADAR_METHODS = ("EKF", "WoLF", "Adaptive")
SINGLE_METHODS = ("KF", "WoLF", "Adaptive")  # in single precision
XLA_METHODS = ("KF", "WoLF")
BANK_STEPS, BANK_KEYS = 40, 9  # a register of eight keys, and one more


def compute() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the items: a name, and an array."""
    import wolf

    tracking, series = output_hashes.linear_model(4), output_hashes.make_series(2)
    level, walk = output_hashes.linear_model(1), output_hashes.make_series(1)
    radar, echoes = output_hashes.radar_model(), output_hashes.radar_series()
    runs = [("tracking", tracking, series, name, "float64", "native") for name in METHODS]
    runs += [("tracking", tracking, series, name, "float32", "native") for name in SINGLE_METHODS]
    runs += [("level", level, walk, name, "float64", "native") for name in XLA_METHODS]
    runs += [("range-bearing", radar, echoes, name, "float64", "native") for name in RADAR_METHODS]
    runs += [("tracking", tracking, series, name, "float64", "xla") for name in XLA_METHODS]
    for label, model, ys, name, dtype, backend in runs:
        out = wolf.filter(model, ys, method=name, dtype=dtype, backend=backend)
        for what, array in (("means", out.means), ("covs", out.covs), ("weights", out.weights)):
            if array is not None:
                yield f"{backend} {label} {name} {dtype} {what}", np.asarray(array)
    online = wolf.Online(tracking, method="WoLF")
    yield "native tracking WoLF float64 Online", np.stack([online.step(y) and online.mean for y in series])
    bank, keys = wolf.Bank(tracking, method="WoLF"), [f"{i}" for i in range(BANK_KEYS)]
    steps = [bank.step(keys, np.tile(y, (BANK_KEYS, 1))).mean for y in series[:BANK_STEPS]]
    yield "native tracking WoLF float64 Bank", np.stack(steps)


def compare(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> int:
    """Print which items differ; return the number of items that only one side has."""
    equal, missing = [], set(mine) ^ set(theirs)
    for name in sorted(set(mine) & set(theirs)):
        a, b = mine[name], theirs[name]
        if a.shape == b.shape and a.tobytes() == b.tobytes():
            equal.append(name)
            continue
        finite = np.isfinite(a) & np.isfinite(b)
        kinds = "" if np.array_equal(np.isfinite(a), np.isfinite(b)) else "; other entries are not finite"
        scale = np.max(np.abs(b[finite]), initial=np.finfo(b.dtype).tiny)
        differing = np.mean(a[finite] != b[finite])
        worst = np.max(np.abs(a[finite] - b[finite]), initial=0.0) / scale
        print(f"{name}: {differing:.0%} of the numbers differ, at most by {worst:.1e} of the largest{kinds}")
    print(f"{len(equal)} of {len(mine)} items have equal bits:")
    for name in equal:
        print(f"  {name}")
    for name in sorted(missing):
        print(f"only on one side: {name}")
    return len(missing)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE")
    action.add_argument("--compare", type=Path, metavar="FILE")
    given = parser.parse_args()
    mine = dict(compute())
    if given.write:
        np.savez(given.write, **mine)
        return
    print(f"{platform.system()} {platform.machine()} compared with {given.compare}")
    with np.load(given.compare) as file:
        sys.exit(bool(compare(mine, dict(file))))


if __name__ == "__main__":
    main()
