"""Loops through a register buffer unrolled, so that every subscript of it is a constant.

Registers have no addresses: a buffer of ``register`` scope with a loop variable in a subscript
would live in memory. Loops that would make too many copies are left, and the buffer with them.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Load, Var
from weft.ir.stmt import Alloc, For, Kernel, Stmt, Store
from weft.ir.visit import map_statements, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: Copies of a body, over nested loops, up to which unrolling pays.
MAX_COPIES = 256


def unroll_registers(kernel: Kernel) -> Kernel:
    """Every serial loop of constant extent whose variable subscripts a register buffer, unrolled."""
    return replace(kernel, body=_unroll(kernel.body, 1))


def _unroll(s: Stmt, copies: int) -> Stmt:
    if isinstance(s, For):
        count = constant_extent(s)
        if s.kind == "serial" and count is not None and count * copies <= MAX_COPIES and subscripts_register(s):
            s = replace(s, kind="unroll")
        if s.kind == "unroll" and count is not None:
            copies *= max(count, 1)
    return map_statements(s, lambda n: _unroll(n, copies))


def subscripts_register(loop: For) -> bool:
    """Whether the variable of ``loop`` picks elements of a register buffer that lives longer than an iteration."""
    made = {n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc)}
    accesses = (n for n in walk(loop.body) if isinstance(n, (Load, Store)) and n.buffer.scope == "register")
    parts = (node for a in accesses if a.buffer.name not in made for index in a.indices for node in walk(index))
    return any(isinstance(node, Var) and node.name == loop.var.name for node in parts)
