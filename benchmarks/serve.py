"""Throughput, latency and memory of `wolf serve` against clients and rows per request.

    python benchmarks/serve.py
    python benchmarks/serve.py --steady 1000000        # memory over a million requests

A server process and a client process on one machine. Each row of the table is one phase: all clients send a request as
soon as the last one is answered, over connections that stay open. CPU time is that of the server, per row; it is less
disturbed by other work on the machine than the other figures. Answers with 503 count as rejected and are sent again.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PHASES = [(1, 1), (8, 1), (32, 1), (1, 100), (8, 1000), (2, 10_000), (200, 2000)]  # clients, rows in a request
KEYS, SECONDS, STEADY_CLIENTS, SAMPLES = 1000, 8.0, 32, 10
TICKS = os.sysconf("SC_CLK_TCK")


class Load:
    """Clients that share a clock, so that each request has rows of a time of its own."""

    def __init__(self, address):
        self.host, _, port = address.removeprefix("http://").rpartition(":")
        self.port, self.clock, self.rejected = int(port), 0, 0
        self.values = np.random.default_rng(0).normal(size=KEYS)
        self.latencies = []

    def request(self, rows):
        """Format one request."""
        times, first = -(-rows // KEYS), self.clock
        self.clock += times
        lines = (f"sensor{i % KEYS},{first + i // KEYS},{self.values[i % KEYS]:.3f}\n" for i in range(rows))
        if rows == 1:
            lines = [f"sensor{first % KEYS},{first},{self.values[first % KEYS]:.3f}\n"]
        body = ("id,t,v\n" + "".join(lines)).encode()
        head = (
            f"POST /measurements HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: {len(body)}"
        )
        return f"{head}\r\n\r\n".encode() + body

    async def client(self, rows, until, count):
        """Send requests until a time, or as many as are left."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        while time.monotonic() < until and len(self.latencies) < count:
            request, begun = self.request(rows), time.monotonic()
            while True:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                if not head.startswith(b"HTTP/1.1 503"):
                    break
                self.rejected += 1
                await asyncio.sleep(1.0)
            assert head.startswith(b"HTTP/1.1 200"), head
            self.latencies.append(time.monotonic() - begun)
        writer.close()

    async def phase(self, clients, rows, seconds=np.inf, count=np.inf):
        """Run clients side by side, and return how long they took."""
        self.latencies, self.rejected, begun = [], 0, time.monotonic()
        until = begun + seconds
        await asyncio.gather(*(self.client(rows, until, count) for _ in range(clients)))
        return time.monotonic() - begun


def cpu_seconds(process):
    """Read the CPU time of a process."""
    cells = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / TICKS


def megabytes(process):
    """Read the resident memory of a process."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def start(folder, *options):
    """Start a server, and return the process and its address."""
    code = "from wolf.cli import main; main()"
    names = ["--state", folder, "--key", "id", "--value", "v", "--time", "t", "--port", "0"]
    settings = ["--set", "level_var=0.1", "--set", "obs_var=1"]
    command = [sys.executable, "-c", code, "serve", *names, *settings, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    assert line.startswith("Serving at"), line
    return process, line.split()[2]


def measure_phases(folder, seconds):
    """Print the table of phases."""
    process, address = start(folder)
    load = Load(address)
    try:
        asyncio.run(load.phase(2, KEYS, 3.0))  # compile, and make the keys
        print(
            "| clients | rows a request | requests/s | rows/s | p50, ms | p99, ms | us of CPU a row | rejected | MB |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for clients, rows in PHASES:
            cpu = cpu_seconds(process)
            taken = asyncio.run(load.phase(clients, rows, seconds))
            cpu, count = cpu_seconds(process) - cpu, len(load.latencies)
            middle, high = 1e3 * np.quantile(load.latencies, [0.5, 0.99])
            cells = [f"{clients:,}", f"{rows:,}", f"{count / taken:,.0f}", f"{count * rows / taken:,.0f}"]
            cells += [f"{middle:.1f}", f"{high:.1f}", f"{1e6 * cpu / count / rows:.2f}", f"{load.rejected:,}"]
            print("|", " | ".join([*cells, f"{megabytes(process):.0f}"]), "|", flush=True)
    finally:
        process.terminate()
        process.wait()


def measure_memory(folder, requests):
    """Print the memory during many requests of one row."""
    process, address = start(folder, "--history-rows", "10000")
    load = Load(address)
    try:
        asyncio.run(load.phase(2, KEYS, 3.0))
        print(f"start: {megabytes(process):.0f} MB")
        for i in range(1, SAMPLES + 1):
            asyncio.run(load.phase(STEADY_CLIENTS, 1, count=requests // SAMPLES))
            print(f"after {i * (requests // SAMPLES):,} requests: {megabytes(process):.0f} MB", flush=True)
    finally:
        process.terminate()
        process.wait()


def main():
    """Measure the phases, or the memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS, help="Length of a phase.")
    parser.add_argument("--steady", type=int, help="Only the memory, over this many requests.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.steady:
            measure_memory(folder, options.steady)
        else:
            measure_phases(folder, options.seconds)


if __name__ == "__main__":
    main()
