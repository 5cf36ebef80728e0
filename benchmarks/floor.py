"""The floor: a Kalman filter written by hand in C++ (`floor.cpp`), compiled for the sizes that are measured."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import wolf


class Floor:
    """Compiled filters of some sizes.

    Args:
        sizes: pairs of states and measurements.

    Raises:
        RuntimeError: without a compiler, saying so.
    """

    def __init__(self, sizes: Iterable[tuple[int, int]]):
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            raise RuntimeError("no C++ compiler was found (c++, g++, clang++, or CXX=...), so there is no floor")
        lines = "\n".join(f"FOR_SIZE({states}, {measured})" for states, measured in sorted(set(sizes)))
        source = Path(__file__).with_name("floor.cpp").read_text().replace("// SIZES", lines)
        with tempfile.TemporaryDirectory() as folder:  # what is loaded stays, though its file goes
            library = str(Path(folder, "floor.so"))
            command = [compiler, "-std=c++17", "-O3", "-shared", "-fPIC", "-x", "c++", "-", "-o", library]
            subprocess.run(command, input=source, text=True, check=True)
            self._library = ctypes.CDLL(library)
        self.compiler = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()[0]

    def _call(self, verb: str, model: wolf.LinearModel, *arguments: np.ndarray | int) -> None:
        """Call a function of the library."""
        states, measured = model.state_dim, model.obs_dim
        given = [each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments]
        function = self._library[f"{verb}_{states}_{measured}"]
        function.argtypes, function.restype = [ctypes.c_int64] * len(given), None
        function(*given)

    def filter(self, model: wolf.LinearModel, ys: np.ndarray, smooth: bool = False) -> np.ndarray:
        """Filter a series, and smooth it; returns mean and covariance of each step, side by side."""
        given, out = pack(model), np.empty((len(ys), model.state_dim * (model.state_dim + 1)))
        self._call("filter", model, given, ys, len(ys), out)
        if smooth:
            self._call("smooth", model, given, len(ys), out)
        return out

    def step_keys(self, model: wolf.LinearModel, ys: np.ndarray, states: np.ndarray) -> None:
        """Take in one measurement for each of many states, in place."""
        self._call("keys", model, pack(model), ys, len(ys), states)


def pack(model: wolf.LinearModel) -> np.ndarray:
    """Put a model into one array, as `floor.cpp` reads it."""
    parts = (model.F, model.H, model.Q, model.R, model.mean, model.cov)
    return np.concatenate([np.asarray(part, float).ravel() for part in parts])
