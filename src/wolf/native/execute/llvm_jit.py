"""LLVM in this process: LLVM text in, functions out."""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from wolf.native.codegen.llvm_instructions import C_LIBRARY
from wolf.native.execute import platform_check
from wolf.runtime.gc_pause import gc_paused

if TYPE_CHECKING:
    import llvmlite.binding as llvm

OPTIMIZATION_LEVEL = 2  # optimisation level; 3 takes longer and gains nothing for straight-line code
LARGE_MODULE_LEVEL = 1  # level for large modules: the same code in three quarters of the time
# Lines up to which a module is optimised before code generation, for 0.1 ms per line or two. Translated code has no
# duplicate or dead parts; the gain is a third of the run time where one series has many similar numbers, such as
# scale-mixture components, and little for matrix products.
MAX_OPTIMIZED_LINES, MAX_OPTIMIZED_LINES_OF_MIXTURES = 4_500, 10_000
MIXTURE_MARKER = "@shifted_"  # called by modules with scale-mixture components
PASS_LEVEL = 1  # level of that optimisation; 2 takes a third longer and finds no more
# Lines from which instructions are not rescheduled: scheduling takes half of the compilation time, and code that mostly
# accesses memory gains nothing. From 10,000 to 25,000 lines it gains a tenth.
MIN_UNSCHEDULED_LINES = 30_000
NEWEST_TESTED_LLVM = 22  # LLVM exits the process on unknown options, so newer versions do without
OLDEST_LLVM = (17, 0, 0)  # the first LLVM with opaque pointers; llvmlite 0.45 has a newer one

_lock = threading.Lock()


def compile(text: str) -> bytes:
    """Compile a module to an object file.

    Args:
        text: LLVM assembly.
    """
    import llvmlite.binding as llvm

    with _lock:
        small = is_small(text)
        target = _target(OPTIMIZATION_LEVEL if small else LARGE_MODULE_LEVEL)
        module = llvm.parse_assembly(text)
        # On Windows llvmlite appends "-elf" to the triple of the target: LLVM loads no objects of the system's format.
        module.triple, module.data_layout = target.triple, str(target.target_data)
        module.verify()
        if small:
            tuning = llvm.create_pipeline_tuning_options(speed_level=min(PASS_LEVEL, OPTIMIZATION_LEVEL))
            tuning.slp_vectorization = True  # packs independent equal operations into registers, with unchanged bits
            builder = llvm.create_pass_builder(target, tuning)
            builder.getModulePassManager().run(module, builder)
        with _without_scheduling() if text.count("\n") >= MIN_UNSCHEDULED_LINES else nullcontext():
            return target.emit_object(module)


@contextmanager
def _without_scheduling() -> Iterator[None]:
    """Disable instruction scheduling temporarily; the option is process-wide."""
    import llvmlite.binding as llvm

    known = llvm.llvm_version_info[0] <= NEWEST_TESTED_LLVM
    try:
        if known:
            llvm.set_option("wolf", "-enable-misched=false")
        yield
    finally:
        if known:
            llvm.set_option("wolf", "-enable-misched=true")


def is_small(text: str) -> bool:
    """Return whether optimising a module is worth its time."""
    return text.count("\n") <= (MAX_OPTIMIZED_LINES_OF_MIXTURES if MIXTURE_MARKER in text else MAX_OPTIMIZED_LINES)


class JitModule(NamedTuple):
    """A function in memory: its address, and the engine that owns it; it is freed with the last reference."""

    address: int
    backend: "llvm.ExecutionEngine"
    name: str

    def address_with_suffix(self, suffix: str) -> int:
        """Return the address of another function of the module, whose name has this suffix."""
        return int(self.backend.get_function_address(self.name + suffix))


def load(code: bytes, name: str) -> JitModule:
    """Load an object file, and look a function up in it.

    Args:
        code: from `compile`, here or on a machine with the same processor.
        name: of the function.
    """
    import llvmlite.binding as llvm

    with _lock:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())  # takes the target over
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return JitModule(engine.get_function_address(name), engine, name)


def processor() -> str:
    """Return the name of the processor that code is compiled for."""
    _, name, features = _host()
    return f"{name} {features} {OPTIMIZATION_LEVEL}"


def available() -> str | None:
    """Return why there is no compiler, or None if there is one."""
    try:
        with nullcontext() if "llvmlite.binding" in sys.modules else gc_paused():
            import llvmlite.binding as llvm
    except ImportError:
        return "llvmlite is not installed: pip install llvmlite"
    except OSError as error:
        return f"llvmlite cannot be loaded: {error}"
    if llvm.llvm_version_info < OLDEST_LLVM:
        return "llvmlite is too old: pip install 'llvmlite>=0.45'"
    return platform_check.failure()


def function(address: int, *kinds: type) -> Callable[..., None]:
    """Wrap the address of a function without a result; it runs without Python's global lock."""
    return ctypes.CFUNCTYPE(None, *kinds)(address)


@cache
def _host() -> tuple["llvm.Target", str, str]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in external_functions().items():
        llvm.add_symbol(name, address)
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def external_functions() -> dict[str, int]:
    """Return the functions that compiled code may call and that LLVM would not find by itself, with their addresses.

    LLVM ends the process if it cannot find one. On Linux and macOS it finds all in the process. On Windows it would
    depend on which libraries are loaded.
    """
    names = ("PyObject_GetBuffer", "PyBuffer_Release", "PyLong_AsVoidPtr", "PyBool_FromLong")
    found = {name: _address(ctypes.pythonapi[name]) for name in names}
    if sys.platform == "win32":
        library = ctypes.CDLL("ucrtbase")  # the C library
        for name in (op + kind for op in C_LIBRARY for kind in ("", "f")):
            found[name] = _address(library[name])
        found["__chkstk"] = _address(ctypes.CDLL("ntdll")["__chkstk"])  # grows the stack for large frames
    return found


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _target(speed: int = OPTIMIZATION_LEVEL) -> "llvm.TargetMachine":
    """Create a description of this machine for the compiler."""
    target, name, features = _host()
    return target.create_target_machine(cpu=name, features=features, opt=speed)
