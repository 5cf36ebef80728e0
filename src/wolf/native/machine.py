"""LLVM inside this process: text in, functions out. What was loaded is never freed."""

import ctypes
import threading
from typing import Any

SPEED = 2  # level of optimisation; 3 takes longer and brings nothing for straight-line code

_lock = threading.Lock()
_engine: Any = None
_target: Any = None


def compile(text: str) -> bytes:
    """Compile a module into an object file.

    Args:
        text: in LLVM's language.
    """
    import llvmlite.binding as llvm

    with _lock:
        _, target = _start()
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = llvm.get_process_triple(), str(target.target_data)
        module.verify()
        builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=SPEED))
        builder.getModulePassManager().run(module, builder)
        return target.emit_object(module)


def load(code: bytes, name: str) -> int:
    """Load an object file, and give the address of a function in it.

    Args:
        code: from `compile`, here or on a machine with the same processor.
        name: of the function; no other one in this process has it.
    """
    import llvmlite.binding as llvm

    with _lock:
        engine, _ = _start()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine.get_function_address(name)


def processor() -> str:
    """Name the processor that code is made for."""
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {SPEED}"


def available() -> str | None:
    """Say why there is no compiler, or None if there is one."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return "llvmlite is not installed: pip install llvmlite"
    except OSError as error:
        return f"llvmlite cannot be loaded: {error}"
    return None


def function(address: int, *kinds: Any) -> Any:
    """Make a function without a result callable; other threads go on while it runs."""
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def _start() -> tuple[Any, Any]:
    global _engine, _target
    if _engine is None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        _target = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=SPEED)
        _engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target)
    return _engine, _target
