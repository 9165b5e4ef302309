"""Tables of 16 float32 kept in a register, looked up in one instruction, where AVX-512 has it."""

from __future__ import annotations

from collections.abc import Sequence

from weft.target.cpu.builder import Value, constant
from weft.target.cpu.math.formula import Term
from weft.target.cpu.math.registers import WIDEST, by_registers


def can_look_up(x: Term) -> bool:
    return x.is_single and x.b.features.tables


def look_up(table: Sequence[float], position: Term) -> Term:
    """The entry of a table of 16 that the low 4 bits of each lane of ``position`` say."""
    entries = ", ".join(f"float {constant('float', entry).text}" for entry in table)
    register = Value(f"<{entries}>", f"<{len(table)} x float>")

    def permute(index: Value) -> Value:
        return position.b.call("llvm.x86.avx512.permvar.sf.512", register.type, [register, index], pure=True)

    return Term(position.b, by_registers(position.b, [position.v], WIDEST, permute))
