"""Atomic updates: CUDA's own functions where it has them, a compare-and-swap loop for the rest.

``atomicAdd`` of a float in global memory flushes subnormal numbers to zero, as the hardware does.
"""

from __future__ import annotations

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Compare, Expr, Load, Select, Var
from weft.ir.stmt import Atomic, Store
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.emit_convert import emit_to_memory
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.c_text.emit_stmt import emit_store
from weft.target.cuda.emit_context import Code, Function

_FUNCTIONS = {
    "+": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "&": "atomicAnd", "|": "atomicOr", "^": "atomicXor",
    "exchange": "atomicExch",
}  # fmt: skip


#: Narrow floats that some machines add atomically.
_ADDS = {"float16": "fp16 atomics", "bfloat16": "bf16 atomics"}


def emit_atomic(f: Function, s: Atomic) -> None:
    """The statement; the old value goes to the variable that wants it."""
    t = s.buffer.dtype
    pointer = emit_pointer(f, s.buffer, s.indices)
    if f.memory(s.buffer).is_private:
        _emit_alone(f, s)
        return
    if _has_function(s, t):
        old = _call(f, s, t, pointer)
    elif s.op == "+" and t.name in _ADDS and f.machine.has(_ADDS[t.name]):
        old = Code(f"{f.use(f'atomic_add_{t.name}')}({pointer}, {emit_to_memory(f, emit_expr(f, s.value), t)})")
    else:
        old = _emit_swap_loop(f, s, t, pointer)
    _keep_old(f, s, old)


def _keep_old(f: Function, s: Atomic, old: Code) -> None:
    if s.result is None:
        f.line(f"{old.text};")
    else:
        f.line(f"{f.variables[s.result.name].text} = {_value(f, old, s.buffer.dtype)};")


def _value(f: Function, old: Code, t: DType) -> str:
    if t.is_narrow_float:
        return f"{f.program.overloaded('widen', t.name)}({old.text})"
    return f"{old.text} != 0" if t.is_bool else old.text


def _has_function(s: Atomic, t: DType) -> bool:
    if s.op == "cas":
        return t.is_integer and t.bits >= 32
    if t.is_float:
        return (s.op == "+" and t.bits >= 32) or (s.op == "exchange" and t.bits == 32)
    return t.is_integer and t.bits >= 32


def _call(f: Function, s: Atomic, t: DType, pointer: str) -> Code:
    """64-bit integers: most functions know them as unsigned only; minimum and maximum must know the sign."""
    value = emit_expr(f, s.value).text
    type = value_type(t)
    unsigned = t.bits == 64 and t.kind == "int" and s.op in ("+", "&", "|", "^", "exchange", "cas")
    to = "unsigned long long" if unsigned else type
    place = f"({to}*)({pointer})" if unsigned else pointer
    name = _FUNCTIONS.get(s.op, "atomicCAS")
    values = [f"({to})({v})" for v in ([emit_expr(f, s.expected).text] if s.expected is not None else []) + [value]]
    call = f"{name}({place}, {', '.join(values)})"
    return Code(f"({type}){call}" if unsigned and s.result is not None else call)


def _emit_swap_loop(f: Function, s: Atomic, t: DType, pointer: str) -> Code:
    """Read, combine, and store if nobody else did meanwhile."""
    type = storage_type(t)
    old = f.fresh("old")
    if s.op == "cas":
        assert s.expected is not None
        expected, value = (_stored(f, e, t) for e in (s.expected, s.value))
        new = f"{f.use('same_bits')}({old}, {expected}) ? {value} : {old}"
    elif s.op == "exchange":
        new = _stored(f, s.value, t)
    else:
        new = _combined(f, s, t, old)
    return Code(f"{f.use('atomic_update')}({pointer}, [=]({type} {old}) -> {type} {{ return {new}; }})")


def _stored(f: Function, e: Expr, t: DType) -> str:
    text = emit_to_memory(f, emit_expr(f, e), t)
    return text if t.is_narrow_float else f"({storage_type(t)})({text})"


def _combined(f: Function, s: Atomic, t: DType, old: str) -> str:
    op = "max" if t.is_bool and s.op == "+" else s.op
    var = Var(old, t)
    f.variables[old] = Code(f"({_value(f, Code(old), t)})")
    text = _stored(f, Binary(op, var, s.value), t)  # type: ignore[arg-type]
    del f.variables[old]
    return text


def _emit_alone(f: Function, s: Atomic) -> None:
    """On memory that only this thread sees."""
    load = Load(s.buffer, s.indices)
    if s.result is not None:
        f.line(f"{f.variables[s.result.name].text} = {emit_expr(f, load).text};")
    if s.op == "cas":
        assert s.expected is not None
        value: Expr = Select(Compare("==", load, s.expected), s.value, load)
    elif s.op == "exchange":
        value = s.value
    else:
        op = "max" if s.buffer.dtype.is_bool and s.op == "+" else s.op
        value = Binary(op, load, s.value)
    emit_store(f, Store(s.buffer, s.indices, value))
