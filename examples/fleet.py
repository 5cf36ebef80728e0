"""A fleet of thermometers, some of them faulty, through one bank and one stream.

    python examples/fleet.py
    python examples/fleet.py --sensors 50 --rows 100

Simulates sensors with different levels; rows arrive out of order, and some twice. A tenth of the sensors have a
fault: spikes, a value that does not change any more, or a clock that lags. The stream is killed once in the middle
and resumed. Tables: counts of rows, how far the estimates are from the truth, and the
sensors that were flagged most.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

import wolf
import wolf_fleet
from wolf_fleet.streaming import parts

LEVEL_VAR, OBS_VAR = 0.01, 0.25  # degrees squared, a minute and a reading
MINUTE, LATENESS = 60.0, 90.0  # seconds
FAULTS = ("spikes", "stuck", "slow clock")


class Killed(Exception):  # noqa: N818
    pass


def simulate(sensors, rows, seed):
    """Return the truth, the rows in order of arrival (sensor, time, value), and the fault of each sensor."""
    rng = np.random.default_rng(seed)
    truth = 20 + 5 * rng.normal(size=sensors) + np.cumsum(np.sqrt(LEVEL_VAR) * rng.normal(size=(rows, sensors)), axis=0)
    values = truth + np.sqrt(OBS_VAR) * rng.normal(size=truth.shape)
    faults = np.where(rng.random(sensors) < 0.1, rng.choice(FAULTS, sensors), "")
    spikes = (faults == "spikes") & (rng.random(truth.shape) < 0.15)
    values = np.where(spikes, values + rng.choice([-40.0, 60.0], truth.shape), values)
    values[rows // 2 :, faults == "stuck"] = values[rows // 2, faults == "stuck"]
    times = MINUTE * np.arange(rows)[:, None] - np.where(faults == "slow clock", 3600.0, 0.0)
    sent = MINUTE * np.arange(rows)[:, None] + rng.uniform(0, LATENESS, truth.shape)
    repeats = rng.choice(sent.size, sent.size // 100, replace=False)
    rows_sent = np.concatenate([np.arange(sent.size), repeats])
    when = np.concatenate([sent.ravel(), sent.ravel()[repeats] + rng.uniform(0, MINUTE, len(repeats))])
    where, who = np.unravel_index(rows_sent[np.argsort(when)], truth.shape)
    return truth, [(int(s), float(times[t, s]), float(values[t, s])) for t, s in zip(where, who, strict=True)], faults


def make_bank():
    prior = wolf.Gaussian([0.0], [[1e12]])  # diffuse: a new sensor starts at its first reading
    return wolf.Bank(wolf.models.local_level(LEVEL_VAR, OBS_VAR, prior))


def run(folder, rows):
    """Stream the rows from a file, with a kill in the middle."""
    source = folder / "rows.csv"
    source.write_text("sensor,time,value\n" + "".join(f"{s},{t},{v:.3f}\n" for s, t, v in rows))
    settings = {"key": "sensor", "values": "value", "time": "time", "allowed_lateness": LATENESS, "step": MINUTE}
    settings |= {"state": folder / "state", "batch_rows": max(1, len(rows) // 5)}

    def kill(done):
        if done.epoch == 2:
            raise Killed

    try:
        wolf_fleet.stream(source, make_bank(), folder / "clean", on_progress=kill, **settings)
    except Killed:
        print("killed after two commits; the same call resumes:\n")
    done = wolf_fleet.stream(source, make_bank(), folder / "clean", **settings)
    return done, pyarrow.concat_tables(parquet.read_table(part) for part in parts(folder / "state"))


def main(sensors=1000, rows=200, seed=1):
    truth, arrived, faults = simulate(sensors, rows, seed)
    with tempfile.TemporaryDirectory() as folder:
        done, out = run(Path(folder), arrived)
    print(f"{done}\n")
    who = np.array(out["sensor"].to_pylist(), int)
    ahead = np.where(faults[who] == "slow clock", 3600.0, 0.0)
    minute = ((np.array(out["time"]) + ahead) / MINUTE).astype(int)
    miss, raw = (np.abs(np.array(out[name]) - truth[minute, who]) for name in ("mean", "value"))
    print(f"{'':<12}{'sensors':>9}{'raw, degrees':>14}{'filtered':>10}{'flagged':>9}")
    flagged = np.array(out["outlier"])
    for fault in ("", *FAULTS):
        mine = faults[who] == fault
        if mine.any():
            cells = f"{np.mean(raw[mine]):>14.2f}{np.mean(miss[mine]):>10.2f}{np.mean(flagged[mine]):>9.1%}"
            print(f"{fault or 'sound':<12}{np.sum(faults == fault):>9}{cells}")
    share = np.bincount(who, flagged, sensors) / np.maximum(np.bincount(who, minlength=sensors), 1)
    worst = ", ".join(f"{s} ({share[s]:.0%}{', ' + faults[s] if faults[s] else ''})" for s in np.argsort(-share)[:5])
    print(f"\nmost flagged: {worst}")
    return done, float(np.mean(miss)), float(np.mean(raw))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Filter a fleet of sensors.")
    parser.add_argument("--sensors", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
