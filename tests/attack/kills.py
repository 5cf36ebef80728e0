"""Kill a process by SIGKILL while it writes, many times, and check the files it leaves.

python tests/attack/kills.py save 200       during `Online.save`, again and again onto one file
python tests/attack/kills.py filter 50      during `wolf filter`

Children are forked after all imports and before JAX starts, so that each begins at once. Prints the number of kills,
how many of them came while a file was half written beside its target, and how many files were torn.
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import wolf
import wolf.cli.commands.filter
import wolf.native
import wolf.online
from wolf.cli import main as command

MODEL = wolf.models.local_level(1.0, 1.0)
ROWS = 20_000
VARIANCES = ("--model", "local-level", "--set", "level_var=1", "--set", "obs_var=1")


def in_child(work):
    """Fork, run `work` in the child, and return its process id; the child never returns."""
    child = os.fork()
    if child:
        return child
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    try:
        work()
    finally:
        os._exit(0)


def half_written():
    return list(Path().glob(".*.part"))


def kill(child, when):
    """Kill a child when `when` is true, and return whether it was writing."""
    while not when() and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(1e-4)
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # it had ended
    parts = half_written()
    for part in parts:
        part.unlink()
    return bool(parts)


def save(rng):
    """Save in a loop; the file must load, with the state of one whole save."""

    def work():
        online = wolf.Online(MODEL, "KF")
        while True:
            for _ in range(3):
                online.step(1.0)
            online.save("saved.npz")

    path = Path("saved.npz")
    path.unlink(missing_ok=True)
    child, wait = in_child(work), 0.03 * rng.random()
    while not path.exists():
        time.sleep(1e-3)
    end = time.monotonic() + wait
    writing = kill(child, lambda: time.monotonic() > end)
    return writing, check_in_child(lambda: wolf.Online.load(path, MODEL).t % 3 == 0)


def check_in_child(question):
    """Evaluate a condition in a child, so that JAX does not start in this process."""
    child = os.fork()
    if not child:
        good = False
        try:
            good = question()
        finally:
            os._exit(0 if good else 1)
    return os.waitpid(child, 0)[1] == 0


def filtering(rng):
    """Filter a file; the output must be the old file or the whole new one."""
    arguments = ("filter", "in.csv", *VARIANCES, "--out", "out.csv")
    if not Path("in.csv").exists():
        Path("in.csv").write_text("y\n" + "".join(f"{rng.gauss(0, 1):.3f}\n" for _ in range(ROWS)))
        begun = time.monotonic()
        os.waitpid(in_child(lambda: command(arguments)), 0)
        filtering.whole, filtering.takes = Path("out.csv").read_bytes(), time.monotonic() - begun
    Path("out.csv").write_text("old")
    child, end = in_child(lambda: command(arguments)), time.monotonic() + filtering.takes * rng.random()
    writes = rng.random() < 0.5  # half of the kills come while it writes, the others at any time
    writing = kill(child, half_written if writes else lambda: time.monotonic() > end)
    return writing, Path("out.csv").read_bytes() in (b"old", filtering.whole)


def main():
    """Run the kills, and print the counts."""
    work, count, rng = {"save": save, "filter": filtering}[sys.argv[1]], int(sys.argv[2]), random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = [work(rng) for _ in range(count)]
    print(f"{count} kills, {sum(w for w, _ in found)} while writing, {sum(not good for _, good in found)} torn")


if __name__ == "__main__":
    main()
