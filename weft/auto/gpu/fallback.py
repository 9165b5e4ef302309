"""What no strategy took: of each nest, the loops that may run at once become a grid, and the rest runs in order.

Recurrences, triangles, tests of arguments of unknown sizes. Always right; fast where the parallel loops are outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import Shape, as_one, choose_shape, spread
from weft.ir.stmt import Alloc, For, If, Seq, Stmt
from weft.passes.to_grid.spread_asserts import only_checks
from weft.schedules.find import all_loops, find_loop
from weft.schedules.loop_facts import trip_count


def schedule_rest(draft: GpuDraft) -> None:
    """Every nest at the top of the program that has no grid yet."""
    for loop in [f.var.name for f in _top_loops(draft.s.kernel.body, draft.steps)]:
        nest = find_loop(draft.s.kernel, loop)
        has_grid = any(n.kind in ("block", "thread", "parallel") for n in all_loops(nest))
        if not has_grid and not _is_left_to_lowering(nest):
            _schedule(draft, loop)


def _is_left_to_lowering(nest: For) -> bool:
    """Whether it tests arguments: lowering does so where they are used, or finds threads for it."""
    return only_checks(nest) and all(trip_count(n, {}) is not None for n in all_loops(nest))


def _top_loops(s: Stmt, steps: frozenset[str]) -> Iterator[For]:
    """The loops that nothing is around but the steps of recurrences."""
    match s:
        case For(var=var) if var.name not in steps:
            yield s
        case Seq(body=body):
            for child in body:
                yield from _top_loops(child, steps)
        case Alloc(body=body) | For(body=body):
            yield from _top_loops(body, steps)


def _schedule(draft: GpuDraft, loop: str) -> None:
    names = [f.var.name for f in _perfect(find_loop(draft.s.kernel, loop))]
    free = [x for x in names if draft.attempt(_try, draft, x) is None]
    for count in range(len(free), 0, -1):
        if draft.attempt(_grid, draft, names, free[:count]) is None:
            what = f"a thread for each iteration of {', '.join(f'`{x}`' for x in free[:count])}"
            draft.decide("parallel", loop, what, "these may run at once")
            return
    for x in free:
        if draft.attempt(_one_block, draft, x) is None:
            what = f"`{x}` on the threads of one block"
            draft.decide("parallel", x, what, "loops around it run in order")
            return
    draft.decide("fallback", loop, "runs on one thread", "none of its loops may run at once")


def _perfect(loop: For) -> list[For]:
    """``loop`` and those right inside it, one in the other, through tests."""
    found, body = [loop], loop.body
    while isinstance(body, (For, If)):
        if isinstance(body, If):
            if body.otherwise is not None:
                break
            body = body.then
            continue
        found.append(body)
        body = body.body
    return found


def _try(draft: GpuDraft, loop: str) -> None:
    """Whether it may be a loop over threads; it stays as it is."""
    draft.s.bind(loop, "thread")
    draft.s.serial(loop)


def _grid(draft: GpuDraft, names: Sequence[str], free: Sequence[str]) -> None:
    """The loops ``free`` outermost, as a grid."""
    if list(names[: len(free)]) != list(free):
        draft.s.reorder(*free, *(x for x in names if x not in free))
    loop = as_one(draft, free)
    count = trip_count(find_loop(draft.s.kernel, loop), {})
    spread(draft, loop, Shape(choose_shape(draft, count, 1 << 10).threads))


def _one_block(draft: GpuDraft, loop: str) -> None:
    """``loop`` on the threads of one block, in rounds."""
    count = trip_count(find_loop(draft.s.kernel, loop), {})
    if count is None or count <= draft.machine.max_threads_per_block:
        draft.s.bind(loop, "thread")
        return
    rounds, thread = draft.s.split(loop, draft.machine.max_threads_per_block)
    draft.s.reorder(thread, rounds)
    draft.s.bind(thread, "thread")
