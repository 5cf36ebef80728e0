"""A compiled step as a Python function with a call overhead of a third of a microsecond.

A call through ctypes or cffi takes longer than a Kalman step. Therefore a small wrapper is compiled in the form that
the interpreter itself calls ("fastcall"): it reads the addresses of NumPy arrays through the buffer protocol.
Everything it uses is part of Python's stable interface since 3.11.
"""

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache

from wolf.native.codegen.step_loop import HEAD
from wolf.native.execute import disk_cache, llvm_jit

FASTCALL = 0x0080
READ, WRITE = 0, 1  # PyBUF_SIMPLE, PyBUF_WRITABLE

# Fields of a Py_buffer: address, owner, length in bytes, then seven that are not needed here.
WRAPPER = """
%buffer = type {{ ptr, ptr, i64, i64, i32, i32, ptr, ptr, ptr, ptr, ptr }}
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyBool_FromLong(i64)

define ptr @{name}(ptr %self, ptr %args, i64 %count) {{
entry:
  %y = alloca %buffer
  %report = alloca %buffer
  %a0 = load ptr, ptr %args
  %table = call ptr @PyLong_AsVoidPtr(ptr %a0)
  %p1 = getelementptr ptr, ptr %args, i64 1
  %a1 = load ptr, ptr %p1
  %got1 = call i32 @PyObject_GetBuffer(ptr %a1, ptr %y, i32 {read})
  %bad1 = icmp ne i32 %got1, 0
  br i1 %bad1, label %fail, label %second
second:
  %p2 = getelementptr ptr, ptr %args, i64 2
  %a2 = load ptr, ptr %p2
  %got2 = call i32 @PyObject_GetBuffer(ptr %a2, ptr %report, i32 {write})
  %bad2 = icmp ne i32 %got2, 0
  br i1 %bad2, label %release, label %sizes
release:
  call void @PyBuffer_Release(ptr %y)
  br label %fail
sizes:
  %ylen.at = getelementptr %buffer, ptr %y, i32 0, i32 2
  %ylen = load i64, ptr %ylen.at
  %rlen.at = getelementptr %buffer, ptr %report, i32 0, i32 2
  %rlen = load i64, ptr %rlen.at
  %wanted.at = getelementptr i64, ptr %table, i64 {sizes}
  %y.bytes = load i64, ptr %wanted.at
  %r.bytes.at = getelementptr i64, ptr %wanted.at, i64 1
  %r.bytes = load i64, ptr %r.bytes.at
  %yfits = icmp eq i64 %ylen, %y.bytes
  %rfits = icmp eq i64 %rlen, %r.bytes
  %fits = and i1 %yfits, %rfits
  br i1 %fits, label %renew, label %done
renew:
  %new = icmp sgt i64 %count, 3
  br i1 %new, label %prepare, label %go
prepare:
  %p3 = getelementptr ptr, ptr %args, i64 3
  %a3 = load ptr, ptr %p3
  %given = call ptr @PyLong_AsVoidPtr(ptr %a3)
  %kept.at = getelementptr i64, ptr %table, i64 {model}
  %kept.number = load i64, ptr %kept.at
  %kept = inttoptr i64 %kept.number to ptr
  %preparing.at = getelementptr i64, ptr %table, i64 {code}
  %preparing.next = getelementptr i64, ptr %preparing.at, i64 1
  %preparing = load ptr, ptr %preparing.next
  call void %preparing(ptr %given, ptr %kept)
  %fine.place.at = getelementptr i64, ptr %wanted.at, i64 2
  %fine.place = load i64, ptr %fine.place.at
  %fine.at = getelementptr {number}, ptr %kept, i64 %fine.place
  %fine = load {number}, ptr %fine.at
  %isfine = fcmp une {number} %fine, 0.0
  br i1 %isfine, label %go, label %done
go:
  %y.address = load ptr, ptr %y
  %r.address = load ptr, ptr %report
  %y.number = ptrtoint ptr %y.address to i64
  %r.number = ptrtoint ptr %r.address to i64
  %y.entry = getelementptr i64, ptr %table, i64 {y}
  %code.at = getelementptr i64, ptr %table, i64 {code}
  %r.place.at = getelementptr i64, ptr %code.at, i64 2
  %r.place = load i64, ptr %r.place.at
  %r.entry = getelementptr i64, ptr %table, i64 %r.place
  store i64 %y.number, ptr %y.entry
  store i64 %r.number, ptr %r.entry
  %running = load ptr, ptr %code.at
  call void %running(i64 0, i64 1, i64 1, ptr %table)
  br label %done
done:
  %answer = phi i64 [ 0, %sizes ], [ 0, %prepare ], [ 1, %go ]
  call void @PyBuffer_Release(ptr %report)
  call void @PyBuffer_Release(ptr %y)
  %result = call ptr @PyBool_FromLong(i64 %answer)
  ret ptr %result
fail:
  ret ptr null
}}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_referenced: list[object] = []  # never freed: the interpreter holds pointers to these


@cache
def fastcall(number: str) -> Callable:
    """Compile the function `(table, y, report)`, or with a fourth argument the address of a model's new numbers.

    It returns False without effect if y or the report have another size than the step's, or if the new numbers are not
    certainly valid. It reads the addresses of the code and the sizes from the table.

    Args:
        number: LLVM type of the run's numbers.
    """
    name = f"wolf_call_{number}"
    places = {field: 3 * HEAD.index(field) for field in ("model", "code", "sizes")} | {"y": 3 * len(HEAD)}
    text = WRAPPER.format(name=name, number=number, read=READ, write=WRITE, **places)
    code = disk_cache.get_or_compile(hashlib.sha256(text.encode()).hexdigest(), lambda: llvm_jit.compile(text))
    loaded = llvm_jit.load(code, name)
    method = _MethodDef(name.encode(), loaded.address, FASTCALL, None)
    _referenced.append((method, loaded))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return make(ctypes.addressof(method), None, None)
