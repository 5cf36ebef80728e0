"""Processes that work beside this one: a task each at a time, and none outlives the one that started them.

They are started anew, not forked (a fork of a process that has used JAX stands still), and import what a task names,
not the program that called: a script needs no `if __name__ == "__main__"`.
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
Task = tuple[Callable[..., Any], tuple[Any, ...]]


def run(tasks: Sequence[Task], workers: int) -> Iterator[Any]:
    """Run tasks, several at a time, and give their results as they come, in any order.

    Args:
        tasks: functions of modules, with their arguments.
        workers: number of processes; one is this process itself.
    """
    if workers <= 1 or len(tasks) <= 1:
        for function, arguments in tasks:
            yield function(*arguments)
        return
    packed = [_pack(task) for task in tasks]
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for each in packed:
        waiting.put(each)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    started = [_start() for _ in range(min(workers, len(tasks)))]
    for process in started:
        threading.Thread(target=_feed, args=(process, waiting, results), daemon=True).start()
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
        words = "cannot be sent to another process: use functions of a module, or workers=1"
        raise ValueError(f"the model or the method {words} ({error})") from error


def _start() -> Any:
    command = [sys.executable, "-c", START.format(path=sys.path)]
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"} | os.environ  # the other pools keep what they once had
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _feed(process: Any, waiting: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
    """Hand tasks to one process until there are no more."""
    while True:
        try:
            task = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            process.stdin.write(task)
            process.stdin.flush()
            results.put(pickle.load(process.stdout))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = process.wait()
            why = f"signal {-code}, as where memory ran out: give less with memory=" if code < 0 else f"code {code}"
            results.put(RuntimeError(f"a process that worked beside this one ended ({why}); start again to go on"))
            return


def serve() -> None:
    """Take tasks from standard input until it ends, and this process with it, in the middle of a task too."""
    from wolf.runtime import malloc_trim

    malloc_trim.share_arena()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started this
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints is no result
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                tasks.put(pickle.load(sys.stdin.buffer))
            except EOFError:
                os._exit(0)
            except Exception as error:  # of a module that is not there
                tasks.put(ValueError(f"a task cannot be read by another process: {error}; use workers=1"))

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
