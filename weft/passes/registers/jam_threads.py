"""Several rows of threads at once, where they load the same: unroll-and-jam.

    thread ty in 0:16 { vector tx in 0:16 { sum = 0; for k in 0:16 { sum = sum + A[ty, k] * B[k, tx] } ... } }

Four rows of threads add to four sums for one load of ``B[k, tx]``. Threads that no barrier orders may run in any order,
also statement by statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.ir.expr import Binary, Load, idx
from weft.ir.nesting import sequence, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, Alloc, Assert, Assign, Atomic, Evaluate, For, If, Kernel, Let, Seq, Stmt, While
from weft.ir.visit import count_nodes, free_vars, loads, map_statements, substitute, used_names, walk
from weft.passes.analysis.check_vector import infer_varying
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.name_apart import name_apart

#: Rows at once, sums in vector registers at once, and nodes of a body that may be written out so often.
ROWS, REGISTERS, LONGEST = (4, 2), 8, 200
_REFUSED = (*JUMPS, Alloc, Assert, Atomic, Evaluate, While)


def jam_threads(kernel: Kernel, *, vector_bits: int) -> Kernel:
    """``kernel`` with sums of several rows of threads in one loop."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        rows = _rows(s, vector_bits) if isinstance(s, For) and s.kind == "thread" else None
        if rows is None or not isinstance(s, For):
            return map_statements(s, visit)
        return _jammed_loop(s, rows, taken)

    return replace(kernel, body=visit(kernel.body))


def _rows(loop: For, vector_bits: int) -> int | None:
    """How many iterations of ``loop`` to run at once; None for one after another."""
    vector = _vector_inside(loop)
    if vector is None or count_nodes(loop.body) > LONGEST or any(isinstance(n, _REFUSED) for n in walk(loop.body)):
        return None
    sums = list(_shared_sums(loop, vector))
    lanes, extent = constant_extent(vector), constant_extent(loop)
    if not sums or lanes is None or extent is None:
        return None
    registers = sum(-(-lanes * s.var.dtype.bits // vector_bits) for s in sums)
    fitting = (r for r in ROWS if extent % r == 0 and r * registers <= REGISTERS)
    return next(fitting, None)


def _vector_inside(loop: For) -> For | None:
    """The vector loop that, strips aside, is all that ``loop`` does."""
    inner = strip(loop.body)
    while isinstance(inner, For) and inner.kind == "serial":
        inner = strip(inner.body)
    return inner if isinstance(inner, For) and inner.kind == "vector" else None


def _shared_sums(loop: For, vector: For) -> Iterator[Assign]:
    """Sums in loops for which vectors are loaded that do not depend on the variable of ``loop``."""
    rows, lanes = infer_varying(loop), infer_varying(vector)
    updates = (n for inner in walk(vector.body) if isinstance(inner, For) for n in walk(inner.body))
    for n in updates:
        if isinstance(n, Assign) and n.var in free_vars(n.value).values():
            vectors = (e for e in loads(n.value) if _names(e) & lanes)
            if any(not _names(e) & rows for e in vectors):
                yield n


def _names(load: Load) -> set[str]:
    return {name for i in load.indices for name in free_vars(i)}


def _jammed_loop(loop: For, rows: int, taken: set[str]) -> For:
    copies, seen = [], set[str]()
    for n in range(rows):
        at = simplify(Binary("+", Binary("*", loop.var, idx(rows)), Binary("+", loop.lo, idx(n))))
        copies.append(name_apart(substitute(loop.body, {loop.var: at}), seen, taken, (Let,)))
    extent = constant_extent(loop)
    assert extent is not None
    return replace(loop, lo=idx(0), hi=idx(extent // rows), body=_jam(copies))


def _jam(copies: Sequence[Stmt]) -> Stmt:
    """``copies`` of one statement as one: loops and branches that all of them take alike are taken once."""
    copies = [strip(c) for c in copies]
    first = copies[0]
    match first:
        case Seq():
            parts = zip(*(c.body for c in copies if isinstance(c, Seq)), strict=True)
            return sequence([_jam(part) for part in parts])
        case For() if all(isinstance(c, For) and (c.lo, c.hi) == (first.lo, first.hi) for c in copies):
            return replace(first, body=_jam([c.body for c in copies if isinstance(c, For)]))
        case If() if all(isinstance(c, If) and c.condition == first.condition for c in copies):
            otherwise = [c.otherwise for c in copies if isinstance(c, If) and c.otherwise is not None]
            then = _jam([c.then for c in copies if isinstance(c, If)])
            return replace(first, then=then, otherwise=_jam(otherwise) if otherwise else None)
        case Let():
            return _jam_lets([c for c in copies if isinstance(c, Let)])
    return sequence(copies)


def _jam_lets(copies: Sequence[Let]) -> Stmt:
    """The variables of all copies around their bodies."""
    made = _jam([c.body for c in copies])
    for let in reversed(copies):
        made = replace(let, body=made)
    return made
