"""Worker processes: one task at a time each; they end when the process that started them ends.

Workers are started as new interpreters, not forked: a fork of a process that has used JAX deadlocks. They import the
modules that a task names and not the main program, so a script needs no `if __name__ == "__main__"`.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

START = "import sys; sys.path[:] = {path!r}; from wolf_fleet.datasets.worker_process import serve; serve()"
Task = tuple[Callable[..., Any], tuple[object, ...]]


def run(tasks: Sequence[Task], workers: int) -> Iterator[Any]:
    """Run tasks in parallel and yield their results as they complete, in any order.

    Args:
        tasks: functions of modules, with their arguments.
        workers: number of processes; with one, tasks run in this process.
    """
    if workers <= 1 or len(tasks) <= 1:
        for function, arguments in tasks:
            yield function(*arguments)
        return
    packed = [_pack(task) for task in tasks]
    pending: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for each in packed:
        pending.put(each)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    started = [_start() for _ in range(min(workers, len(tasks)))]
    for process in started:
        threading.Thread(target=_feed, args=(process, pending, results), daemon=True).start()
    try:
        for _ in tasks:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        for process in started:
            process.kill()
            process.wait()


def _pack(task: Task) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:
        words = "cannot be sent to another process: define its functions in a module, or use workers=1"
        raise ValueError(f"the model or the method {words} ({error})") from error


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", START.format(path=sys.path)]
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"} | os.environ  # the other pools do not return memory
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _feed(process: subprocess.Popen[bytes], pending: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
    """Send tasks to one process until none are left."""
    assert process.stdin is not None  # a pipe, as stdout
    assert process.stdout is not None
    while True:
        try:
            task = pending.get_nowait()
        except queue.Empty:
            return
        try:
            process.stdin.write(task)
            process.stdin.flush()
            results.put(pickle.load(process.stdout))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = process.wait()
            why = f"signal {-code}, possibly out of memory: reduce memory=" if code < 0 else f"exit code {code}"
            results.put(RuntimeError(f"a worker process ended unexpectedly ({why}); run the same call again to resume"))
            return


def serve() -> None:
    """Run tasks from standard input; end the process when standard input is closed, also in the middle of a task."""
    from wolf.runtime import malloc_trim

    malloc_trim.share_arena()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep what a task prints apart from its results
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                tasks.put(pickle.load(sys.stdin.buffer))
            except EOFError:
                os._exit(0)
            except Exception as error:  # such as a module that cannot be imported
                tasks.put(ValueError(f"a task cannot be loaded in another process: {error}; use workers=1"))

    threading.Thread(target=listen, daemon=True).start()
    while True:
        task = tasks.get()
        try:
            if isinstance(task, Exception):
                raise task
            function, arguments = task
            result = function(*arguments)
        except Exception as error:
            result = error
        try:
            packed = pickle.dumps(result)
        except Exception:
            packed = pickle.dumps(RuntimeError(str(result)))
        out.write(packed)
        out.flush()
