"""Export of a filter as C, one file and its header, for devices without Python."""

import dataclasses
import re
import shutil
import subprocess
import tempfile
from os import PathLike
from pathlib import Path

import numpy as np
from jax import Array

from wolf import native, validation
from wolf.api import filter
from wolf.execution import backend_selection, function_checks, prepared, validate
from wolf.interfaces import Dtype, Filter, State, StepInfo
from wolf.native.codegen.c_source import CSource
from wolf.native.frontend.signature import flatten_model
from wolf.native.frontend.trace import trace
from wolf.runtime import checkpoints
from wolf.statespace import Model, time_axes

REPORT_FIELDS = ("weight", "outlier", "residual", "nis", "log_likelihood", "outlier_probability", "inflation")
SELF_TEST_STEPS = 64


@dataclasses.dataclass(frozen=True)
class FieldRecorder:
    """Recorder of some fields of a step's report.

    Args:
        fields: their names.
    """

    fields: tuple[str, ...]

    def __call__(self, state: State, info: StepInfo) -> dict[str, Array]:
        """Select the fields; those that the method does not report are left out."""
        values = {name: info._asdict()[name] for name in self.fields}
        return {name: value for name, value in values.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class ExportedC:
    """Files and sizes of an exported filter.

    Attributes:
        path: of the C file.
        header: path of its header.
        operations: number of arithmetic operations of one step.
        state_bytes: size of the struct that holds the state.
        library: functions of math.h that are called.
        code_bytes: size of init and step, compiled on this machine for size; None without a compiler.
        stack_bytes: that a step needs; None without a compiler.
    """

    path: Path
    header: Path
    operations: int
    state_bytes: int
    library: tuple[str, ...]
    code_bytes: int | None
    stack_bytes: int | None

    def __repr__(self) -> str:
        """Summarise the sizes."""
        calls = ", ".join(self.library) or "nothing"
        sizes = f"{self.operations} operations a step, {self.state_bytes} bytes of state, calls of math.h: {calls}"
        if self.code_bytes is None:
            return f"{self.path}: {sizes}; no C compiler was found to measure code and stack"
        return f"{self.path}: {sizes}; {self.code_bytes} bytes of code, {self.stack_bytes} of stack (here, cc -Os)"


def export_c(
    model: Model,
    method: str | Filter | None = None,
    path: str | PathLike[str] = "filter.c",
    *,
    dtype: Dtype = "float32",
    report: tuple[str, ...] = ("weight", "outlier"),
    update_first: bool = False,
) -> ExportedC:
    """Write a filter as C99, a file and its header, with the model's numbers as constants.

    The file has `init`, `step` and a struct for the state, without allocation or loops, so its run time is bounded.
    Compiled with `-DNAME_SELF_TEST` it is a program that filters recorded measurements and compares the results with
    those of Python.

    Args:
        model: fixed in time.
        method: as in `wolf.filter`; one that native code supports.
        path: of the C file; the header is written beside it, and its stem is the prefix of all names.
        dtype: precision on the device.
        report: fields that a step reports, of weight, outlier, residual, nis, log_likelihood, outlier_probability and
            inflation.
        update_first: as in `wolf.filter`.

    Returns:
        Paths of the files, and the sizes of code, stack and state.

    Example:
        >>> import tempfile, wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.export_c(model, "WoLF", tempfile.mkdtemp() + "/level.c").state_bytes
        8
    """
    validation.path("path", path)
    target = Path(path)
    name = _identifier(target)
    pair = prepared.resolve(model, method, 0)
    chosen, adapted = pair.method, pair.adapted[0]
    validate.check_options(dtype, "all", update_first)
    for field in report:
        validation.choice("report", field, REPORT_FIELDS)
    if time_axes(model):
        raise ValueError(f"export_c takes models that are fixed in time; {', '.join(time_axes(model))} vary")
    reason = backend_selection.unsupported_reason("native", model, chosen, None)
    if reason is not None:
        raise ValueError(f"this filter cannot be written as C: {reason.detail}")
    inputs = model.input_dim
    if model.takes_inputs and inputs is None:
        raise ValueError(
            "export_c needs the number of inputs of f(x, u): state it in the model, as StateSpaceModel(..., inputs=2)"
        )
    validate.check_functions(model, None if inputs is None else np.zeros((1, inputs)), dtype)
    try:
        given = flatten_model([adapted], chosen, dtype, update_first, inputs, FieldRecorder(tuple(report)))
        with function_checks.explained():
            step = trace(given.signature, given.parameters()[0])
    except native.UNSUPPORTED as error:
        raise ValueError(f"this filter cannot be written as C: {error}") from error
    source = CSource(step, name, dtype, inputs, validate.package_version())
    data = _self_test_data(model, chosen, dtype, update_first, inputs)
    for file, text in ((target, source.code(data)), (target.with_suffix(".h"), source.header())):
        with checkpoints.atomic(file) as out:
            out.write(text.encode())
    code, stack = _measure_sizes(target)
    return ExportedC(
        target, target.with_suffix(".h"), step.operations, source.state_bytes, source.library(), code, stack
    )


def _identifier(path: Path) -> str:
    if path.suffix != ".c":
        raise ValueError(f"path must end in .c; got {path.name}")
    if not re.fullmatch(r"[A-Za-z_]\w*", path.stem):
        raise ValueError(
            f"the stem of path is the prefix of all names in C, so it must be letters and digits; got {path.stem}"
        )
    return path.stem


def _self_test_data(
    model: Model, method: Filter, dtype: Dtype, update_first: bool, inputs: int | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Simulate measurements with missing, extreme and infinite values, and filter them.

    Returns:
        Measurements, inputs or None, and filtered means.
    """
    rng = np.random.default_rng(0)
    scale = np.sqrt(np.diag(model.obs_cov) if model.obs_cov.ndim == 2 else model.obs_cov)
    ys = scale * rng.normal(size=(SELF_TEST_STEPS, model.obs_dim))
    ys[rng.random(ys.shape) < 0.1] *= 20.0
    ys[rng.random(ys.shape) < 0.05] = np.nan
    ys[7], ys[11, 0] = np.inf, -1e30
    us = None if inputs is None else rng.normal(size=(SELF_TEST_STEPS, inputs))
    out = filter(
        model, ys.astype(dtype), method=method, inputs=us, update_first=update_first, dtype=dtype, save="means"
    )
    return ys.astype(dtype), None if us is None else us.astype(dtype), out.means


def _measure_sizes(path: Path) -> tuple[int | None, int | None]:
    """Compile for size, and return the sizes of code and stack; None without a compiler."""
    compiler, size = shutil.which("cc"), shutil.which("size")
    if compiler is None or size is None:
        return None, None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "step.o"
        command = [compiler, "-std=c99", "-Os", "-ffp-contract=off", "-fstack-usage", "-c", str(path), "-o", str(made)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None, None
        text = subprocess.run([size, str(made)], capture_output=True, text=True, check=False).stdout
        usage = made.with_suffix(".su").read_text(encoding="utf-8") if made.with_suffix(".su").exists() else ""
    stack = [int(line.split()[-2]) for line in usage.splitlines() if "_step" in line]
    return int(text.splitlines()[1].split()[0]), stack[0] if stack else None
