"""`wolf filter` on a long CSV file: time against pandas reading it, memory against `import wolf, pandas`.

    python benchmarks/files.py --rows 1000000

The limits are those of the project: 5 times the time of `pandas.read_csv` plus 10 s, and the memory of an idle
`import wolf, pandas` plus 10 times the file. Prints one row for each kind of time stamp, with the seconds of the
processor beside those of the clock.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

READ = "import sys, time, pandas; t = time.perf_counter(); pandas.read_csv(sys.argv[1]); print(time.perf_counter() - t)"


def write(path, rows, dates, seed=0):
    rng = np.random.default_rng(seed)
    start = np.datetime64("2024-01-01T00:00:00")
    with path.open("w") as file:
        file.write("time,value\n")
        level = 0.0
        for first in range(0, rows, 100_000):
            count = min(100_000, rows - first)
            steps = level + np.cumsum(0.3 * rng.normal(size=count))
            level = steps[-1]
            values = steps + rng.normal(size=count) + 50.0 * (rng.random(count) < 0.05)
            stamps = np.arange(first, first + count)
            stamps = start + stamps.astype("timedelta64[s]") if dates else stamps
            file.writelines(f"{t},{v:.4f}\n" for t, v in zip(stamps, values, strict=True))


def run(*command):
    """Run a command on its own; return its output, seconds, those of the processor, and peak memory in MB."""
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True, text=True);"
        "sys.stdout.write(done.stdout); sys.stderr.write(done.stderr);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024); sys.exit(done.returncode)"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    *lines, used = done.stdout.strip().splitlines()
    processor, peak = map(float, used.split())
    return lines, time.perf_counter() - started, processor, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    idle = run(sys.executable, "-c", "import wolf, pandas")[-1]
    print(f"{rows:,} rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; idle import {idle:.0f} MB")
    names = f"{'wolf s':>8}{'limit s':>9}{'CPU s':>7}{'wolf MB':>9}{'limit MB':>10}"
    print(f"{'time stamps':<12}{'file MB':>9}{'pandas s':>10}{names}")
    for name in ("numbers", "dates"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "readings.csv"
            write(path, rows, name == "dates")
            size = path.stat().st_size / 1e6
            read = min(float(run(sys.executable, "-c", READ, str(path))[0][0]) for _ in range(3))
            _, seconds, processor, peak = run(sys.executable, "-m", "wolf", "filter", str(path))
        limits = f"{5 * read + 10:>9.1f}{processor:>7.1f}{peak:>9.0f}{idle + 10 * size:>10.0f}"
        print(f"{name:<12}{size:>9.1f}{read:>10.2f}{seconds:>8.1f}{limits}")


if __name__ == "__main__":
    main()
