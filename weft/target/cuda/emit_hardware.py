"""Hardware intrinsics in CUDA: nests that are one instruction or a few.

``emit["cuda"]`` of an intrinsic is either of

- a text: CUDA C++ statements in which ``%name`` stands for an operand of the intrinsic, a pointer for a buffer and
  a number for a scalar; it stands between braces of its own;
- a function of the `Function` under construction and the `Tensorized` statement or `Call`, for intrinsics that look
  at the loops or operands themselves. It writes with ``f.line`` and ``f.braces``, brings device functions with
  ``f.define``, and returns False to have the loops of a statement written instead.
"""

from __future__ import annotations

import re

from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Call
from weft.ir.hardware import HARDWARE, Hardware
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.stmt import Tensorized
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.cuda.emit_context import LEVEL, Function
from weft.target.cuda.machine import GpuMachine

_NAME = re.compile(r"%([A-Za-z_]\w*)")


def missing_for(hardware: Hardware, machine: GpuMachine) -> list[str]:
    """What is missing to run ``hardware``: code for CUDA, or what the machine needs for it."""
    code = [] if "cuda" in hardware.emit else ["code for CUDA"]
    return code + [need for need in hardware.needs if not machine.has(need)]


def emit_hardware(f: Function, s: Tensorized) -> bool:
    """The intrinsic's code; False where the loops are to be written as they are."""
    hardware = HARDWARE.get(s.intrinsic)
    if hardware is None or missing_for(hardware, f.machine):
        return False
    emit = hardware.emit["cuda"]
    if not isinstance(emit, str):
        return bool(emit(f, s))
    match = match_hardware(hardware, s.body, f.ranges)
    if isinstance(match, Mismatch) or not all(_has_address(f, arg) for arg in match):
        return False
    _emit_template(f, hardware, emit, match)
    return True


def _has_address(f: Function, arg: object) -> bool:
    """Whether a text can take what ``arg`` is: a thread's own narrow floats are kept as wide ones."""
    return not isinstance(arg, AddressOf) or not (arg.buffer.dtype.is_narrow_float and f.memory(arg.buffer).is_private)


def emit_hardware_call(f: Function, call: Call) -> None:
    """A call of an intrinsic: there are no loops to run instead."""
    hardware = HARDWARE[call.name]
    emit = hardware.emit.get("cuda")
    if emit is not None and not isinstance(emit, str) and not missing_for(hardware, f.machine) and emit(f, call):
        return
    if missing_for(hardware, f.machine) or not isinstance(emit, str):
        raise UnsupportedError(
            f"`{f.machine.name}` has no `{hardware.name}`",
            span=call.span,
            notes=[("needs", need) for need in hardware.needs] or [("needs", "code for CUDA")],
        )
    _emit_template(f, hardware, emit, call.args)


def _emit_template(f: Function, hardware: Hardware, text: str, args: tuple[object, ...]) -> None:
    operands: dict[str, str] = {}
    for param, arg in zip(hardware.meaning.params, args):
        if isinstance(arg, AddressOf):
            operands[param.name] = f"({emit_pointer(f, arg.buffer, arg.indices)})"
        else:
            operands[param.name] = emit_expr(f, arg).inside(LEVEL["unary"])  # type: ignore[arg-type]
    with f.braces():
        for line in map(str.strip, text.splitlines()):
            if line:
                f.line(_NAME.sub(lambda found: operands.get(found[1], found[0]), line))
