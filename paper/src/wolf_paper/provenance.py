"""On what a run was made: versions and machine, for its manifest."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from wolf.execution.validate import package_version

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "matplotlib", "bayesian-optimization", "optax")


def versions() -> dict[str, str]:
    """Read the versions of what the numbers depend on."""
    found = {"wolf": package_version(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Describe the machine, without a name that would tell whose it is."""
    import jax

    device = jax.devices()[0]
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": getattr(device, "device_kind", device.platform),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
