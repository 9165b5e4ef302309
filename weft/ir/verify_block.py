"""What `verify` checks of blocks: their iterators, what they declare to touch, and that they use nothing else."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from weft.ir import dtype as dt
from weft.ir.stmt import Block, Region
from weft.ir.verify_scope import CONCURRENT, found_in_order
from weft.ir.visit import mentions

if TYPE_CHECKING:
    from weft.ir.verify import Verifier


def check_block(checker: Verifier, s: Block) -> None:
    outer, hidden, loops, lets = checker.scope, checker.hidden, checker.loops, checker.lets
    if checker.names:
        _check_iterators(checker, s)
    # A break must not leave the block; which concurrent loops it runs in still matters inside.
    checker.loops = tuple(k for k in loops if k in CONCURRENT)
    if checker.names:
        _enter_block(checker, s)
    for stmt in (s.init, s.body):
        if stmt is not None:
            checker.check(stmt)
    checker.scope, checker.hidden, checker.loops, checker.lets = outer, hidden, loops, lets


def _check_iterators(checker: Verifier, s: Block) -> None:
    for i in s.iters:
        checker.check_exprs(i.lo, i.hi, i.binding)
        for what, e in (("variable", i.var), ("range", i.lo), ("range", i.hi), ("binding", i.binding)):
            if e.dtype != dt.index:
                checker.problem(f"the {what} of iterator `{i.var.name}` is {e.dtype}; iterators are int64")


def _enter_block(checker: Verifier, s: Block) -> None:
    """Checks what the block declares, and goes to the scope inside it."""
    around = [name for name, known in checker.scope.vars.items() if known.role != "parameter"]
    if not checker.anew and not mentions(s).bound.isdisjoint(around):
        checker.problem("a name in the block is bound again")
    checker.hidden = checker.hidden.union(around)
    checker.scope, outer = checker.scope.block, checker.scope
    checker.check_new_names([i.var.name for i in s.iters], "iterator")
    checker.scope = outer.for_iterators([i.var for i in s.iters])
    known, declared = found_in_order(s.body), (checker.scope, s.init, s.reads, s.writes)
    if checker.anew or len(known.block) != 4 or not all(map(operator.is_, known.block, declared)):
        before = len(checker.problems)
        _check_regions(checker, s)
        known.block = declared if len(checker.problems) == before else ()


def _check_regions(checker: Verifier, s: Block) -> None:
    for r in (*s.reads, *s.writes):
        _check_region(checker, r)
    own, read, written = _touched(s)
    for verb, used, regions in (("reads", read, s.reads), ("writes", written, s.writes)):
        declared = {r.buffer.name for r in regions}
        # What a block writes it may read back without saying so: an update is one access.
        if verb == "reads":
            declared |= {r.buffer.name for r in s.writes}
        for name in sorted(used - declared - own):
            checker.problem(f"block `{s.name}` {verb} `{name}` but does not declare it")


def _check_region(checker: Verifier, r: Region) -> None:
    checker.check_declared(r.buffer, None)
    if not len(r.starts) == len(r.extents) == r.buffer.rank:
        checker.problem(f"a region of `{r.buffer.name}` does not have {r.buffer.rank} dimensions")
    checker.check_exprs(*r.starts, *r.extents)
    for e in (*r.starts, *r.extents):
        if e.dtype != dt.index:
            checker.problem(f"a region of `{r.buffer.name}` has a bound of type {e.dtype}; bounds are int64")


def _touched(s: Block) -> tuple[set[str], set[str], set[str]]:
    """The names of the buffers that ``s`` makes, reads and writes."""
    parts = [mentions(stmt) for stmt in (s.init, s.body) if stmt is not None]
    return (
        {name for p in parts for name in p.allocated},
        {name for p in parts for name in p.loaded},
        {name for p in parts for name in p.stored},
    )
