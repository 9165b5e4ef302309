"""``write_out``: each iteration of a short loop as a statement of its own, which further steps may then change apart.

::

    for r in 0:2                            for h, p: S[2 * h] += X[h - p] * V[2 * p]
      for h, p                        =>
        S[2 * h + r] += ...                 for h_1, p_1: S[2 * h_1 + 1] += ...

It is as full unrolling, done in the program: blocks that ran along the loop have an iterator less. Of a sum along the
loop the first block starts the results, the others go on with them.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.interval import Interval
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, Kernel, Stmt
from weft.ir.visit import rebuild, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import blocks_inside, find_loop, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, check_valid, first_no, trip_count
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.stride_sum import iterator_ranges
from weft.schedules.trace import Numerics

#: Iterations that are written out, at most.
MOST = 16


def check_write_out(kernel: Kernel, loop: str, *, numerics: Numerics) -> Verdict:
    """Iterations stay in order; there must be few of them, and their number known."""
    old = find_loop(kernel, loop)
    count = trip_count(old, ranges_at(kernel, old))
    if old.kind != "serial":
        return refuse(f"`{loop}` is a {old.kind} loop; iterations of others are not statements one after another")
    if count is None or not 0 < count <= MOST or old.lo != idx(0):
        return refuse(f"`{loop}` does not run from 0 up to a number that is at most {MOST}")
    wrong = first_no([check_runs_through(old), check_no_barrier(old, "writing it out")])
    return check_valid(write_out(kernel, loop).kernel) if wrong.ok else wrong


@primitive(check_write_out, "cannot write out loop `{0}`")
def write_out(kernel: Kernel, loop: str) -> Rewrite:
    """Makes the blocks of each iteration; those of the first keep their names."""
    old, taken = find_loop(kernel, loop), taken_names(kernel)
    ranges = ranges_at(kernel, old)
    made = list[Stmt]()
    for n in range(trip_count(old, ranges) or 0):
        copy = fresh_copy(old, taken) if n else old
        body = _at(copy.body, copy.var, idx(n))
        made.append(simplify_bounds(body, ranges))
    names = tuple(b.name for s in made for b in blocks_inside(s))
    done = replace_stmt(kernel, old, sequence(made))
    return Rewrite(done, names, {loop: "was written out"})


def _at(s: Stmt, loop: Var, value: Const) -> Stmt:
    """``s`` for one value of ``loop``; iterators that are that loop are gone."""
    if isinstance(s, Block):
        return _block_at(s, loop, value)
    whole: dict[Var, Expr] = {loop: value}
    if isinstance(s, For):
        s = replace(s, lo=substitute(s.lo, whole), hi=substitute(s.hi, whole))
    return rebuild(s, lambda n: _at(n, loop, value) if isinstance(n, Stmt) else substitute(n, whole))


def _block_at(block: Block, loop: Var, value: Const) -> Block:
    gone = [i for i in block.iters if i.binding == loop and (i.kind == "spatial" or isinstance(i.lo, Const))]
    values: dict[Var, Expr] = {i.var: value for i in gone}
    iters = [replace(i, binding=substitute(i.binding, {loop: value})) for i in block.iters if i not in gone]
    ranges: dict[str, Interval] = iterator_ranges(replace(block, iters=tuple(iters)))
    # A reduction starts where it has its first value along each of its loops.
    starts = all(i.lo == value for i in gone if i.kind == "reduce")
    parts = (block.init if starts else None, block.body)
    init, body = (None if s is None else simplify(substitute(s, values), ranges) for s in parts)
    assert body is not None
    return declared_anew(replace(block, iters=tuple(iters), init=init, body=body))
