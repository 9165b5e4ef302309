"""Forms of a program, by name: what a pass can rely on once another has given it.

A form is a question that can be asked of any program, so tests ask after each pass. The answer is None where the
program has the form, else what stands against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.ir.expr import Const, Expr, Reduce
from weft.ir.nesting import has_loop, inner_statements, strip
from weft.ir.printer import print_stmt
from weft.ir.stmt import Alloc, Barrier, Block, For, Kernel, Let, Stmt, Tensorized
from weft.ir.visit import walk

Answer = str | None


def no_blocks(kernel: Kernel) -> Answer:
    """Statements alone: the blocks that schedules move are gone, their initializations in place."""
    return next((f"block `{n.name}`" for n in walk(kernel) if isinstance(n, Block)), None)


def no_reductions(kernel: Kernel) -> Answer:
    """Every sum, minimum or the like is a loop, none an expression."""
    return "a reduction in an expression" if any(isinstance(n, Reduce) for n in walk(kernel)) else None


def no_tensorized_nests(kernel: Kernel) -> Answer:
    """Hardware intrinsics are called, or the loops that they mean are there instead."""
    return next((f"a nest tensorized as `{n.intrinsic}`" for n in walk(kernel) if isinstance(n, Tensorized)), None)


def no_barriers(kernel: Kernel) -> Answer:
    """Fork-join form: each loop over threads ends before the next begins, and nothing waits inside."""
    return next((f"a {n.scope} barrier" for n in walk(kernel) if isinstance(n, Barrier)), None)


def no_vectors(kernel: Kernel) -> Answer:
    """Every expression is a single value; lanes are loops."""
    wide = (n for n in walk(kernel) if isinstance(n, Expr) and n.dtype.lanes > 1)
    return next((f"an expression of {n.dtype.lanes} lanes" for n in wide), None)


def strip_mined(kernel: Kernel) -> Answer:
    """Every vector loop is a vector: from 0 to a power of two."""
    return next(
        (_head(n) for n in walk(kernel) if isinstance(n, For) and n.kind == "vector" and not _is_vector(n)), None
    )


def _is_vector(loop: For) -> bool:
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const) or loop.lo.value != 0:
        return False
    lanes = int(loop.hi.value)
    return lanes > 1 and lanes & (lanes - 1) == 0


def grid_form(kernel: Kernel) -> Answer:
    """What CUDA is: in each launch one nest of blocks, in it one nest of threads, and in that no more of either."""
    return next(_outside_grids(kernel.body), None)


def _outside_grids(s: Stmt) -> Iterator[str]:
    if isinstance(s, For):
        yield from _in_launch(s)
    for inner in () if isinstance(s, For) else inner_statements(s):
        yield from _outside_grids(inner)


def _in_launch(s: Stmt) -> Iterator[str]:
    while isinstance(s, For) and s.kind == "block":
        s = strip(s.body)
    while isinstance(s, (Alloc, Let)):
        s = strip(s.body)
    while isinstance(s, For) and s.kind == "thread":
        s = strip(s.body)
    for kind in ("block", "thread", "parallel"):
        if has_loop(s, kind):
            yield f"a {kind} loop inside what a thread runs: {_head(s)}"


def _head(s: Stmt) -> str:
    return print_stmt(s).splitlines()[0].strip()


FORMS: dict[str, Callable[[Kernel], Answer]] = {
    form.__name__.replace("_", " "): form
    for form in (no_blocks, no_reductions, no_tensorized_nests, no_barriers, no_vectors, strip_mined, grid_form)
}
