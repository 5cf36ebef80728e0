"""What a bank, a stream and a service cost a row, in CPU time of the process.

    python benchmarks/fleet.py

Everything runs in turn in one process after a warm-up; each figure is the smallest of several. It is checked that every
row was used. The 2-D tracking model has four states; the stream has a local level.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import wolf
import wolf_fleet

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
    timed, clock = wolf.Bank(TRACK), iter(range(10**6))

    def feed_timed():
        for t in range(STEPS):
            assert timed.step(np.arange(KEYS), ys[:, t], np.full(KEYS, float(next(clock)))).used.all()

    feed_timed()
    yield "the same with times, us a row", cost(feed_timed) / size
    for many in (MANY, 10 * MANY):
        large = wolf.Bank(TRACK)
        large.step(np.arange(many), rng.normal(size=(many, 2)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bank.npz"
            begun = time.monotonic()
            yield f"bank of {many:,} keys saved, s of CPU", cost(lambda b=large, p=path: b.save(p))
            yield "  and s until it was on disk", (time.monotonic() - begun) / ROUNDS
            yield "  and MB", path.stat().st_size / 1e6
            yield "  read again, s of CPU", cost(lambda b=large, p=path: b.read(p))


def stream_costs(rng, folder):
    """CSV through the bank to Parquet, commits included."""
    keys, values = rng.integers(KEYS, size=ROWS), rng.normal(size=ROWS)
    lines = (f"sensor{k},{i / 100},{v:.3f}\n" for i, (k, v) in enumerate(zip(keys, values, strict=True)))
    (folder / "rows.csv").write_text("id,t,v\n" + "".join(lines))
    starts = iter(range(100))

    def run(batch):
        place = folder / str(next(starts))
        names = {"key": "id", "values": "v", "time": "t", "allowed_lateness": 3.0, "batch_rows": batch}
        done = wolf_fleet.stream(folder / "rows.csv", wolf.Bank(LEVEL), place / "out", state=place / "state", **names)
        assert done.used == ROWS

    run(100_000)
    for batch in (10_000, 100_000):
        yield f"stream, {KEYS:,} keys, commits of {batch:,} rows, us a row", cost(lambda b=batch: run(b)) / ROWS * 1e6


def service_costs(rng, folder):
    """Requests without HTTP: many rows in each, and one; the flush to disk included."""
    from wolf_fleet.service import Service

    with Service(wolf.Bank(LEVEL), folder / "service", key="id", values="v", time="t") as service:
        clock = iter(range(1, 10**6))

        def post(rows):
            t, values = next(clock), rng.normal(size=rows)
            body = "id,t,v\n" + "".join(f"sensor{k},{t},{v:.3f}\n" for k, v in enumerate(values))
            return body.encode()

        def run(bodies):
            for body in bodies:
                service.post("csv", body)

        run([post(KEYS)])
        many, single = (
            [[post(rows) for _ in range(times)] for _ in range(ROUNDS)] for rows, times in ((KEYS, 10), (1, 200))
        )
        yield f"service, requests of {KEYS:,} rows, us a row", cost(lambda: run(many.pop(0))) / KEYS / 10 * 1e6
        yield "service, requests of one row, us a request", cost(lambda: run(single.pop(0))) / 200 * 1e6
        assert service.counts.used == KEYS * (10 * ROUNDS + 1) + 200 * ROUNDS


def main():
    rng = np.random.default_rng(0)
    for name, figure in bank_costs(rng):
        print(f"{name:<60}{figure:8.2f}")
    with tempfile.TemporaryDirectory() as folder:
        for costs in (stream_costs, service_costs):
            for name, figure in costs(rng, Path(folder)):
                print(f"{name:<60}{figure:8.2f}")


if __name__ == "__main__":
    main()
