"""LLVM inside this process: text in, functions out."""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

from wolf.runtime.gc_pause import gc_paused

OPTIMIZATION_LEVEL = 2  # level of optimisation; 3 takes longer and brings nothing for straight-line code
QUICK = 1  # of large modules: the same code in three quarters of the time
# Lines up to which a module is optimised before it becomes machine code, for a tenth of a millisecond each or two. What
# is translated has no double or dead parts; the gain is a third of the time where one series has many alike numbers, as
# sizes of the noise, and little for products of matrices.
FEW_LINES, FEW_WITH_SIZES = 4_500, 10_000
MANY_SIZES = "@shifted_"  # a function that such a module calls
FIRST = 1  # level of that optimisation; 2 takes a third longer and finds no more
# Lines from which instructions are left in their order: putting them in a better one takes half of all the time to
# compile, and what goes through memory in any case gains nothing. From 10,000 to 25,000 lines it gains a tenth.
MANY_LINES = 30_000
NEWEST_TRIED = 22  # LLVM ends the process where it does not know an option
OLDEST = (17, 0, 0)  # the first LLVM without pointers to types; llvmlite 0.45 has a newer one

_lock = threading.Lock()


def compile(text: str) -> bytes:
    """Compile a module into an object file.

    Args:
        text: in LLVM's language.
    """
    import llvmlite.binding as llvm

    with _lock:
        small = is_small(text)
        target = _target(OPTIMIZATION_LEVEL if small else QUICK)
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = llvm.get_process_triple(), str(target.target_data)
        module.verify()
        if small:
            tuning = llvm.create_pipeline_tuning_options(speed_level=min(FIRST, OPTIMIZATION_LEVEL))
            tuning.slp_vectorization = True  # alike and independent: four in a register, each with the bits it had
            builder = llvm.create_pass_builder(target, tuning)
            builder.getModulePassManager().run(module, builder)
        with _in_order() if text.count("\n") >= MANY_LINES else nullcontext():
            return target.emit_object(module)


@contextmanager
def _in_order() -> Iterator[None]:
    """Leave instructions in their order for a while; the option is one of the whole process."""
    import llvmlite.binding as llvm

    known = llvm.llvm_version_info[0] <= NEWEST_TRIED
    try:
        if known:
            llvm.set_option("wolf", "-enable-misched=false")
        yield
    finally:
        if known:
            llvm.set_option("wolf", "-enable-misched=true")


def is_small(text: str) -> bool:
    """Say whether optimising is worth its time."""
    return text.count("\n") <= (FEW_WITH_SIZES if MANY_SIZES in text else FEW_LINES)


class JitModule(NamedTuple):
    """A function in memory: where it is, and what holds it there; it goes when nobody keeps this any more."""

    address: int
    backend: Any
    name: str

    def beside(self, suffix: str) -> int:
        """Give the address of another function of the same module, whose name goes on like this."""
        return int(self.backend.get_function_address(self.name + suffix))


def load(code: bytes, name: str) -> JitModule:
    """Load an object file, and find a function in it.

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
    """Name the processor that code is made for."""
    _, name, features = _host()
    return f"{name} {features} {OPTIMIZATION_LEVEL}"


def available() -> str | None:
    """Say why there is no compiler, or None if there is one."""
    try:
        with nullcontext() if "llvmlite.binding" in sys.modules else gc_paused():
            import llvmlite.binding as llvm
    except ImportError:
        return "llvmlite is not installed: pip install llvmlite"
    except OSError as error:
        return f"llvmlite cannot be loaded: {error}"
    if llvm.llvm_version_info < OLDEST:
        return "llvmlite is too old: pip install 'llvmlite>=0.45'"
    return None


def function(address: int, *kinds: Any) -> Any:
    """Make a function without a result callable; other threads go on while it runs."""
    return ctypes.CFUNCTYPE(None, *kinds)(address)


@cache
def _host() -> tuple[Any, str, str]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _target(speed: int = OPTIMIZATION_LEVEL) -> Any:
    """Describe this machine to the compiler."""
    target, name, features = _host()
    return target.create_target_machine(cpu=name, features=features, opt=speed)
