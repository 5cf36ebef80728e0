"""Who works on a folder: processes of this machine, or of a cluster, and how many rows each may hold."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from wolf import validation
from wolf.results import count
from wolf_fleet.datasets import worker_process as workers

BASE = 250 * 2**20  # bytes of a process before it has any rows: Python, JAX, pyarrow
LEAST = 16 * 2**20  # bytes of rows that a process must have room for
SHARE = 0.5  # of the machine's memory, if nobody says


class Team(Protocol):
    """Those who do the work: processes of this machine, or of a cluster.

    Attributes:
        count: how many work at a time.
        room: bytes of rows that each may hold.
    """

    count: int
    room: float

    def run(self, tasks: Sequence[workers.Task]) -> Iterator[int]:
        """Do tasks, each at least once, and give the rows of each as they are done, in any order."""
        ...


class Processes:
    """Processes of this machine.

    Args:
        count: how many work at a time; as many as there are cores if None.
        memory: bytes that all together may take; half of the machine's if None.
    """

    def __init__(self, count: int | None, memory: float | None) -> None:
        self.count = (os.cpu_count() or 1) if count is None else validation.count("workers", count)
        self.room = _room(memory, self.count)

    def run(self, tasks: Sequence[workers.Task]) -> Iterator[int]:
        """Do tasks."""
        return workers.run(tasks, self.count)


def _room(memory: float | None, processes: int) -> float:
    """Say how many bytes of rows a process of this machine may hold."""
    whole = SHARE * machine_memory() if memory is None else validation.positive_number("memory", memory)
    return room_of(whole, processes, processes + 1)  # the one that hands out the work takes memory too


def room_of(memory: float, workers: int, processes: int | None = None) -> float:
    """Say how many bytes of rows each may hold of those that share so much memory.

    Args:
        memory: bytes of all.
        workers: that hold rows.
        processes: that take memory; as many if None.
    """
    processes = workers if processes is None else processes
    room = (memory - BASE * processes) / workers
    if room < LEAST:
        needed = (BASE * processes + LEAST * workers) / 2**30
        raise ValueError(
            f"memory must be at least {needed:.1f} GB for {count(workers, 'process')}; got {memory / 2**30:.1f} GB. "
            "Give more, or fewer workers"
        )
    return room


def machine_memory() -> float:
    """Give the memory of this machine, or of the container that this is, in bytes."""
    limits = [8 * 2**30]  # where nobody tells
    if hasattr(os, "sysconf"):
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.exists() and (text := group.read_text().strip()).isdigit():
        limits.append(int(text))
    return float(min(limits))
