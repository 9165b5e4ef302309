"""Atomic updates: compare-and-swap on the bits, in one function for each operator and type of element."""

from __future__ import annotations

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Expr, Var
from weft.ir.interval import EVERYTHING
from weft.ir.stmt import Atomic
from weft.target.c.emit_context import Function
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.context import Code
from weft.target.c_text.emit_convert import emit_to_memory
from weft.target.c_text.emit_expr import emit_expr, emit_pointer

_NAMES = {"+": "add", "&": "and", "|": "or", "^": "xor"}


def emit_atomic(f: Function, s: Atomic) -> None:
    """The statement; the old value goes to the variable that wants it."""
    t = s.buffer.dtype
    function = _define(f, s.op, t)
    given = [s.value] if s.expected is None else [s.value, s.expected]
    values = [emit_expr(f, v).text for v in given]
    call = f"{function}({', '.join([emit_pointer(f, s.buffer, s.indices), *values])})"
    f.line(f"{call};" if s.result is None else f"{f.variables[s.result.name].text} = {call};")


def _define(f: Function, op: str, t: DType) -> str:
    """The function that updates an element of type ``t``, and gives its old value."""
    name, type, memory = f"atomic_{_NAMES.get(op, op)}_{t.name}", value_type(t), storage_type(t)
    if t.is_narrow_float:
        f.use(t.name)
    g = Function(f.program, frozenset())
    for variable in ("old", "x", "expected"):
        g.variables[variable], g.ranges[variable] = Code(variable, wide=t.bits == 64), EVERYTHING
    old = f"{f.program.overloaded('widen', t.name)}(seen)" if t.is_narrow_float else "seen"
    word = f"uint{t.itemsize * 8}_t"
    expected = f", {type} expected" if op == "cas" else ""
    text = f"""static inline {type} {name}({memory} *p, {type} x{expected}) {{
  {word} bits = atomic_load((_Atomic {word} *)p), next;
  for (;;) {{
    {memory} seen;
    memcpy(&seen, &bits, sizeof seen);
    const {type} old = {old}{" != 0" if t.is_bool else ""};
    const {memory} now = {emit_to_memory(g, _combined(g, op, t), t)};
    memcpy(&next, &now, sizeof now);
    if (atomic_compare_exchange_weak((_Atomic {word} *)p, &bits, next)) return old;
  }}
}}"""
    return f.define(name, text)


def _combined(g: Function, op: str, t: DType) -> Code:
    if op == "exchange":
        return Code("x")
    if op == "cas":
        return Code("old == expected ? x : old", level=0)
    combine: Expr = Binary("max" if t.is_bool and op == "+" else op, Var("old", t), Var("x", t))  # type: ignore[arg-type]
    return emit_expr(g, combine)
