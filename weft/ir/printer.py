"""The text form of a loop program: readable, and read back to the equal program by `weft.ir.parser`.

    kernel mm(A: float32[64, 32], B: float32[32, 48], out C: float32[64, 48]) {
      for m in 0:64 {
        parallel n in 0:48 {
          C[m, n] = 0.0
          for k in 0:32 {
            C[m, n] = C[m, n] + A[m, k] * B[k, n]
          }
        }
      }
    }

A plain integer is an int64 and a plain decimal a float32; other types follow the number, as in
``3_i32``, ``0.5_f64``, ``inf_bf16`` or ``1_i8x16``. ``let`` and ``alloc`` reach to the end of the
braces they stand in unless they bring braces of their own. Names that are not plain identifiers, or
that the notation itself uses, stand in backticks. Spans are not printed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.ir import dtype as dt
from weft.ir import expr as ex
from weft.ir import stmt as st
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ProgramError
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.memory import PLAIN_SCOPES

#: Words of the notation; a variable or buffer of such a name is printed in backticks.
KEYWORDS = frozenset(
    (
        "kernel", "out", "in", "for", "parallel", "vector", "unroll", "block", "thread", "while", "if", "else", "seq",
        "let", "alloc", "atomic", "barrier", "return", "break", "continue", "call", "assert", "init", "reads", "writes",
        "spatial", "reduce", "strides", "global", "shared", "register", "constant", "local", "warp", "grid", "min",
        "max", "tdiv", "tmod", "ramp", "broadcast", "shuffle", "cas", "exchange", "tensorized",
    )
)  # fmt: skip
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LITERAL_NAME = re.compile(r"(inf|nan|true|false)(_(bf16|f8_e4m3fn|f8_e5m2|[iuf]\d+))?(_?x\d+)?\Z")

#: How tightly each operator binds; a larger number binds tighter.
PRECEDENCE: dict[str, int] = {
    "||": 2, "&&": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
_TERNARY, _COMPARE, _UNARY, _ATOM = 1, 4, 11, 12


def print_expr(e: ex.Expr) -> str:
    """One line of text for ``e``."""
    return _guarded(lambda: _expr(e)[0])


def print_stmt(s: st.Stmt) -> str:
    """The lines of ``s``, without a final newline."""
    return _guarded(lambda: "\n".join(_items(s, "")))


def print_kernel(kernel: st.Kernel) -> str:
    """The text of ``kernel``; `parse_kernel` reads it back to an equal one."""
    return _guarded(lambda: "\n".join(_kernel(kernel)) + "\n")


def print_name(name: str) -> str:
    """``name``, in backticks unless it is a plain identifier that means nothing else."""
    plain = _PLAIN_NAME.match(name) and name not in KEYWORDS
    if plain and not _LITERAL_NAME.match(name) and dt.parse_dtype(name) is None:
        return name
    return "`" + json.dumps(name)[1:-1].replace("`", "\\u0060") + "`"


def print_const(c: ex.Const) -> str:
    """A number with its type, where that is neither int64 nor float32."""
    t, value = c.type, c.value
    if t.is_bool:
        return ("true" if value else "false") + _suffix(t, "")
    if t.is_integer:
        return f"{value}" + _suffix(t, "" if t == dt.int64 else f"_{t.kind[0]}{t.bits}")
    text = "nan" if math.isnan(value) else repr(value)
    return text + _suffix(t, "" if t == dt.float32 else "_" + t.scalar.name.replace("float", "f"))


def print_buffer(b: Buffer) -> str:
    """The declaration of ``b``: name, type, sizes, strides and scope."""
    text = f"{print_name(b.name)}: {b.dtype}[{_list(b.shape)}]"
    if b.strides is not None:
        text += f" strides [{_list(b.strides)}]"
    scope = b.scope if b.scope in PLAIN_SCOPES else print_name(b.scope)
    return text if scope == "global" else f"{text} in {scope}"


def _guarded(make: Callable[[], str]) -> str:
    try:
        return make()
    except RecursionError:
        raise ProgramError("the program is nested too deeply to print") from None


def _suffix(t: DType, element: str) -> str:
    if t.lanes == 1:
        return element
    return f"{element}x{t.lanes}" if element else f"_x{t.lanes}"


def _list(parts: Iterable[ex.Expr]) -> str:
    return ", ".join(_expr(p)[0] for p in parts)


def _inside(e: ex.Expr, level: int) -> str:
    """``e`` as an operand of something that binds as tightly as ``level``."""
    text, own = _expr(e)
    return text if own >= level else f"({text})"


def _expr(e: ex.Expr) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    printer = _EXPR.get(type(e))
    return printer(e) if printer is not None else (_other(e), _ATOM)


def _unary(e: ex.Unary) -> tuple[str, int]:
    # `-3` is the constant; the negation of the constant 3 is `-(3)`.
    bare = isinstance(e.operand, ex.Const) and not print_const(e.operand).startswith("-")
    operand = f"({_expr(e.operand)[0]})" if bare and e.op == "-" else _inside(e.operand, _UNARY)
    return f"{e.op}{operand}", _UNARY


def _binary(e: ex.Binary | ex.Compare) -> tuple[str, int]:
    level = PRECEDENCE.get(e.op)
    if level is None:
        return f"{e.op}({_list((e.left, e.right))})", _ATOM
    left = _inside(e.left, level + (level == _COMPARE))
    return f"{left} {e.op} {_inside(e.right, level + 1)}", level


def _select(e: ex.Select) -> tuple[str, int]:
    condition = _inside(e.condition, _TERNARY + 1)
    return f"{condition} ? {_inside(e.then, _TERNARY)} : {_inside(e.otherwise, _TERNARY)}", _TERNARY


def _call(e: ex.Call) -> tuple[str, int]:
    intrinsic = INTRINSICS.get(e.name)
    implied = intrinsic is not None and bool(e.args) and intrinsic.result(e.args[0].dtype) == e.type
    implied = implied or (e.name in HINTS and e.type == dt.index)
    return f"{print_name(e.name)}{'' if implied else f'.{e.type}'}({_list(e.args)})", _ATOM


def _reduce(e: ex.Reduce) -> tuple[str, int]:
    axes = ", ".join(f"{print_name(a.var.name)} in {_range(a.lo, a.hi)}" for a in e.axes)
    return f"reduce({e.op}; {axes}; {_expr(e.value)[0]})", _ATOM


def _range(lo: ex.Expr, hi: ex.Expr) -> str:
    return f"{_expr(lo)[0]}:{_expr(hi)[0]}"


def _other(e: Any) -> str:
    """Expressions of other layers, such as a boundary: shown as a call over their fields."""
    values = [getattr(e, f.name) for f in dataclasses.fields(e) if f.name != "span"]
    shown = [_expr(v)[0] if isinstance(v, ex.Expr) else str(v) for v in values]
    return f"{type(e).__name__.lower()}({', '.join(shown)})"


_EXPR: dict[type, Callable[[Any], tuple[str, int]]] = {
    ex.Const: lambda e: (print_const(e), _ATOM),
    ex.Var: lambda e: (print_name(e.name), _ATOM),
    ex.Load: lambda e: (_element(e.buffer, e.indices), _ATOM),
    ex.AddressOf: lambda e: (f"&{_element(e.buffer, e.indices)}", _ATOM),
    ex.Unary: _unary,
    ex.Binary: _binary,
    ex.Compare: _binary,
    ex.Select: _select,
    ex.Cast: lambda e: (f"{e.type}({_expr(e.operand)[0]})", _ATOM),
    ex.Call: _call,
    ex.Reduce: _reduce,
    ex.Ramp: lambda e: (f"ramp({_list((e.base, e.stride))}, {e.lanes})", _ATOM),
    ex.Broadcast: lambda e: (f"broadcast({_expr(e.value)[0]}, {e.lanes})", _ATOM),
    ex.Shuffle: lambda e: (f"shuffle([{_list(e.vectors)}], [{', '.join(map(str, e.positions))}])", _ATOM),
}


def _element(buffer: Buffer, indices: Iterable[ex.Expr]) -> str:
    return f"{print_name(buffer.name)}[{_list(indices)}]"


def _items(s: st.Stmt, pad: str) -> Iterator[str]:
    """The lines of ``s`` standing alone between braces: a sequence needs no braces of its own there."""
    body = s.body if isinstance(s, st.Seq) and len(s.body) != 1 else (s,)
    yield from _sequence(body, pad)


def _sequence(body: tuple[st.Stmt, ...], pad: str) -> Iterator[str]:
    for s in body[:-1]:
        yield from _stmt(s, pad)
    if not body:
        return
    last = body[-1]
    if isinstance(last, (st.Let, st.Alloc)):
        yield pad + _binding(last)
        yield from _items(last.body, pad)
    else:
        yield from _stmt(last, pad)


def _stmt(s: st.Stmt, pad: str) -> Iterator[str]:
    simple = _SIMPLE.get(type(s))
    if simple is not None:
        yield pad + simple(s)
    elif isinstance(s, st.Seq):
        yield pad + "seq {"
        yield from _sequence(s.body, pad + "  ")
        yield pad + "}"
    elif isinstance(s, st.If):
        yield from _if(s, pad)
    elif isinstance(s, st.Block):
        yield from _block(s, pad)
    else:
        head, body = _header(s)
        yield from _braces(head, body, pad)


def _braces(head: str, body: st.Stmt, pad: str) -> Iterator[str]:
    yield f"{pad}{head} {{"
    yield from _items(body, pad + "  ")
    yield pad + "}"


def _header(s: st.Stmt) -> tuple[str, st.Stmt]:
    match s:
        case st.For():
            word = "for" if s.kind == "serial" else s.kind
            return f"{word} {print_name(s.var.name)} in {_range(s.lo, s.hi)}{_backward(s)}{_ahead(s)}", s.body
        case st.While():
            return f"while {_expr(s.condition)[0]}", s.body
        case st.Tensorized():
            return f"tensorized {print_name(s.intrinsic)}", s.body
        case st.Let() | st.Alloc():
            return _binding(s), s.body
    raise ProgramError(f"cannot print a {type(s).__name__}", span=s.span)


def _backward(s: st.For) -> str:
    return "" if s.backward is None else f" backward if {_expr(s.backward)[0]}"


def _ahead(s: st.For) -> str:
    return "" if s.ahead is None else f" ahead {s.ahead.distance} of {', '.join(map(print_name, s.ahead.rings))}"


def _binding(s: st.Let | st.Alloc) -> str:
    if isinstance(s, st.Alloc):
        return f"alloc {print_buffer(s.buffer)}"
    return f"let {print_name(s.var.name)}: {s.var.type} = {_expr(s.value)[0]}"


def _if(s: st.If, pad: str, lead: str = "") -> Iterator[str]:
    yield f"{pad}{lead}if {_expr(s.condition)[0]} {{"
    yield from _items(s.then, pad + "  ")
    if s.otherwise is None:
        yield pad + "}"
    elif isinstance(s.otherwise, st.If):
        yield from _if(s.otherwise, pad, "} else ")
    else:
        yield from _braces("} else", s.otherwise, pad)


def _block(s: st.Block, pad: str) -> Iterator[str]:
    yield f"{pad}block {print_name(s.name)}({', '.join(_iter(i) for i in s.iters)})"
    for word, regions in (("reads", s.reads), ("writes", s.writes)):
        if regions:
            yield f"{pad}    {word} {', '.join(_region(r) for r in regions)}"
    yield pad + "{"
    if s.init is not None:
        yield from _braces("init", s.init, pad + "  ")
    yield from _items(s.body, pad + "  ")
    yield pad + "}"


def _iter(i: st.Iter) -> str:
    return f"{print_name(i.var.name)} {i.kind} {_range(i.lo, i.hi)} = {_expr(i.binding)[0]}"


def _region(r: st.Region) -> str:
    """``A[i, 0 +: 16]``: one element along the first dimension, sixteen along the second."""
    one = ex.Const(1, dt.index)
    sides = [_expr(a)[0] + ("" if n == one else f" +: {_expr(n)[0]}") for a, n in zip(r.starts, r.extents)]
    return f"{print_name(r.buffer.name)}[{', '.join(sides)}]"


def _atomic(s: st.Atomic) -> str:
    result = "" if s.result is None else f"{print_name(s.result.name)} = "
    expected = "" if s.expected is None else f" if {_expr(s.expected)[0]}"
    return f"{result}atomic {_element(s.buffer, s.indices)} {s.op}= {_expr(s.value)[0]}{expected}"


def _assert(s: st.Assert) -> str:
    values = "".join(f", {_expr(v)[0]}" for v in s.values)
    return f"assert {_expr(s.condition)[0]}, {json.dumps(s.message)}{values}"


_SIMPLE: dict[type, Callable[[Any], str]] = {
    st.Store: lambda s: f"{_element(s.buffer, s.indices)} = {_expr(s.value)[0]}",
    st.Assign: lambda s: f"{print_name(s.var.name)} = {_expr(s.value)[0]}",
    st.Atomic: _atomic,
    st.Barrier: lambda s: f"barrier({s.scope})",
    st.Return: lambda s: "return",
    st.Break: lambda s: "break",
    st.Continue: lambda s: "continue",
    st.Evaluate: lambda s: f"call {_call(s.call)[0]}",
    st.Assert: _assert,
}


def _kernel(kernel: st.Kernel) -> Iterator[str]:
    params = []
    for p in kernel.params:
        text = print_buffer(p) if isinstance(p, Buffer) else f"{print_name(p.name)}: {p.type}"
        params.append(("out " if p.name in kernel.outputs else "") + text)
    yield from _braces(f"kernel {print_name(kernel.name)}({', '.join(params)})", kernel.body, "")
