"""Hardware intrinsics on a CPU: which of a program's are used, and their code.

``emit["cpu"]`` of an intrinsic is a function of a `Builder` and the operands by name (pointers
for buffers, i64 and the like for scalars), or the LLVM text of one basic block in which
``%name`` stands for an operand::

    declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <16 x i32>, <16 x i32>)
    %c = load <16 x i32>, ptr %C, align 4
    ...
    store <16 x i32> %sum, ptr %C, align 4
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError, ScheduleError, UnsupportedError
from weft.ir.expr import AddressOf, Call
from weft.ir.hardware import HARDWARE, Hardware, declare, find_hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.stmt import Evaluate, For, Kernel, Param, Stmt, Tensorized
from weft.ir.visit import rebuild
from weft.passes.analysis.loop_ranges import loop_range
from weft.target.cpu.builder import Builder, Module, Value
from weft.target.cpu.emit_context import Function, function_attributes
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_memory import emit_address
from weft.target.cpu.host import Machine
from weft.target.cpu.intrinsics_amx import TILES
from weft.target.cpu.intrinsics_x86 import DOTS
from weft.target.cpu.llvm_types import llvm_type

#: Keys of an intrinsic's ``emit`` that have a code generator.
TARGETS = ("cpu",)
Operands: TypeAlias = "Mapping[str, Value]"
for _known in (*DOTS, *TILES):
    declare(_known)

_NAME = re.compile(r"%([A-Za-z_][A-Za-z0-9_.]*)")


def lower_intrinsics(kernel: Kernel, machine: Machine) -> Kernel:
    """Every tensorized nest as a call of its intrinsic where ``machine`` has it, else as the loops it is."""
    return replace(kernel, body=_lower(kernel.body, machine, {}))


def _lower(s: Stmt, machine: Machine, ranges: Mapping[str, Interval]) -> Stmt:
    if isinstance(s, Evaluate) and s.call.name in HARDWARE:
        _require_intrinsic(machine, s)
    inner = {**ranges, s.var.name: loop_range(s, ranges)} if isinstance(s, For) else ranges
    if isinstance(s, Tensorized):
        hardware = find_hardware(s.intrinsic)
        return _call(hardware, s, ranges) if has_intrinsic(machine, hardware) else _lower(s.body, machine, ranges)
    return rebuild(s, lambda n: _lower(n, machine, inner) if isinstance(n, Stmt) else n)


def _require_intrinsic(machine: Machine, s: Evaluate) -> None:
    """A call, other than a tensorized nest, has no loops to run instead."""
    hardware = HARDWARE[s.call.name]
    if not has_intrinsic(machine, hardware):
        lacking = [f for f in hardware.needs if not machine.has_feature(f)] or ["code for the CPU"]
        raise UnsupportedError(
            f"`{machine.name}` has no `{hardware.name}`",
            span=s.span,
            notes=[("needs", text) for text in lacking],
        )


def has_intrinsic(machine: Machine, hardware: Hardware) -> bool:
    """Whether ``machine`` can run ``hardware``: there is code for it, and every feature it needs."""
    return "cpu" in hardware.emit and all(machine.has_feature(f) for f in hardware.needs)


def _call(hardware: Hardware, s: Tensorized, ranges: Mapping[str, Interval]) -> Stmt:
    """The operands are found by comparing once more: what the loops say now counts."""
    found = match_hardware(hardware, s.body, ranges)
    if isinstance(found, Mismatch):
        raise ScheduleError(
            f"loops tensorized as `{hardware.name}` have changed since",
            span=s.span,
            why=found.reason,
            help="tensorize after the other steps on these loops",
        )
    return Evaluate(Call(hardware.name, found, dt.index, span=s.span), span=s.span)


def emit_intrinsic(f: Function, call: Call) -> None:
    """The code of one hardware call."""
    hardware = HARDWARE[call.name]
    if f.lane is not None:
        raise InternalError(f"`{call.name}` inside a vector loop", span=call.span)
    operands = {}
    for param, arg in zip(hardware.meaning.params, call.args):
        if isinstance(arg, AddressOf):
            operands[param.name] = emit_address(f, arg.buffer, arg.indices, emit_expr).pointer
        else:
            operands[param.name] = emit_expr(f, arg)
    emit = hardware.emit["cpu"]
    if isinstance(emit, str):
        emit_template(f.b, emit, operands)
    else:
        emit(f.b, operands)


def emit_template(b: Builder, text: str, operands: Operands) -> None:
    """Instructions given as text: operands filled in, other names made unique, declarations moved out."""
    suffix = b.new_label("x")

    def named(found: re.Match[str]) -> str:
        operand = operands.get(found[1])
        return operand.text if operand is not None else f"%{found[1]}.{suffix}"

    for line in map(str.strip, text.splitlines()):
        declared = re.match(r"declare\s+.*@([\w.$-]+)\(", line)
        if declared is not None:
            b.module.declarations.setdefault(declared[1], line)
        elif line and not line.startswith(";"):
            b.emit_void(_NAME.sub(named, line))


def emit_alone(hardware: Hardware, machine: Machine) -> str:
    """The LLVM text of a function that does nothing but ``hardware``."""
    module = Module(header=[f'target triple = "{machine.triple}"'])
    params = [(_operand_type(p), p.name) for p in hardware.meaning.params]
    b = module.function("alone", "void", params, attributes=function_attributes(machine))
    emit = hardware.emit["cpu"]
    operands = {name: b.argument(name) for _, name in params}
    if isinstance(emit, str):
        emit_template(b, emit, operands)
    else:
        emit(b, operands)
    b.ret()
    return module.text()


def _operand_type(param: Param) -> str:
    return "ptr" if isinstance(param, Buffer) else llvm_type(param.dtype)
