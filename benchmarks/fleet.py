"""What a bank and a stream cost a row, in CPU time of the process.

    python benchmarks/fleet.py

Everything runs in turn in one process after a warm-up; each figure is the smallest of several. It is checked that every
row was used. The 2-D tracking model has four states; the stream has a local level.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import wolf

KEYS, MANY, STEPS, ROWS, ROUNDS = 10_000, 100_000, 20, 400_000, 3
TRACK = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
LEVEL = wolf.models.local_level(0.1, 1.0)


def cost(run):
    """Give the smallest CPU time of several runs, in seconds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        run()
        taken.append(time.process_time() - begun)
    return min(taken)


def bank_costs(rng):
    """A row of each key in a batch, against the same steps in `filter_many`; a checkpoint of many keys."""
    ys, size = rng.normal(size=(KEYS, STEPS, 2)), KEYS * STEPS / 1e6
    kinds = {"integers": rng.permutation(KEYS), "text": [f"vehicle {i}" for i in rng.permutation(KEYS)]}
    for name in ("WoLF", None):
        label = name or "the default"

        def many(name=name):
            return wolf.filter_many(TRACK, ys, method=name, save="means")

        for kind, keys in kinds.items():
            bank = wolf.Bank(TRACK, name)

            def feed(bank=bank, keys=keys):
                for t in range(STEPS):
                    assert bank.step(keys, ys[:, t]).used.all()

            feed()
            yield f"bank, {label}, {KEYS:,} keys ({kind}) in a batch, us a row", cost(feed) / size
        many()
        yield "the same steps in filter_many, us a row", cost(many) / size
    large = wolf.Bank(TRACK)
    large.step(np.arange(MANY), rng.normal(size=(MANY, 2)))
    with tempfile.TemporaryDirectory() as folder:
        yield f"bank of {MANY:,} keys saved, s", cost(lambda: large.save(Path(folder) / "bank.npz"))


def stream_costs(rng, folder):
    """CSV through the bank to Parquet, commits included."""
    keys, values = rng.integers(KEYS, size=ROWS), rng.normal(size=ROWS)
    lines = (f"sensor{k},{i / 100},{v:.3f}\n" for i, (k, v) in enumerate(zip(keys, values, strict=True)))
    (folder / "rows.csv").write_text("id,t,v\n" + "".join(lines))
    starts = iter(range(100))

    def run(batch):
        place = folder / str(next(starts))
        names = {"key": "id", "values": "v", "time": "t", "lateness": 3.0, "batch": batch}
        done = wolf.stream(folder / "rows.csv", wolf.Bank(LEVEL), place / "out", state=place / "state", **names)
        assert done.used == ROWS

    run(100_000)
    for batch in (10_000, 100_000):
        yield f"stream, {KEYS:,} keys, commits of {batch:,} rows, us a row", cost(lambda b=batch: run(b)) / ROWS * 1e6


def main():
    rng = np.random.default_rng(0)
    for name, figure in bank_costs(rng):
        print(f"{name:<60}{figure:8.2f}")
    with tempfile.TemporaryDirectory() as folder:
        for name, figure in stream_costs(rng, Path(folder)):
            print(f"{name:<60}{figure:8.2f}")


if __name__ == "__main__":
    main()
