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
from typing import TypeAlias

from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import AddressOf, Call
from weft.ir.hardware import HARDWARE, Hardware, declare
from weft.target.cpu.builder import Builder, Module
from weft.target.cpu.emit_context import Function, function_attributes
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_memory import emit_address
from weft.target.cpu.host import Machine
from weft.target.cpu.intrinsics_amx import TILES
from weft.target.cpu.intrinsics_x86 import DOTS
from weft.target.cpu.llvm_values import Value, llvm_type

#: Keys of an intrinsic's ``emit`` that have a code generator.
TARGETS = ("cpu",)
Operands: TypeAlias = "Mapping[str, Value]"
for _known in (*DOTS, *TILES):
    declare(_known)

_NAME = re.compile(r"%([A-Za-z_][A-Za-z0-9_.]*)")


def missing_for(hardware: Hardware, machine: Machine) -> list[str]:
    """What ``machine`` lacks to run ``hardware``: features, or code for it."""
    code = [] if "cpu" in hardware.emit else ["code for the CPU"]
    return [feature for feature in hardware.needs if not machine.has_feature(feature)] or code


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

    def named(match: re.Match[str]) -> str:
        operand = operands.get(match[1])
        return operand.text if operand is not None else f"%{match[1]}.{suffix}"

    for line in map(str.strip, text.splitlines()):
        declared = re.match(r"declare\s+.*@([\w.$-]+)\(", line)
        if declared is not None:
            b.module.declarations.setdefault(declared[1], line)
        elif line and not line.startswith(";"):
            b.emit_void(_NAME.sub(named, line))


def emit_alone(hardware: Hardware, machine: Machine) -> str:
    """The LLVM text of a function that does nothing but ``hardware``."""
    module = Module(header=[f'target triple = "{machine.triple}"'])
    params = [("ptr" if isinstance(p, Buffer) else llvm_type(p.dtype), p.name) for p in hardware.meaning.params]
    b = module.function("alone", "void", params, attributes=function_attributes(machine))
    emit = hardware.emit["cpu"]
    operands = {name: b.argument(name) for _, name in params}
    if isinstance(emit, str):
        emit_template(b, emit, operands)
    else:
        emit(b, operands)
    b.ret()
    return module.text()
