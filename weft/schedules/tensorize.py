"""``tensorize``: a loop nest handed to a hardware intrinsic that means the same.

The nest stays in the program, marked with the intrinsic: analyses, the interpreter and machines
without it see plain loops; a target that has it writes the instruction.
"""

from __future__ import annotations

from typing import Any

from weft.ir.hardware import HARDWARE, Hardware, find_hardware
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.nesting import path_to
from weft.ir.stmt import Block, For, Kernel, Seq, Stmt, Tensorized
from weft.ir.visit import fact, free_names
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.decompose_reduction import outermost_reduction_loop
from weft.schedules.find import all_loops, find_loop, listed, ranges_at, top_nests
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_tensorize(kernel: Kernel, loop: str, intrinsic: str, *, numerics: Numerics) -> Verdict:
    """The nest of ``loop`` must do what the intrinsic means, operation by operation."""
    if not isinstance(intrinsic, str):
        return refuse(f"{intrinsic!r} is not the name of an intrinsic")
    hardware, nest = find_hardware(intrinsic), find_loop(kernel, loop)
    for outer in path_to(kernel, nest)[:-1]:
        if isinstance(outer, Tensorized):
            return refuse(f"loop `{loop}` is part of a nest that `{outer.intrinsic}` does already")
        if isinstance(outer, For) and outer.kind == "vector":
            return refuse(f"it is inside the vector loop `{outer.var.name}`, whose iterations are lanes")
    match = _find_mismatch(kernel, nest, nest, hardware)
    if match is not None:
        block = match.block

        def legal() -> tuple[str, ...]:
            return _alternatives(kernel, nest, hardware) if block is None else _start_apart(kernel, nest, block)

        return refuse(f"it is not `{intrinsic}`: {match.reason}", alternatives=legal)
    if not hardware.exact and numerics == "strict":
        return refuse(
            f'`{intrinsic}` does not give the bits of its meaning, which numerics="strict" keeps',
            alternatives=('weft.schedule(..., numerics="fast")',),
        )
    return OK


@primitive(check_tensorize, "cannot tensorize loop `{0}` as `{1}`")
def tensorize(kernel: Kernel, loop: str, intrinsic: str) -> Rewrite:
    """Marks the nest; it is to be the last change of these loops."""
    nest = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, nest, Tensorized(intrinsic, nest, span=nest.span)))


@fact
def _proved_at(nest: Stmt) -> list[Any]:
    """What variables can be and the threads around ``nest``, where it was found to be what an intrinsic means."""
    return []


def _find_mismatch(kernel: Kernel, at: Stmt, nest: Stmt, hardware: Hardware) -> Mismatch | None:
    """Why ``nest``, which is ``at`` or the body of it, is not what ``hardware`` means; found once for each place."""
    ranges, threads = ranges_at(kernel, at), threads_around(kernel, at)
    used = {name: ranges[name] for name in free_names(nest) & ranges.keys()}
    place = hardware.name, used, [(x.var.name, x.lo, x.hi) for x in threads]
    if place in _proved_at(nest):
        return None
    match = match_hardware(hardware, nest, ranges, threads)
    if isinstance(match, Mismatch):
        return match
    _proved_at(nest).append(place)
    return None


@fact
def _proved_inside(nest: Stmt) -> list[bool]:
    """Not empty where all in ``nest``, outside all loops and so the same wherever it stands, was found to be that."""
    return []


def check_tensorized(kernel: Kernel) -> Verdict:
    """Whether every tensorized nest still does what its intrinsic means; asked after each other step."""
    fresh = [nest for nest in top_nests(kernel) if not _proved_inside(nest)]
    for s in (s for nest in fresh for s in listed(nest).tensorized):
        match = _find_mismatch(kernel, s, s.body, find_hardware(s.intrinsic))
        if match is not None:
            why = f"loops tensorized as `{s.intrinsic}` would not be that any more: {match.reason}"
            return refuse(why, alternatives=("the step before s.tensorize",))
    for nest in fresh:
        _proved_inside(nest).append(True)
    return OK


def threads_around(kernel: Kernel, nest: Stmt) -> tuple[For, ...]:
    """The thread loops of the innermost perfect nest of these around ``nest``, outermost first."""
    loops: list[For] = []
    for s in reversed(path_to(kernel, nest)[:-1]):
        if isinstance(s, For) and s.kind == "thread":
            loops.insert(0, s)
        elif loops and not (isinstance(s, Seq) and len(s.body) == 1):
            break
    return tuple(loops)


def _start_apart(kernel: Kernel, nest: For, block: Block) -> tuple[str, ...]:
    """The step that takes the initialization out of the nest: before the reduction, if that starts further out."""
    outer = outermost_reduction_loop(kernel, block)
    inside = outer is None or any(f.var.name == outer for f in all_loops(nest))
    return (f's.decompose_reduction("{block.name}", at="{nest.var.name if inside else outer}") first',)


def _alternatives(kernel: Kernel, nest: For, hardware: Hardware) -> tuple[str, ...]:
    """Loops that the intrinsic fits, and intrinsics that fit the loop."""
    loops = [f for f in all_loops(kernel) if f is not nest and _fits(kernel, f, hardware)]
    others = [h for h in HARDWARE.values() if h is not hardware and _fits(kernel, nest, h)]
    calls = [(f.var.name, hardware.name) for f in loops] + [(nest.var.name, h.name) for h in others]
    return tuple(f's.tensorize("{loop}", "{name}")' for loop, name in calls)


def _fits(kernel: Kernel, nest: For, hardware: Hardware) -> bool:
    if any(isinstance(s, Tensorized) for s in path_to(kernel, nest)):
        return False
    match = match_hardware(hardware, nest, ranges_at(kernel, nest), threads_around(kernel, nest))
    return not isinstance(match, Mismatch)
