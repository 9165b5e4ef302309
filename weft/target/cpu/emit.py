"""A kernel in final loop form to the text of an LLVM module.

The function takes one pointer, to 8-byte slots: the parameters in order (a buffer's address,
a scalar's bits), then the address of an error record of eight int64. It returns 0, the number
of the assert that failed (from 1), or -1 where memory ran out.
"""

from __future__ import annotations

from weft.ir.asserts import AssertSite as AssertSite
from weft.ir.asserts import assert_sites as assert_sites
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Var
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Kernel
from weft.target.cpu.builder import Builder, Features, Module
from weft.target.cpu.emit_context import (
    I64,
    WITH_TEAM,
    Function,
    Memory,
    Program,
    compute_type,
    function_attributes,
    plain_name,
    status,
)
from weft.target.cpu.emit_convert import round_to
from weft.target.cpu.emit_parallel import repeated_starts
from weft.target.cpu.emit_stmt import emit_stmt
from weft.target.cpu.host import Machine
from weft.target.cpu.line_tables import LineTable
from weft.target.cpu.llvm_values import Value, constant
from weft.target.cpu.math import FAST_MATH, MATH


def entry_name(kernel: Kernel) -> str:
    return plain_name(kernel.name)


def emit_module(
    kernel: Kernel,
    machine: Machine,
    sites: tuple[AssertSite, ...],
    *,
    fast: bool = False,
    contract: bool = False,
    shown_as: str = "",
) -> str:
    """The LLVM text of ``kernel``, all of whose loops have their final form.

    ``contract`` lets a product and a sum become one operation, rounded once; so do ``fast`` numerics, which have
    functions of their own. Where debuggers are to show it, they call it ``shown_as``.
    """
    module = Module(machine_features(machine), header=[f'target triple = "{machine.triple}"'], footer=["!0 = !{}"])
    module.lines = LineTable(shown_as) if shown_as else None
    numbers = {(s.message, s.span): n for n, s in enumerate(sites, 1)}
    program = Program(module, machine, entry_name(kernel), numbers, assigned_names(kernel.body))
    program.zeros_are_alike = fast
    program.contract, program.math = contract or fast, MATH | FAST_MATH if fast else MATH
    b = _start_function(program, repeated_starts(kernel.body))
    f = Function(program, b, b.load("ptr", _slot(b, len(kernel.params)), align=8))
    for n, param in enumerate(kernel.params):
        if isinstance(param, Buffer):
            pointer = b.load("ptr", _slot(b, n), align=8)
            f.buffers[param.name] = Memory(pointer, invariant=param.name not in kernel.outputs)
        else:
            f.names[param.name] = _load_scalar(f, _slot(b, n), param)
    emit_stmt(f, kernel.body)
    if not b.terminated:
        f.end(status(0))
    return module.text()


def _start_function(program: Program, keeps_threads: bool) -> Builder:
    """The function that does the work: the kernel itself, or what it calls with threads that stay awake."""
    args, attributes = [("ptr", "args")], function_attributes(program.machine)
    if not keeps_threads:
        return program.module.function(program.name, "i32", args, attributes=attributes)
    work = f"{program.name}.work"
    b = program.module.function(program.name, "i32", args, attributes=attributes)
    b.ret(b.call(WITH_TEAM, "i32", [Value(f"@{work}", "ptr"), b.argument("args")]))
    return program.module.function(work, "i32", args, linkage="internal", attributes=attributes)


def machine_features(machine: Machine) -> Features:
    return Features(
        fma=machine.has_fma,
        rounding=machine.has_rounding,
        vector_bits=machine.vector_bits,
        scaling=machine.is_x86 and machine.has_masks,
        tables=machine.is_x86 and machine.has_masks,
    )


def _slot(b: Builder, n: int) -> Value:
    return b.gep(I64, b.argument("args"), Value(str(n), I64))


def _load_scalar(f: Function, slot: Value, param: Var) -> Value:
    dtype: DType = param.dtype
    if dtype.is_float:
        return round_to(f, f.b.load(compute_type(dtype), slot, align=8), dtype)
    bits = f.b.load(I64, slot, align=8)
    if dtype.is_bool:
        return f.b.icmp("ne", bits, constant(I64, 0))
    return f.b.trunc(bits, f"i{dtype.bits}")
