"""Ten thousand thermometers, some of which fail: a service and its live page.

    python examples/fleet_live.py
    python examples/fleet_live.py --sensors 500 --every 2 --minutes 1

Starts `wolf serve` on this machine, prints the address of its page, and sends readings: one per sensor every `--every`
seconds, with the current time. Faults begin at random: spikes, a stuck value, a silent sensor, a jump to another level.
Ctrl-C stops both and prints how many of the faulty sensors were listed with problems.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np

LEVEL_VAR, OBS_VAR = 1e-4, 0.04  # degrees squared, a second and a reading
FAULTS = ("spikes", "stuck", "silent", "jump")
PIECES = 10  # requests in which the fleet reports


class Fleet:
    """Sensors with different levels, and their faults."""

    def __init__(self, sensors, every, share, seed):
        self.rng, self.every = np.random.default_rng(seed), every
        self.level = 20 + 4 * self.rng.normal(size=sensors)
        self.names = np.array([f"hall-{i // 100:03d}/sensor-{i % 100:02d}" for i in range(sensors)])
        self.fault = np.full(sensors, "", "U8")
        self.held = np.full(sensors, np.nan)
        self.share = share

    def fail(self, chance):
        """Start a fault in each sensor with a probability."""
        breaks = (self.fault == "") & (self.rng.random(len(self.level)) < chance)
        breaks &= (self.fault != "").mean() < self.share
        self.fault[breaks] = self.rng.choice(FAULTS, breaks.sum())
        self.level[breaks & (self.fault == "jump")] += 8.0

    def read(self, some):
        """Return the present readings of some sensors as CSV."""
        size = len(some)
        self.level[some] += np.sqrt(LEVEL_VAR * self.every) * self.rng.normal(size=size)
        values = self.level[some] + np.sqrt(OBS_VAR) * self.rng.normal(size=size)
        fault = self.fault[some]
        values += (fault == "spikes") * (self.rng.random(size) < 0.4) * self.rng.choice([-30.0, 45.0], size)
        self.held[some] = np.where(
            fault == "stuck", np.where(np.isnan(self.held[some]), values, self.held[some]), np.nan
        )
        values = np.where(fault == "stuck", self.held[some], values)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        spoken = [i for i in range(size) if fault[i] != "silent"]
        return "sensor,at,celsius\n" + "".join(f"{self.names[some[i]]},{at},{values[i]:.3f}\n" for i in spoken)


def post(address, body):
    request = urllib.request.Request(f"{address}/measurements", body.encode(), {"Content-Type": "text/csv"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def start(folder, port):
    """Start the service; return its process and its address."""
    command = [sys.executable, "-m", "wolf", "serve", "--state", folder, "--port", str(port)]
    command += ["--key", "sensor", "--value", "celsius", "--time", "at"]
    command += ["--set", f"level_var={LEVEL_VAR}", "--set", f"obs_var={OBS_VAR}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    if "Serving at" not in line:
        raise SystemExit(line)
    return process, line.split()[2]


def run(address, fleet, seconds):
    """Send readings for a number of seconds, or longer if the machine is busy; return their number."""
    begun, sent, turns = time.monotonic(), 0, round(seconds * PIECES / fleet.every)
    parts = np.array_split(np.arange(len(fleet.level)), PIECES)
    for turn in range(turns):
        sent += post(address, fleet.read(parts[turn % PIECES]))["rows"]
        if turn > turns / 4:  # at first no faults, so that the filters reach steady state
            fleet.fail(2 * fleet.share / turns)
        time.sleep(max(0.0, begun + (turn + 1) * fleet.every / PIECES - time.monotonic()))
    return sent


def judge(address, fleet):
    """Compare the keys that the service reports with the faulty sensors."""
    with urllib.request.urlopen(f"{address}/keys?limit=1000") as answer:
        reported = {each["key"] for each in json.load(answer) if each["problem"]}
    rows = {}
    for kind in FAULTS:
        broken = set(fleet.names[fleet.fault == kind].tolist())
        rows[kind] = len(broken & reported), len(broken)
    sound = set(fleet.names[fleet.fault == ""].tolist())
    return rows, len(sound & reported), len(sound)


def main(sensors=10_000, every=10.0, minutes=30.0, share=0.003, port=8765, seed=1):
    fleet = Fleet(sensors, every, share, seed)
    with tempfile.TemporaryDirectory() as folder:
        process, address = start(folder, port)
        print(f"Open {address} in a browser; press Ctrl-C to stop.", flush=True)
        sent = 0
        with suppress(KeyboardInterrupt):
            sent = run(address, fleet, 60 * minutes)
        rows, false, sound = judge(address, fleet)
        process.terminate()
        process.communicate()
    print(f"{sent:,} readings of {sensors:,} sensors")
    for kind, (found, broken) in rows.items():
        print(f"{kind:<8} reported: {found} of {broken}")
    print(f"sound    reported: {false} of {sound:,}")
    return rows, false


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A service with a live page, and sensors that fail.")
    parser.add_argument("--sensors", type=int, default=10_000)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two readings of a sensor")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--share", type=float, default=0.003, help="share of sensors that fail")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
