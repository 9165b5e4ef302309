"""Copies by the copy engine in place of copies by threads, where a loop fills rings ahead for warp groups to multiply.

    for k ahead 3 of R {                               for k {
      thread t { unroll u { R[k % 4, ..] = A[..] } }     bulk_copy { for i, j { R[k % 4, i, j] = A[..] } }
      thread t { products of R[k % 4] }                  thread t { products of R[k % 4] }
    }                                                  }

The engine copies boxes on its own (`read_boxes`); who waits for what comes later (`persist_blocks`, `emit_roles`). All
rings of the loop have to be such boxes, those that threads read themselves too: otherwise threads copy, as written.
What is multiplied in all iterations is fetched by the engine before the loop, if it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir.ahead import loops_ahead, split_ahead
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var, idx
from weft.ir.hardware import BULK_COPY, Hardware
from weft.ir.nesting import around, find_path, flat, replace_in, sequence, statements_in, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Seq, Stmt, Store, Tensorized
from weft.ir.visit import free_vars, fresh_name, loads, map_statements, mentions, stores, substitute, used_names, walk
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.target.cuda.intrinsics import WGMMA
from weft.target.cuda.read_boxes import ALIGN, read_box
from weft.target.cuda.swizzle import find_swizzled, has_rows


def select_copies(
    kernel: Kernel,
    *,
    aligned: Mapping[str, int] | None,
    missing_for: Callable[[Hardware], Sequence[str]],
    has_registers: Callable[[int, int], bool],
) -> Kernel:
    """``kernel`` with bulk copies; ``aligned`` are bytes that addresses are multiples of, None without an engine.

    A block's threads have orders given by one more, if it ``has_registers``: by words that a thread keeps, and threads.
    """
    known = [h.name for h in WGMMA if not missing_for(h)]
    if aligned is None or not known:
        return kernel
    fixed = {b.name for b in kernel.buffers if aligned.get(b.name, 1) < ALIGN}
    taken = used_names(kernel)

    def in_launch(launch: For) -> Stmt:
        found = loops_ahead(launch)
        if len(found) != 1 or not _is_counted(launch, found[0]) or not has_registers(*_kept(found[0])):
            return launch
        unfit = mentions(launch).allocated | fixed
        made = _filled(found[0], unfit, known, taken)
        return launch if made is None else _with_tiles(replace_in(launch, found[0], made), made, unfit, known, taken)

    def visit(s: Stmt) -> Stmt:
        return in_launch(s) if isinstance(s, For) and s.kind == "block" else map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


def _is_counted(launch: For, loop: For) -> bool:
    """Whether blocks and loops down to ``loop`` run numbers of times from 0 on, so that turns can be counted.

    How often ``loop`` itself runs may depend on the block, and on what was stored for it before, if there are no others
    in between.
    """
    path = find_path(launch, loop) or []
    plain = all(isinstance(s, (Seq, Alloc, For)) for s in path)
    loops = [s for s in path if isinstance(s, For)]
    blocks = {x.var.name for x in loops if x.kind == "block"}
    bounded = {*free_vars(loop.lo), *free_vars(loop.hi)} <= blocks and len(loops) == len(blocks) + 1
    read = {n.buffer.name for e in (loop.lo, loop.hi) for n in loads(e)}
    counted = loops[:-1] if bounded and not read & mentions(launch).stored else loops
    return plain and all(x.kind in ("block", "serial") and x.lo == idx(0) and constant_extent(x) for x in counted)


def _kept(loop: For) -> tuple[int, int]:
    """Words of the sums of a thread, the most of any product, and how many threads there are."""
    found = [_sums_of(loop, n) for n in statements_in(loop.body, Tensorized)]
    return max(found, default=(0, 1))


def _sums_of(loop: For, product: Tensorized) -> tuple[int, int]:
    around_it = [x for x in find_path(loop, product) or () if isinstance(x, For) and x.kind == "thread"]
    words = 1
    for block in (n for n in statements_in(product, Block) if isinstance(n.body, Store)):
        values = {i.var: i.binding for i in block.iters}
        used = {name for i in stores(block)[0].indices for name in free_vars(substitute(i, values))}
        inner = [n for n in statements_in(product, For) if n.var.name in used]
        words = prod(constant_extent(x) or 0 for x in inner)
    return words, prod(constant_extent(x) or 0 for x in around_it)


def _has_turns(loop: For, rings: frozenset[str]) -> bool:
    """Whether each iteration is a turn of every ring, one after another, and rings have as many of them."""
    turns = set()
    for block in statements_in(loop.body, Block):
        values = {i.var: i.binding for i in block.iters}
        accesses = [*loads(block.body), *stores(block.body)]
        turns |= {
            (a.buffer.shape[0], simplify(substitute(a.indices[0], values))) for a in accesses if a.buffer.name in rings
        }
    several = constant_extent(loop) != 1  # a loop that runs once is none any more when turns are counted
    return (
        several
        and len(turns) == 1
        and all(turn in (simplify(loop.var % depth), simplify((loop.var - loop.lo) % depth)) for depth, turn in turns)
    )


def _filled(loop: For, unfit: frozenset[str], known: Sequence[str], taken: set[str]) -> For | None:
    """``loop`` with its rings filled by the engine, which cannot read ``unfit`` arrays; None where that is not so."""
    assert loop.ahead is not None
    rings = frozenset(loop.ahead.rings)
    fills, rest = split_ahead(loop.body, rings)
    products = [n for n in statements_in(rest, Tensorized) if n.intrinsic in known]
    matrices = rings & find_swizzled(rest, known)
    multiplied = sum(n.buffer.name in matrices for p in products for n in loads(p))
    used = sum(n.buffer.name in matrices for n in loads(rest))
    others = {n.buffer for n in stores(fills) if n.buffer.name not in matrices}  # threads read these
    if not matrices or multiplied != used or not all(map(has_rows, others)) or not _has_turns(loop, rings):
        return None
    copies, around = [], {loop.var.name: loop_range(loop, {})}
    for fill in flat(fills):
        nest = _as_box(fill, taken)
        box = None if nest is None else read_box(nest, around)
        if nest is None or box is None or box.load.buffer.name in unfit:
            return None
        copies.append(Tensorized(BULK_COPY, nest))
    return replace(loop, body=sequence([*copies, rest]), ahead=None)


def _with_tiles(launch: Stmt, loop: For, unfit: frozenset[str], known: Sequence[str], taken: set[str]) -> Stmt:
    """``launch`` with what ``loop`` multiplies in all iterations fetched by the engine, too, once for a tile."""
    path = find_path(launch, loop) or []
    products = [n for n in statements_in(loop, Tensorized) if n.intrinsic in known]
    multiplied = [n.buffer.name for p in products for n in loads(p)]
    fit = {b for b in find_swizzled(loop, known) if multiplied.count(b) == _count(b, loads(launch))}
    blocks = {x.var.name: loop_range(x, {}) for x in path if isinstance(x, For) and x.kind == "block"}

    def fetched(s: Stmt) -> Stmt:
        filled = [n.buffer for n in stores(s)]
        nest = _as_box(s, taken) if len(filled) == 1 and filled[0].name in fit else None
        box = None if nest is None else read_box(nest, blocks)
        if nest is None or box is None or box.load.buffer.name in unfit or filled[0].shape[0] != idx(1):
            return s
        return Tensorized(BULK_COPY, nest)

    def visit(s: Stmt) -> Stmt:
        if s is loop:
            return s
        return map_statements(s, visit) if any(s is n for n in path) else fetched(s)

    is_once = all(x.kind == "block" for x in path if isinstance(x, For) and x is not loop)
    return visit(launch) if is_once else launch


def _count(buffer: str, accesses: Sequence[Load]) -> int:
    return sum(n.buffer.name == buffer for n in accesses)


def _as_box(fill: Stmt, taken: set[str]) -> Stmt | None:
    """The copies of all threads as one nest of loops through what they fill; None where they do not fill all of it."""
    loops: list[For] = []
    tests: list[Expr] = []
    s = strip(fill)
    while isinstance(s, For) or (isinstance(s, If) and s.otherwise is None):
        if isinstance(s, For):
            loops.append(s)
        else:
            tests.append(s.condition)
        s = strip(s.body if isinstance(s, For) else s.then)
    if not isinstance(s, Block) or s.init is not None or not isinstance(s.body, Store):
        return None
    inside = {x.var.name for x in loops}
    own = [i for i in s.iters if inside & free_vars(i.binding).keys()]
    if not _is_one_to_one(loops, tests, own):
        return None
    fixed: dict[Var, Expr] = {i.var: i.binding for i in s.iters if i not in own}
    through = [For(Var(fresh_name(i.var.name, taken)), i.lo, i.hi, "serial", s.body) for i in own]
    fixed |= {i.var: x.var for i, x in zip(own, through)}
    return around(through, substitute(s.body, fixed))


def _is_one_to_one(loops: Sequence[For], tests: Sequence[Expr], own: Sequence[Iter]) -> bool:
    """Whether the iterations of ``loops`` in which all ``tests`` hold are those of the iterators, each once."""
    counts = [constant_extent(x) for x in loops]
    sizes = [int(i.hi.value) for i in own if isinstance(i.hi, Const) and i.lo == idx(0)]
    inside = {x.var.name for x in loops}
    asked = (*tests, *(i.binding for i in own))
    known = all(inside >= free_vars(e).keys() and all(map(_is_arithmetic, walk(e))) for e in asked)
    if not known or None in counts or len(sizes) < len(own) or any(x.lo != idx(0) for x in loops):
        return False
    shape = [n or 0 for n in counts]
    values = dict(zip((x.var.name for x in loops), np.indices(shape, np.int64, sparse=True)))
    runs, *places = (np.broadcast_to(_evaluated(e, values), shape) for e in (_all(tests), *(i.binding for i in own)))
    places = [p[runs] for p in places]
    if places[0].size != prod(sizes) or any((p < 0).any() or (p >= n).any() for p, n in zip(places, sizes)):
        return False
    seen = np.zeros(prod(sizes), np.bool_)
    seen[np.ravel_multi_index(places, sizes)] = True
    return bool(seen.all())


def _evaluated(e: Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """``e``, made of `_ARITHMETIC`, for all iterations at once."""
    if isinstance(e, (Binary, Compare)):
        return np.asarray(_ARITHMETIC[e.op](_evaluated(e.left, values), _evaluated(e.right, values)))
    return values[e.name] if isinstance(e, Var) else np.asarray(e.value)  # type: ignore[attr-defined]


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder,
    "<": np.less, "&&": np.logical_and,
}  # fmt: skip


def _all(tests: Sequence[Expr]) -> Expr:
    found: Expr = Const(True, dt.bool_)
    for test in tests:
        found = Binary("&&", found, test)
    return found


def _is_arithmetic(n: Any) -> bool:
    return isinstance(n, (Var, Const)) or (isinstance(n, (Binary, Compare)) and n.op in _ARITHMETIC)
