"""Kill a stream with signal 9 at random moments, start it again each time, and let it end.

python fleet/tests/streaming/streaming_kills.py FOLDER KILLS SEED

In FOLDER there is rows.csv; output and states go beside it, with batches of another size at each start. Children are
forked before JAX starts, so that each begins at once. Prints how many kills found the stream at work, and how many of
them left something that the manifest did not name.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import wolf
import wolf_fleet

SETTINGS = {"key": "id", "values": "v", "time": "t", "allowed_lateness": 3.0}
SOON = 0.05  # seconds: about as long as an epoch takes
VARIANCES = (0.1, 1.0)  # of the level and of the noise


def work(folder, batch):
    bank = wolf.Bank(wolf.models.local_level(*VARIANCES))
    wolf_fleet.stream(folder / "rows.csv", bank, folder / "out", state=folder / "state", batch_rows=batch, **SETTINGS)


def start(folder, batch):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(folder, batch)
        code = 0
    finally:
        os._exit(code)


def unnamed(folder):
    """Say whether something lies there that the manifest does not name."""
    hidden = [*folder.glob("out/.*"), *folder.glob("state/.*")]
    return bool(hidden) or len(list(folder.glob("state/states-*"))) > 1


def main(folder, kills, seed):
    rng, manifest, hits, torn = random.Random(seed), folder / "state" / "manifest.json", 0, 0
    for _ in range(kills):
        before = manifest.stat().st_mtime_ns if manifest.exists() else 0
        child, end = start(folder, rng.randrange(50, 90)), time.monotonic() + 10 * SOON * rng.random()
        anywhere = rng.random() < 0.3  # also while it starts; the others after an epoch, so that it gets on
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            on = manifest.exists() and manifest.stat().st_mtime_ns != before
            if (anywhere and time.monotonic() > end) or (on and not anywhere):
                time.sleep(0 if anywhere else SOON * rng.random())
                os.kill(child, signal.SIGKILL)
                hits += os.waitpid(child, 0)[1] == signal.SIGKILL
                torn += unnamed(folder)
                break
            time.sleep(1e-3)
    assert os.waitpid(start(folder, 1000), 0)[1] == 0
    print(hits, torn)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
