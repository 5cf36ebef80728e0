"""Run the checks of native code as Windows would: ELF objects of the Windows target, and its calling convention.

Linux loads and runs them, since the object format is ELF. Where they meet the code of this process, which uses the
convention of Linux, small functions convert: calls of compiled code from Python, and calls of Python and the C library
from compiled code.
"""

import ctypes
import itertools

import llvmlite.binding as llvm

from wolf.api import native_check
from wolf.native.codegen.llvm_instructions import C_LIBRARY
from wolf.native.execute import fastcall, llvm_jit

TRIPLE = "x86_64-pc-windows-msvc-elf"
PYTHON = {  # functions of Python that compiled code calls: result and arguments
    "PyObject_GetBuffer": ("i32", ["ptr", "ptr", "i32"]),
    "PyBuffer_Release": ("void", ["ptr"]),
    "PyLong_AsVoidPtr": ("ptr", ["ptr"]),
    "PyBool_FromLong": ("ptr", ["i64"]),
}
TYPES = {ctypes.c_void_p: "ptr", ctypes.c_int64: "i64"}
STACK_PROBE = """
define void @__chkstk() naked {
  call void asm sideeffect "ret", ""()
  unreachable
}
"""

_numbers = itertools.count()
_loaded = []  # engines, which own the code


def load_here(text):
    """Compile LLVM text for this process, and return its engine."""
    target = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    _loaded.append(engine)
    return engine


def converter(name, outer, inner, result, kinds, address):
    """Write a function of one calling convention that calls an address by another one."""
    names = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    call = f"call {inner} {result} inttoptr (i64 {address} to ptr)({names})"
    body = f"{call}\n  ret void" if result == "void" else f"%r = {call}\n  ret {result} %r"
    return f"define {outer} {result} @{name}({names}) {{\n  {body}\n}}\n"


def from_here(address, result, kinds):
    """Return the address of a function that is called as usual and calls compiled code as on Windows."""
    name = f"enter_{next(_numbers)}"
    return load_here(converter(name, "", "win64cc", result, kinds, address)).get_function_address(name)


def external_functions():
    """Return functions that compiled code calls as on Windows."""
    python = {name: (*how, llvm_jit._address(ctypes.pythonapi[name])) for name, how in PYTHON.items()}
    library, math = ctypes.CDLL("libm.so.6"), {}
    for op in C_LIBRARY:
        count = 2 if op in ("atan2", "fmod", "pow") else 1
        for name, kind in ((op, "double"), (op + "f", "float")):
            math[name] = (kind, [kind] * count, llvm_jit._address(library[name]))
    for name in ("memcpy", "memset"):
        kinds = ["ptr", "ptr" if name == "memcpy" else "i32", "i64"]
        math[name] = ("ptr", kinds, llvm_jit._address(ctypes.CDLL(None)[name]))
    every = python | math
    text = "".join(converter(f"leave_{name}", "win64cc", "", *how) for name, how in every.items())
    engine = load_here(text + STACK_PROBE)
    found = {name: engine.get_function_address(f"leave_{name}") for name in every}
    return found | {"__chkstk": engine.get_function_address("__chkstk")}


def main():
    """Patch the compiler and run the checks."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    for name, address in external_functions().items():
        llvm.add_symbol(name, address)
    host = (llvm.Target.from_triple(TRIPLE), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    llvm_jit._host = lambda: host
    load, call = llvm_jit.load, llvm_jit.function
    llvm_jit.function = lambda address, *kinds: call(from_here(address, "void", [TYPES[k] for k in kinds]), *kinds)

    def load_wrapper(code, name):
        """Load the function that Python calls."""
        loaded = load(code, name)
        return loaded._replace(address=from_here(loaded.address, "ptr", ["ptr", "ptr", "i64"]))

    fastcall.llvm_jit = type("Wrapped", (), {"compile": llvm_jit.compile, "load": staticmethod(load_wrapper)})
    fastcall.llvm_jit.compile = staticmethod(llvm_jit.compile)
    compiled = []
    compile_text = llvm_jit.compile
    llvm_jit.compile = lambda text: compiled.append(compile_text(text)) or compiled[-1]
    native_check.main()
    assert compiled
    for code in compiled:
        assert code[:4] == b"\x7fELF"
    print(f"{len(compiled)} objects, {sum(b'__chkstk' in code for code in compiled)} with stack probes")


if __name__ == "__main__":
    main()
