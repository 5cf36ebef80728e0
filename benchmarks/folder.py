"""What it costs to filter a folder that is larger than the memory that it may take.

    python benchmarks/folder.py [folder] [keys]

Makes a dataset of 1,000 rows for each key (50,000 keys: 600 MB of Parquet, 2.5 GB of disk in all), filters it by the
command with a bound of 1 GB, and prints the time, the CPU time and the peak memory of all processes (PSS, which needs
Linux and psutil).
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow
from pyarrow import parquet

STEPS, FILES, MEMORY = 1000, 10, 1.0


def make(folder, keys):
    """Local levels with 2 % outliers, a file for each day; every sensor is in every file."""
    rng, level, each = np.random.default_rng(0), np.zeros(keys), STEPS // FILES
    for day in range(FILES):
        truth = level + np.cumsum(rng.normal(size=(each, keys)) * 0.3, axis=0)
        level = truth[-1]
        v = truth + rng.normal(size=truth.shape) + 30.0 * (rng.random(truth.shape) < 0.02)
        at = np.repeat((day * each + np.arange(each)) * 60, keys).astype("datetime64[s]")
        names = np.char.add("sensor-", np.tile(np.arange(keys), each).astype(str))
        (folder / f"day={day}").mkdir(parents=True)
        table = pyarrow.table({"id": names, "at": at, "v": v.ravel()})
        parquet.write_table(table, folder / f"day={day}" / "rows.parquet", row_group_size=250_000)


def memory_of(process):
    """Sum the memory of a process and those that it started; pages that they share count once."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):  # it has ended meanwhile
            total += each.memory_full_info().pss
    return total


def main():
    place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    keys = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    if not (place / "in").exists():
        make(place / "in", keys)
    shutil.rmtree(place / "out", ignore_errors=True)
    command = [sys.executable, "-m", "wolf", "dataset", str(place / "in"), "--by", "id", "--online", "--step", "60"]
    command += ["--set", "level_var=0.1", "--set", "obs_var=1", "--memory", str(MEMORY), "--out", str(place / "out")]
    begun, peak = time.monotonic(), 0
    running = subprocess.Popen(command)
    while running.poll() is None:
        with suppress(psutil.Error):
            peak = max(peak, memory_of(psutil.Process(running.pid)))
        time.sleep(0.2)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows, cpu = keys * STEPS, used.ru_utime + used.ru_stime
    print(f"{rows:,} rows, {time.monotonic() - begun:.0f} s, {cpu / rows * 1e6:.2f} us of CPU time a row")
    print(f"peak memory {peak / 2**30:.2f} GB, allowed {MEMORY:g} GB")


if __name__ == "__main__":
    main()
