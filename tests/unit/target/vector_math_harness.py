"""Compiles one intrinsic into a loop over arrays and runs it, through llvmlite alone."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from weft.ir.dtype import DType, float32, float64, int32
from weft.ir.intrinsics import INTRINSICS
from weft.target.cpu.builder import BASELINE, Builder, Features, Module
from weft.target.cpu.llvm_values import Value, constant, llvm_type, vector
from weft.target.cpu.math import FAST_MATH, MATH

#: LLVM's cpu name and our description, from the plainest to the host's own.
MACHINES = {
    "sse2": ("x86-64", BASELINE),
    "avx2": ("x86-64-v3", Features(vector_bits=256)),
    "host": (llvm.get_host_cpu_name(), Features(scaling=True, tables=True)),
}
if not llvm.get_host_cpu_features().get("avx512f", False):
    MACHINES["host"] = (llvm.get_host_cpu_name(), Features(vector_bits=256))

_DTYPES = {np.dtype(np.float32): float32, np.dtype(np.float64): float64, np.dtype(np.int32): int32}


def emit_loop(module: Module, name: str, dtype: DType, lanes: int, is_fast: bool = False) -> None:
    """``void name(n, out, in...)`` with n a multiple of lanes; tests write bytes."""
    entry = INTRINSICS[name]
    element = llvm_type(dtype)
    wide = vector(element, lanes)
    params = [("i64", "n"), ("ptr noalias", "out")] + [("ptr noalias", f"a{k}") for k in range(entry.arity)]
    b = module.function(f"run_{name}", "void", params, attributes="nounwind")
    before, loop, done = b.label, b.new_label("loop"), b.new_label("done")
    b.block(loop)
    i = b.phi("i64", [(constant("i64", 0), before)])
    args = [b.load(wide, b.gep(element, b.argument(f"a{k}"), i)) for k in range(entry.arity)]
    store_result(b, (FAST_MATH if is_fast else MATH)[name](b, args, dtype), i)
    following = b.add(i, constant("i64", lanes))
    b.add_incoming(i, following, b.label)
    b.cond_branch(b.icmp("slt", following, b.argument("n")), loop, done)
    b.block(done)
    b.ret()


def store_result(b: Builder, result: Value, index: Value) -> None:
    if result.element == "i1":
        result = b.zext(result, "i8")
    b.store(result, b.gep(result.element, b.argument("out"), index))


@functools.cache
def compile_intrinsic(name: str, dtype: DType, lanes: int, machine: str, is_fast: bool = False) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = MACHINES[machine]
    module = Module(features)
    emit_loop(module, name, dtype, lanes, is_fast)
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    flags = llvm.get_host_cpu_features().flatten() if machine == "host" else ""
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=flags, opt=2)
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.finalize_object()
    return engine, engine.get_function_address(f"run_{name}")


def run(name: str, *args: Any, lanes: int = 16, machine: str = "host", is_fast: bool = False) -> Any:
    """The intrinsic applied to equal-sized 1-D arrays."""
    arrays = [np.ascontiguousarray(a) for a in args]
    size = arrays[0].size
    padded = -(-size // lanes) * lanes
    inputs = [np.concatenate([a, np.full(padded - size, a.dtype.type(1))]) for a in arrays]
    dtype = _DTYPES[arrays[0].dtype]
    _, address = compile_intrinsic(name, dtype, lanes, machine, is_fast)
    out = np.empty(padded, np.bool_ if INTRINSICS[name].rule == "test" else arrays[0].dtype)
    pointers = [a.ctypes.data for a in (out, *inputs)]
    ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * len(pointers))(address)(padded, *pointers)
    return out[:size]


def undefined_symbols(name: str, dtype: DType, lanes: int, machine: str) -> list[str]:
    """What the object would import; a call through a register is of our own function, its address kept there."""
    cpu, features = MACHINES[machine]
    module = Module(features)
    emit_loop(module, name, dtype, lanes)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, opt=2, reloc="pic")
    assembly = target.emit_assembly(llvm.parse_assembly(module.text()))
    calls = [line.split()[1] for line in assembly.splitlines() if line.strip().startswith(("call", "jmp\t", "bl\t"))]
    return sorted({c for c in calls if not c.startswith((".L", "weft.", "*%"))})
