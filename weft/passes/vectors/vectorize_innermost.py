"""Default vectorization of loops that nobody gave vectors.

Of each loop nest the loop is taken whose iterations are independent and cheapest as lanes:
stores and loads next to each other in memory, or the same for all lanes. It need not be the
innermost one: a reduction inside stays serial, in order, its accumulators vectors. A reduction
whose order does not matter (of integers, a minimum, a maximum) may itself be spread over lanes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, cast

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Call, Cast, Const, Expr, Load, Ramp, Select
from weft.ir.intrinsics import HINTS, INTRINSICS
from weft.ir.offsets import joined_offset
from weft.ir.stmt import Atomic, Evaluate, For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import children, used_names, walk
from weft.passes.analysis.check_vector import check_independent, check_vector, infer_step, infer_varying, is_varying
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.vectors.reduce_in_lanes import find_reduction, reduce_in_lanes
from weft.passes.vectors.strip_vector_loops import ChooseLanes, strip_loop

#: Iterations assumed for a loop whose extent is not known.
TYPICAL_EXTENT = 64
#: Cost of one element of a gather or scatter, and of one integer division, in simple instructions.
GATHER, SCATTER, DIVISION = 1.5, 3.0, 10.0
#: The same of threads' code, where little else is done between gathers: a gather is some five instructions a lane.
THREADS_GATHER = 4.0
#: Up to this many elements between lanes, a load takes whole vectors and picks from them.
SHORT_STEP = 4
#: Cost of combining the lanes of an accumulator.
FOLD = 16.0
#: Cost of an update in one step, what a lane of it costs more (to be taken out of a vector), and its branch in a test.
ATOMIC, ATOMIC_LANE, ATOMIC_BRANCH = 3.0, 4.0, 4.0


@dataclass(frozen=True, slots=True)
class _Vectorizer:
    """What decides: the machine's lanes for 32-bit elements, lanes for a loop, and what the numbers allow."""

    lanes: int
    choose_lanes: ChooseLanes
    has_masks: bool
    reassociate: bool


