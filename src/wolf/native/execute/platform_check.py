"""Whether machine code works on this platform; where that is not known, a process of its own tries it.

LLVM ends the process where it meets an object format or a symbol that it cannot handle, and wrong machine code may do
anything. On platforms where the tests of wolf have not run, the first use therefore starts another Python, which runs
a few filters by native code and compares them with results computed in NumPy. If it ends in any other way than with the
expected line, this process uses XLA. The result is stored in the cache folder.
"""

import ctypes
import hashlib
import json
import os
import platform
import struct
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from wolf.runtime import cache_folder, processors

# Where the tests ran: x86-64 on a machine, 64-bit ARM in an emulator.
TESTED_PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"))
CHECK = "import sys; sys.path[:] = {path!r}; from wolf.api.native_check import main; main()"
PASSED = "native code passed all checks"  # the line that the process prints
SECONDS = 300.0  # for the process, on a slow machine

_is_checking = False  # whether this process is the one that tries native code


def assume_works() -> None:
    """Use native code in this process without trying it elsewhere first."""
    global _is_checking
    _is_checking = True
    failure.cache_clear()


@cache
def failure() -> str | None:
    """Return why native code cannot be used on this platform; None if it can."""
    here = f"{platform.system()} {platform.machine()}"
    if struct.calcsize("P") != ctypes.sizeof(ctypes.c_int64):
        return "native code needs a 64-bit Python"
    if _is_checking or ((sys.platform, platform.machine()) in TESTED_PLATFORMS and not _is_free_threaded()):
        return None
    stored = _stored_result()
    if stored is not None:
        result = cache_folder.read_checked(stored)
        if result is not None:
            return json.loads(result)["failure"]  # type: ignore[no-any-return]
    if not Path(sys.executable or "").stem.lower().startswith("python"):
        return f"native code was not tried on {here}: this process is not started by a Python that could try it"
    try:
        reason = _try()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"native code could not be tried on {here}: {error}"
    reason = None if reason is None else f"native code does not work on {here}: {reason}"
    if stored is not None:
        cache_folder.write_checked(stored, json.dumps({"failure": reason}).encode())
    return reason


def _is_free_threaded() -> bool:
    """Return whether this Python was built to run without its global lock, on which the tests have not run."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _try() -> str | None:
    """Run the checks in a process of its own, and return what was wrong."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(path=sys.path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | {cache_folder.ENV_VARIABLE: "off"},  # code of a failed attempt is not stored
        timeout=SECONDS,
        check=False,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # on Windows: no console window
    )
    if done.returncode == 0 and PASSED.encode() in done.stdout:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"its checks ended with exit code {done.returncode}" + (f" ({said[-1][:200]})" if said else "")


def _stored_result() -> Path | None:
    """Return the file of the result for these versions; None if nothing is cached on disk."""
    folder = cache_folder.folder()
    if folder is None:
        return None
    import llvmlite

    import wolf

    parts = (wolf.__version__, llvmlite.__version__, sys.version, processors.model_description())
    return Path(folder) / f"native-check-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.json"
