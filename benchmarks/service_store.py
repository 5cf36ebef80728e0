"""The write-ahead log of the service against SQLite: throughput in one run, and what a flipped bit does.

    python benchmarks/service_store.py

All stores keep the same records behind the same two methods. In each round every store gets the same requests in
turn, through a `Service`; CPU time is that of the process, and the smallest of the rounds counts. For the second table
a store with 60 requests is copied as a crash leaves it, one random bit of the copy is flipped, and it is read again.
"""

import argparse
import shutil
import sqlite3
import tempfile
import time
import zlib
from pathlib import Path
from unittest import mock

import numpy as np

import wolf
from wolf_fleet.service import service as services
from wolf_fleet.service.write_ahead_log import Journal, Record

ROUNDS, NUM_FLIPS, STORED = 7, 400, 60
KINDS = {
    "requests of 1 row": (200, 1, 1),
    "64 of 1 row together": (640, 1, 64),
    "requests of 1,000 rows": (40, 1000, 1),
}


class SqliteLog:
    """Records in SQLite with a checksum each, one transaction for each `append`."""

    mode = "WAL"

    def __init__(self, path, create=False):
        self.path, self.size = path, 0
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA journal_mode={self.mode}")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS log (n INTEGER PRIMARY KEY, id, format, at, crc, body)")

    def append(self, records):
        """Store records durably."""
        rows = [(each.request_id, each.format, each.at, zlib.crc32(each.body), each.body) for each in records]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO log (id, format, at, crc, body) VALUES (?, ?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")
        self.size += sum(len(each.body) for each in records)

    def records(self, report):
        """Read all records; report damage that SQLite or a checksum finds."""
        try:
            for (words,) in self._connection.execute("PRAGMA integrity_check"):
                if words != "ok":
                    report(words)
            previous = 0
            for n, request_id, format, at, crc, body in self._connection.execute("SELECT * FROM log ORDER BY n"):
                if n != previous + 1 or zlib.crc32(body) != crc:
                    report(f"record {n}")
                previous = n
                yield Record(request_id, format, at, body)
        except (sqlite3.Error, TypeError, UnicodeDecodeError) as error:
            report(str(error))

    def close(self):
        """Close the database."""
        self._connection.close()


class RollbackLog(SqliteLog):
    """The same with a rollback journal, after which the database itself is flushed in each transaction."""

    mode = "TRUNCATE"


STORES = {"write-ahead log": Journal, "SQLite, WAL": SqliteLog, "SQLite, rollback": RollbackLog}


def bodies(rng, clock, count, rows):
    """Make the CSV bodies of some requests."""
    made = []
    for _ in range(count):
        t = next(clock)
        lines = "".join(f"sensor{k},{t},{v:.3f}\n" for k, v in enumerate(rng.normal(size=rows)))
        made.append(f"id,t,v\n{lines}".encode())
    return made


def post(service, requests, together):
    """Post requests, some of them in one flush, and return CPU time and time."""
    cpu, begun = time.process_time(), time.monotonic()
    for first in range(0, len(requests), together):
        some = [Record("", "csv", time.time(), body) for body in requests[first : first + together]]
        assert not any(isinstance(answer, Exception) for answer in service.post_many(some))
    return time.process_time() - cpu, time.monotonic() - begun


def measure_throughput(folder, rounds):
    """Print requests per second of CPU time and of time, relative to the write-ahead log."""
    opened, rng = {}, np.random.default_rng(0)
    for name, store in STORES.items():
        with mock.patch.object(services, "Journal", store):
            bank = wolf.Bank(wolf.models.local_level(0.1, 1.0))
            options = {"batch_rows": 10**9, "commit_interval": 1e9}
            opened[name] = services.Service(bank, folder / name.replace(" ", "-"), key="id", values="v", **options)
    for kind, (count, rows, together) in KINDS.items():
        taken = {name: [] for name in STORES}
        for _ in range(rounds):
            requests = bodies(rng, iter(range(10**6)), count, rows)
            for name, service in opened.items():
                taken[name].append(post(service, requests, together))
        least = {name: np.min(some, axis=0) for name, some in taken.items()}
        median = {name: np.median(some, axis=0) for name, some in taken.items()}
        for name in STORES:
            cpu = least["write-ahead log"][0] / least[name][0]
            wall = median["write-ahead log"][1] / median[name][1]
            each = 1e6 * least[name][0] / count
            print(
                f"{kind:<24}{name:<20}{each:10.0f} us of CPU a request{cpu:8.2f} of the CPU rate{wall:8.2f} of the rate"
            )
    for service in opened.values():
        service.broken = "the benchmark has ended"  # no last commit
        service.close()


def flip_bits(folder, name, store, num_flips):
    """Count what a flipped bit does to a store of which a crash has left the files."""
    rng, source = np.random.default_rng(1), folder / f"flips-{name.replace(' ', '-')}"
    source.mkdir()
    path = source / "store"
    log = store(path, create=True)
    sent = [Record(f"id {i}", "csv", float(i), rng.bytes(int(rng.integers(20, 2000)))) for i in range(STORED)]
    for record in sent:
        log.append([record])
    counts = {"reported": 0, "harmless": 0, "silent loss": 0}
    for _ in range(num_flips):
        copied = folder / "copy"
        shutil.copytree(source, copied)
        files = [each for each in copied.iterdir() if each.stat().st_size and not each.name.endswith("-shm")]
        sizes = np.array([each.stat().st_size for each in files])
        chosen = files[rng.choice(len(files), p=sizes / sizes.sum())]
        used = len(chosen.read_bytes().rstrip(b"\0"))
        whole = bytearray(chosen.read_bytes())
        whole[int(rng.integers(used))] ^= 1 << int(rng.integers(8))
        chosen.write_bytes(whole)
        counts[read_again(copied / "store", store, sent)] += 1
        shutil.rmtree(copied)
    log.close()
    print(f"{name:<20}", ", ".join(f"{words} {number}" for words, number in counts.items()))


def read_again(path, store, sent):
    """Return whether damage was reported, had no effect, or lost records silently."""
    reports = []
    try:
        log = store(path)
        found = list(log.records(reports.append))
        log.close()
    except sqlite3.Error as error:
        return "reported" if str(error) else "silent loss"
    return "reported" if reports else "harmless" if found == sent else "silent loss"


def main():
    """Compare throughput, and then what a flipped bit does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--flips", type=int, default=NUM_FLIPS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_throughput(Path(folder), options.rounds)
        for name, store in STORES.items():
            flip_bits(Path(folder), name, store, options.flips)


if __name__ == "__main__":
    main()