def vectorize_innermost(
    kernel: Kernel, *, choose_lanes: ChooseLanes, vector_bits: int, has_masks: bool, fast: bool = False
) -> Kernel:
    """One loop of each nest as vectors where that pays.

    ``fast`` lets float sums and products run in another order; integers, minima and maxima always may.
    """
    vectorizer = _Vectorizer(vector_bits // 32, choose_lanes, has_masks, reassociate=fast)
    return replace(kernel, body=_vectorize(kernel.body, vectorizer, used_names(kernel))[0])


@dataclass(frozen=True, slots=True)
class _Lane:
    """The vector loop under consideration: its variable, everything that varies with it, its lanes."""

    var: str
    varying: frozenset[str]
    lanes: int
    gather: float = GATHER


def _vectorize(s: Stmt, by: _Vectorizer, taken: set[str]) -> tuple[Stmt, float]:
    """The best form of ``s`` and its estimated cost."""
    if isinstance(s, For):
        return _vectorize_loop(s, by, taken)
    bodies = {name: getattr(s, name) for name in ("body", "then", "otherwise") if hasattr(s, name)}
    if isinstance(s, Seq):
        parts = [_vectorize(c, by, taken) for c in s.body]
        return _with(s, {"body": tuple(p for p, _ in parts)}), sum(cost for _, cost in parts)
    done = {name: _vectorize(b, by, taken) for name, b in bodies.items() if isinstance(b, Stmt)}
    if not done:
        return s, _cost(s, None)
    own = sum(_cost(c, None) for c in children(s) if isinstance(c, Expr))
    return _with(s, {name: b for name, (b, _) in done.items()}), own + sum(cost for _, cost in done.values())


def _with(s: Stmt, parts: dict[str, Any]) -> Stmt:
    """``s`` with some of its ``parts`` replaced, the same object where all are what they were."""
    kept = all(_is_same(getattr(s, name), part) for name, part in parts.items())
    return s if kept else replace(cast(Any, s), **parts)


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (isinstance(old, tuple) and all(map(operator.is_, old, new)))


def _vectorize_loop(loop: For, by: _Vectorizer, taken: set[str]) -> tuple[Stmt, float]:
    """The cheapest of: vectors inside, iterations as lanes, iterations combined in lanes."""
    if loop.kind == "vector":
        return loop, _extent(loop) / by.lanes * _cost(loop.body, None)
    body, inside = _vectorize(loop.body, by, taken)
    cost = _extent(loop) * inside
    if loop.kind not in ("serial", "unroll", "thread") or _extent(loop) <= 1 or _is_decided(loop):
        return _with(loop, {"body": body}), cost
    as_lanes = _cost_as_lanes(loop, by.lanes) if loop.kind in ("serial", "thread") else None
    reduction = find_reduction(loop, reassociate=by.reassociate)
    combined = None if reduction is None else _cost_of_reduction(loop, reduction, by.lanes)
    best = min(c for c in (cost, as_lanes, combined) if c is not None)
    lanes = by.choose_lanes(loop, False) if best < cost else 1
    if lanes > 1 and best == as_lanes:
        return strip_loop(loop, lanes, taken, by.has_masks), best
    if lanes > 1 and best == combined and reduction is not None:
        return reduce_in_lanes(loop, reduction, lanes, taken, has_masks=by.has_masks), best
    return _with(loop, {"body": body}), cost


def _is_decided(loop: For) -> bool:
    """Whether somebody chose the vectors, or the instruction, inside."""
    return any(
        isinstance(n, Ramp)
        or (isinstance(n, Evaluate) and n.call.name not in HINTS)
        or (isinstance(n, For) and n.kind == "vector")
        for n in walk(loop.body)
    )


def _cost_of_reduction(loop: For, reduction: Store, lanes: int) -> float:
    """Whole vectors, then the lanes folded."""
    lane = _Lane(loop.var.name, frozenset({loop.var.name}), lanes)
    return _extent(loop) / lanes * (_cost(reduction.value, lane) + 1) + FOLD


def _cost_as_lanes(loop: For, lanes: int) -> float | None:
    """The cost with the iterations of ``loop`` as lanes, or None where they cannot be."""
    if (loop.kind != "thread" and check_independent(loop) is not None) or check_vector(loop) is not None:
        return None
    lane = _Lane(loop.var.name, infer_varying(loop), lanes, THREADS_GATHER if loop.kind == "thread" else GATHER)
    return max(1.0, _extent(loop) / lanes) * _cost(loop.body, lane)


def _extent(loop: For) -> float:
    extent = constant_extent(loop)
    return TYPICAL_EXTENT if extent is None else extent


def _cost(node: Stmt | Expr, lane: _Lane | None) -> float:
    """Simple instructions for one run of ``node``, for all lanes at once where there are any."""
    if isinstance(node, Load):
        joined = joined_offset(node.buffer, node.indices)
        index_cost = 0.25 * sum(_cost(i, lane) for i in (node.indices if joined is None else (joined,)))
        return _load_cost(node, lane) + index_cost
    if isinstance(node, Store):
        return _access(node.buffer, node.indices, lane, SCATTER) + _cost(node.value, lane)
    below = sum(_cost(c, lane) for c in children(node) if isinstance(c, (Stmt, Expr)))
    match node:
        case Atomic():
            return below + _update_cost(node, lane)
        case For():
            ragged = lane is not None and (is_varying(node.lo, lane.varying) or is_varying(node.hi, lane.varying))
            return _extent(node) * below * (1.5 if ragged else 1) + 1
        case Call():
            intrinsic = INTRINSICS.get(node.name)
            return below + (1 if intrinsic is None else intrinsic.flops)
        case Binary() if node.op in ("//", "%", "tdiv", "tmod"):
            by = int(node.right.value) if isinstance(node.right, Const) else 0
            divides = by <= 0 or by & (by - 1) != 0
            return below + (DIVISION * (lane.lanes if lane and is_varying(node, lane.varying) else 1) if divides else 1)
        case If() if lane is not None and is_varying(node.condition, lane.varying):
            updates = sum(isinstance(n, Atomic) for n in walk(node))
            return below + 1 + updates * lane.lanes * ATOMIC_BRANCH
        case Binary() | Cast() | Select() | If():
            return below + 1
    return below


def _update_cost(node: Atomic, lane: _Lane | None) -> float:
    if lane is None:
        return ATOMIC
    step = infer_step(node.buffer, node.indices, lane.var, lane.varying)
    together = step == 0 and node.result is None
    return FOLD if together else (ATOMIC + ATOMIC_LANE) * lane.lanes


def _load_cost(load: Load, lane: _Lane | None) -> float:
    if lane is None:
        return 1.0
    step = infer_step(load.buffer, load.indices, lane.var, lane.varying)
    if step is not None and 1 < step <= SHORT_STEP:
        return 2.0 * step
    return _access(load.buffer, load.indices, lane, lane.gather)


def _access(buffer: Buffer, indices: tuple[Expr, ...], lane: _Lane | None, scattered: float) -> float:
    if lane is None:
        return 1.0
    step = infer_step(buffer, indices, lane.var, lane.varying)
    return 1.0 if step in (0, 1) else 2.0 if step == -1 else scattered * lane.lanes
