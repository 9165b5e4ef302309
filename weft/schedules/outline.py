"""The loop nest at a glance: loops and blocks, one line each."""

from __future__ import annotations

from weft.ir.nesting import inner_statements
from weft.ir.printer import print_expr
from weft.ir.stmt import Alloc, Block, For, If, Kernel, Let, Seq, Stmt, Tensorized, While
from weft.ir.visit import stores


def outline(kernel: Kernel) -> str:
    """``kernel`` with one line for each loop, guard, allocation and block."""
    return "\n".join([f"kernel {kernel.name}", *_lines(kernel.body, 1)])


def _lines(s: Stmt, depth: int) -> list[str]:
    indent = "  " * depth
    head = _head(s)
    inside = depth + 1 if isinstance(s, (For, If, Tensorized, While)) else depth
    below: list[str] = []
    if not isinstance(s, Block):
        for inner in inner_statements(s):
            if isinstance(s, If) and inner is s.otherwise:
                below.append(f"{indent}else")
            below += _lines(inner, inside)
    return below if head is None else [indent + head, *below]


def _head(s: Stmt) -> str | None:
    match s:
        case Seq():
            return None
        case For():
            kind = "" if s.kind == "serial" else f" {s.kind}"
            return f"for {s.var.name} in {print_expr(s.lo)}:{print_expr(s.hi)}{kind}"
        case If():
            return f"if {print_expr(s.condition)}"
        case Tensorized():
            return f"tensorized {s.intrinsic}"
        case While():
            return f"while {print_expr(s.condition)}"
        case Let():
            return f"let {s.var.name} = {print_expr(s.value)}"
        case Alloc():
            shape = ", ".join(map(print_expr, s.buffer.shape))
            scope = "" if s.buffer.scope == "global" else f" {s.buffer.scope}"
            return f"alloc {s.buffer.name}: {s.buffer.dtype}[{shape}]{scope}"
        case Block():
            return _block(s)
    written = ", ".join(dict.fromkeys(w.buffer.name for w in stores(s)))
    return f"{type(s).__name__.lower()}{' ' + written if written else ''}"


def _block(s: Block) -> str:
    bindings = ", ".join(f"{i.var.name}={print_expr(i.binding)}" for i in s.iters)
    init = " init" if s.init is not None else ""
    writes = ", ".join(f"{r.buffer.name}[{', '.join(map(print_expr, r.starts))}]" for r in s.writes)
    return f"block {s.name}({bindings}){init} writes {writes}"
