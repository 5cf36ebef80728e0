"""Executors: processes of this machine or of a cluster, and the rows that each may hold in memory."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from wolf import validation
from wolf.results import count
from wolf.runtime import processors
from wolf_fleet.datasets import worker_process

PROCESS_BYTES = 250 * 2**20  # of a process without rows: Python, JAX, pyarrow
MIN_ROW_BYTES = 16 * 2**20  # that a process must be able to hold
DEFAULT_MEMORY_SHARE = 0.5  # of the machine's memory
FALLBACK_MEMORY_BYTES = 8 * 2**30  # where the operating system does not report its memory


class Executor(Protocol):
    """Runs tasks in parallel.

    Attributes:
        count: number of tasks that run at the same time.
        row_memory: bytes of rows that each may hold.
    """

    count: int
    row_memory: float

    def run(self, tasks: Sequence[worker_process.Task]) -> Iterator[int]:
        """Run tasks, each at least once, and yield the number of rows of each as it completes, in any order."""
        ...


class ProcessExecutor:
    """Executor on processes of this machine.

    Args:
        count: number of processes; one per core if None.
        memory: bytes that all together may use; half of the machine's memory if None.
    """

    def __init__(self, count: int | None, memory: float | None) -> None:
        self.count = processors.usable_count() if count is None else validation.count("workers", count)
        total = DEFAULT_MEMORY_SHARE * machine_memory() if memory is None else memory
        # The process that distributes the tasks needs memory too.
        self.row_memory = row_memory(validation.positive_number("memory", total), self.count, self.count + 1)

    def run(self, tasks: Sequence[worker_process.Task]) -> Iterator[int]:
        """Run tasks and yield the number of rows of each."""
        return worker_process.run(tasks, self.count)


def row_memory(memory: float, workers: int, processes: int | None = None) -> float:
    """Compute the bytes of rows that each worker may hold.

    Args:
        memory: bytes of all processes together.
        workers: number of processes that hold rows.
        processes: number of all processes; the number of workers if None.
    """
    processes = workers if processes is None else processes
    per_worker = (memory - PROCESS_BYTES * processes) / workers
    if per_worker < MIN_ROW_BYTES:
        needed = (PROCESS_BYTES * processes + MIN_ROW_BYTES * workers) / 2**30
        raise ValueError(
            f"memory must be at least {needed:.1f} GB for {count(workers, 'process')}; got {memory / 2**30:.1f} GB. "
            "Increase it, or use fewer workers"
        )
    return per_worker


def machine_memory() -> float:
    """Return the memory of this machine, or the limit of the container, in bytes."""
    limits = [FALLBACK_MEMORY_BYTES]
    if sys.platform != "win32":
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.exists() and (text := group.read_text(encoding="utf-8").strip()).isdigit():
        limits.append(int(text))
    return float(min(limits))
