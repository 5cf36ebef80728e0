"""A filter on a Cortex-M4: what it takes of flash, stack and instructions, and whether its self-test passes there.

    python benchmarks/cortex.py

Compiled by `arm-none-eabi-gcc` for a Cortex-M4 with its unit for float, run by `qemu-system-arm` as Arm's MPS2 board
(AN386). On Debian: `apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm`.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import wolf

HERE = Path(__file__).parent / "cortex"
TARGET = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
CAREFUL = ["-std=c99", "-Os", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
MACHINE = ["-machine", "mps2-an386", "-nographic", "-semihosting-config", "enable=on,target=native"]
SECONDS = 300  # that a run may take: a busy machine is slow


class Cost(NamedTuple):
    """What a filter takes.

    Attributes:
        flash: bytes of code and constants, without functions of math.h.
        stack: bytes of a step.
        state: bytes.
        instructions: of a step, on the average.
        self_test: what it printed.
    """

    flash: int
    stack: int
    state: int
    instructions: int
    self_test: str


def missing() -> str | None:
    """Say which tool is not there."""
    for tool in ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    libraries = subprocess.run(["arm-none-eabi-gcc", "-print-file-name=rdimon.specs"], capture_output=True, text=True)
    return None if Path(libraries.stdout.strip()).is_absolute() else "newlib for Arm is not installed"


def build(folder: Path, sources: list[Path], *defines: str) -> Path:
    """Compile and link a program."""
    program = folder / "program.elf"
    command = ["arm-none-eabi-gcc", *TARGET, *CAREFUL, *defines, f"-I{folder}", "--specs=rdimon.specs"]
    files = [str(each) for each in (*sources, HERE / "startup.c")]
    subprocess.run([*command, *files, "-T", str(HERE / "link.ld"), "-lm", "-o", str(program)], check=True)
    return program


def run(program: Path) -> str:
    """Run a program and give what it printed.

    Raises:
        subprocess.CalledProcessError: if it ended with another code than 0.
    """
    command = ["qemu-system-arm", *MACHINE, "-icount", "shift=0", "-kernel", str(program)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    ).stdout.strip()


def sizes(source: Path) -> tuple[int, int]:
    """Give the bytes of flash and of stack."""
    made = source.with_suffix(".o")
    subprocess.run(
        ["arm-none-eabi-gcc", *TARGET, *CAREFUL, "-fstack-usage", "-c", str(source), "-o", str(made)], check=True
    )
    report = subprocess.run(["arm-none-eabi-size", str(made)], capture_output=True, text=True, check=True).stdout
    usage = made.with_suffix(".su").read_text().splitlines()
    return int(report.splitlines()[1].split()[0]), next(int(line.split()[-2]) for line in usage if "_step" in line)


def cost(model: wolf.LinearModel, method: str | None) -> Cost:
    """Export a filter, run its self-test and count."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "tracker.c"
        exported = wolf.export_c(model, method, source)
        output = run(build(source.parent, [source], "-DTRACKER_SELF_TEST"))
        counted = int(run(build(source.parent, [source, HERE / "count.c"]))) if model.obs_dim == 2 else 0
        return Cost(*sizes(source), exported.state_bytes, counted, output)


def main() -> None:
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    for method in ("KF", "WoLF", "Learned", None):
        print(method or "default", cost(model, method), flush=True)


if __name__ == "__main__":
    main()
