"""A stream that runs for minutes on dirty rows: does its memory stay flat, and is nothing lost in the end?

    python benchmarks/soak.py [minutes] [rows a second]

A file grows by rows of a thousand sensors, of which some fall silent and others begin; a percent are outliers, some
come twice, late, hopelessly late, or are no rows at all. `wolf_fleet.stream` follows the file in a separate
process with a commit every second, and its memory is sampled every few seconds. Then it is killed with signal 9 and
resumed, and its output is compared, bit for bit, with that of an uninterrupted run over the whole file. Needs Linux.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pyarrow import dataset

import wolf
import wolf_fleet

KEYS, CHURN = 1000, 0.2  # sensors at once, and new ones a second
LATENESS, IDLE_TIMEOUT = 3.0, 60.0
SETTINGS = {"key": "id", "values": "v", "time": "t", "allowed_lateness": LATENESS}
SETTINGS |= {"idle_timeout": IDLE_TIMEOUT, "commit_interval": 1.0}
LOOK = 2.0  # seconds between two looks at the memory
WARM = 60.0  # seconds until it is expected to stay flat: as long as it takes until the first keys are forgotten


def rows(rng, begin, seconds, rate):
    """Make the lines of some seconds."""
    t = np.sort(rng.uniform(begin, begin + seconds, rng.poisson(rate * seconds)))
    key = rng.integers(KEYS, size=len(t)) + (CHURN * t).astype(int)  # the oldest give way to new ones
    v = np.sin(t / 100 + key) + rng.normal(size=len(t)) + np.where(rng.random(len(t)) < 0.01, 40.0, 0.0)
    t = t - np.where(rng.random(len(t)) < 0.05, rng.uniform(0, LATENESS, len(t)), 0.0)
    t = t - np.where(rng.random(len(t)) < 0.001, 10 * LATENESS, 0.0)
    lines = [f"s{k},{a:.4f},{x:.4f}" for k, a, x in zip(key, t, v, strict=True)]
    lines += [lines[i] for i in np.flatnonzero(rng.random(len(lines)) < 0.002)]
    lines += ["no row at all"] if rng.random() < 0.2 else []
    return "".join(f"{line}\n" for line in lines)


def follow(folder, name, follow):
    """Stream the file, from where an earlier start stopped."""
    bank = wolf.Bank(wolf.models.local_level(0.001, 1.0, prior=wolf.Gaussian([0.0], [[1e4]])))
    return wolf_fleet.stream(
        folder / "rows.csv", bank, folder / name, state=folder / f"{name}-state", follow=follow, **SETTINGS
    )


def resident(pid):
    """Give the memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def feed(folder, process, minutes, rate):
    """Let the file grow, and look at the memory meanwhile."""
    rng, begun, seen, now = np.random.default_rng(0), time.monotonic(), [], 0.0
    with (folder / "rows.csv").open("a") as file:
        while now < 60 * minutes:
            later = time.monotonic() - begun
            if later - now < LOOK:
                time.sleep(LOOK - (later - now))
                continue
            file.write(rows(rng, now, later - now, rate))
            file.flush()
            assert process.poll() is None, "the stream ended"
            seen.append((later, resident(process.pid)))
            now = later
    return np.array(seen)


def outcome(folder, name):
    parts = wolf_fleet.streaming.parts(folder / f"{name}-state")
    return len(parts), dataset.dataset(parts).to_table().sort_by([("id", "ascending"), ("t", "ascending")])


def main(minutes, rate):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "rows.csv").write_text("id,t,v\n")
        with subprocess.Popen([sys.executable, __file__, "--follow", place]) as process:
            try:
                seen = feed(folder, process, minutes, rate)
            finally:
                process.kill()
        done = follow(folder, "out", follow=False)
        undisturbed = follow(folder, "again", follow=False)
        (parts, got), (_, expected) = outcome(folder, "out"), outcome(folder, "again")
        assert got.equals(expected)
        counts = ("rows", "used", "outliers", "late", "repeated", "unreadable")
        assert all(getattr(done, name) == getattr(undisturbed, name) for name in counts)
    warm = seen[seen[:, 0] > min(WARM, 30 * minutes)]
    slope = np.polyfit(warm[:, 0] / 60, warm[:, 1], 1)[0]
    print(
        f"{minutes:g} minutes, {done.rows:,} rows, {parts} commits: "
        + ", ".join(f"{n} {getattr(done, n)}" for n in counts[1:])
    )
    print(
        f"memory: {warm[0, 1]:.0f} MB after {warm[0, 0]:.0f} s, {warm[-1, 1]:.0f} at the end, {slope:+.2f} MB a minute"
    )
    print("after signal 9 and a restart: the output of an uninterrupted run, bit for bit")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--follow"]:
        follow(Path(sys.argv[2]), "out", follow=True)
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, float(sys.argv[2]) if len(sys.argv) > 2 else 2000.0)
