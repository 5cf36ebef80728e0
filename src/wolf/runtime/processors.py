"""Processors of this machine: how many this process may use, and a description of their model."""

import ctypes
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux only
CPUINFO_FIELDS = ("flags", "Features", "model name", "CPU implementer", "CPU part")  # of x86 and ARM
MAX_NAME_BYTES = 256


def usable_count() -> int:
    """Return the number of processors that this process may use: fewer than there are if its affinity is limited."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    system: str = sys.platform  # a plain string: mypy would take the other systems for unreachable
    if system == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def model_description() -> str:
    """Describe the processor, so that code compiled for one model is not run on another.

    Where the system does not tell the model, the name of the machine stands for it.
    """
    return f"{platform.system()} {platform.machine()} {_model() or platform.node()}"


def _model() -> str:
    if sys.platform == "win32":
        return " ".join(os.environ.get(f"PROCESSOR_{name}", "") for name in ("IDENTIFIER", "REVISION")).strip()
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string")
    lines = []
    with suppress(OSError):
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(CPUINFO_FIELDS):
                lines.append(line)
            elif not line and lines:  # all processors are assumed alike
                break
    return "".join(lines)


def _sysctl(name: str) -> str:
    """Ask the kernel of macOS for a text; empty if it does not answer."""
    with suppress(OSError, AttributeError):
        text, size = ctypes.create_string_buffer(MAX_NAME_BYTES), ctypes.c_size_t(MAX_NAME_BYTES)
        if ctypes.CDLL(None).sysctlbyname(name.encode(), text, ctypes.byref(size), None, 0) == 0:
            return text.value.decode(errors="replace")
    return ""
