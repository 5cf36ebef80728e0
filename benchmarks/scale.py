"""What a million keys cost in one process, and whether two processes do twice as much.

    python benchmarks/scale.py [keys]

2-D tracks of four states, `Learned`, keys of text, times in seconds. CPU times of the process; each is the
smallest of several after a warm-up. Every row is checked to be used.
"""

import resource
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

import numpy as np

import wolf
import wolf_fleet
from wolf_fleet.datasets import worker_process

MODEL = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
ROUNDS, BATCH = 3, 100_000
CLOCK = count(1)  # one for all batches: a row that is not newer than its key's last one would not be used


def memory():
    """Give the memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def fill(keys, first=0):
    """Make a bank of many keys; give it, the names and the memory that it took."""
    names = [f"sensor-{i}" for i in range(first, first + keys)]
    warm = wolf.Bank(MODEL, "Learned")
    warm.step(names[:10], np.zeros((10, 2)), np.zeros(10))
    bank, before = wolf.Bank(MODEL, "Learned"), memory()
    for start in range(0, keys, BATCH):
        some = names[start : start + BATCH]
        bank.step(some, np.zeros((len(some), 2)), np.zeros(len(some)))
    return bank, names, memory() - before


def steps(bank, names, batch, rounds=ROUNDS):
    """Give CPU and time of a row in microseconds, for batches of keys drawn at random."""
    rng, taken = np.random.default_rng(0), []
    batch = min(batch, len(names))
    for t in islice(CLOCK, rounds + 1):
        some = [names[i] for i in rng.choice(len(names), batch, replace=False)]
        ys, times = rng.normal(size=(batch, 2)), np.full(batch, float(t))
        begun, cpu = time.monotonic(), time.process_time()
        assert bank.step(some, ys, times).used.all()
        taken.append((time.process_time() - cpu, time.monotonic() - begun))
    return tuple(value / batch * 1e6 for value in min(taken[1:]))


def shard(keys, first):
    """Work on one share of the keys, in a process of its own; give the time of a row."""
    bank, names, _ = fill(keys, first)
    return steps(bank, names, BATCH, 20)[1]


def stream(keys, folder):
    """Give CPU and time of a row in microseconds, from CSV to Parquet, with a commit for each row of every key."""
    rng = np.random.default_rng(0)
    with (folder / "rows.csv").open("w") as file:
        file.write("id,t,x,y\n")
        for t in range(3):
            cells = zip(rng.permutation(keys).tolist(), rng.normal(size=(keys, 2)).round(3).tolist(), strict=True)
            file.writelines(f"sensor-{i},{t},{x},{y}\n" for i, (x, y) in cells)
    begun, cpu = time.monotonic(), time.process_time()
    named = {"key": "id", "values": ["x", "y"], "time": "t", "batch_rows": keys, "commit_interval": 3600.0}
    done = wolf_fleet.stream(
        folder / "rows.csv", wolf.Bank(MODEL, "Learned"), folder / "out", state=folder / "state", **named
    )
    assert done.used == 3 * keys
    return (time.process_time() - cpu) / done.used * 1e6, (time.monotonic() - begun) / done.used * 1e6


def main():
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    bank, names, taken = fill(keys)
    print(f"{keys:,} keys take {taken:,.0f} MB, {taken / keys * 1e6:.0f} bytes a key, without their names")
    for batch in (1, 100, 10_000, BATCH, keys):
        cpu, _ = steps(bank, names, batch)
        print(f"batches of {batch:>9,} rows of {keys:,} keys: {cpu:8.2f} us a row")
    del bank, names
    with tempfile.TemporaryDirectory() as folder:
        cpu, wall = stream(keys, Path(folder))
    print(f"stream of {keys:,} keys, a commit for each row of every key: {cpu:.2f} us of CPU a row, {wall:.2f} us")
    (alone,) = worker_process.run([(shard, (keys // 4, 0))], 1)
    both = list(worker_process.run([(shard, (keys // 4, i * keys)) for i in range(2)], 2))
    print(
        f"one process {alone:.2f} us a row; two at once {both[0]:.2f} and {both[1]:.2f}: {2 * alone / max(both):.2f} x"
    )


if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0])
    from scale import shard  # by a name that the other processes know

    main()
