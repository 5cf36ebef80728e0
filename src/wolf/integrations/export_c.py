"""Export of a filter as C, one file and its header, for devices without Python."""

import dataclasses
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from wolf import validation
from wolf.execution import validate
from wolf.integrations.exported_step import ExportSettings, check_shared_state, exported_step, sensor_models
from wolf.interfaces import Dtype, Filter
from wolf.native.codegen.c_source import CSource
from wolf.online import Sensor
from wolf.runtime import checkpoints
from wolf.statespace import Model

REPORT_FIELDS = ("weight", "outlier", "residual", "nis", "log_likelihood", "outlier_probability", "inflation")


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
    arguments: tuple[str, ...] = (),
    sensors: Mapping[str, Sensor] | None = None,
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
        arguments: what a step takes instead of the model's own, of R, H, F, Q and dt, the time since the previous step;
            of a model of functions, R and Q. The C code does not check that R and Q are covariances.
        sensors: sensors by name, each with its own step, `NAME_step_SENSOR`; they replace the observation of the
            model. With dt = 0 a second sensor measures at the same time.

    Returns:
        Paths of the files, and the sizes of code, stack and state.

    Example:
        >>> import tempfile, wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.export_c(model, "WoLF", tempfile.mkdtemp() + "/level.c").state_bytes
        8
        >>> exported = wolf.export_c(model, "WoLF", tempfile.mkdtemp() + "/level.c", arguments=("R", "dt"))
        >>> lines = exported.header.read_text(encoding="utf-8").splitlines()
        >>> [line for line in lines if "step(" in line]  # doctest: +ELLIPSIS
        ['void level_step(level_state *state, const float y[1], const float R[1], const float dt, ...
    """
    validation.path("path", path)
    target = Path(path)
    name = _identifier(target)
    validate.check_options(dtype, "all", update_first)
    for field in report:
        validation.choice("report", field, REPORT_FIELDS)
    settings = ExportSettings(dtype, tuple(report), update_first)
    models = {"": model} if sensors is None else sensor_models(model, sensors)
    steps = [
        exported_step(each, method, f"{name}_step", arguments, settings, sensor) for sensor, each in models.items()
    ]
    check_shared_state(steps)
    source = CSource(steps, name, dtype, validate.package_version())
    for file, text in ((target, source.code()), (target.with_suffix(".h"), source.header())):
        with checkpoints.atomic(file) as out:
            out.write(text.encode())
    code, stack = _measure_sizes(target)
    operations = max(each.step.operations for each in steps)
    return ExportedC(target, target.with_suffix(".h"), operations, source.state_bytes, source.library(), code, stack)


def _identifier(path: Path) -> str:
    if path.suffix != ".c":
        raise ValueError(f"path must end in .c; got {path.name}")
    if not re.fullmatch(r"[A-Za-z_]\w*", path.stem):
        raise ValueError(
            f"the stem of path is the prefix of all names in C, so it must be letters and digits; got {path.stem}"
        )
    return path.stem


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
    return int(text.splitlines()[1].split()[0]), max(stack, default=None)
