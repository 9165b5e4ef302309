"""A random tensor or loop program scheduled for a GPU, by random steps or automatically, and checked as run there.

Places are those of `check_gpu_program`. What is compared with is the interpreter; for larger sizes, where that
takes too long, the program compiled for the CPU without a schedule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any
from unittest import mock

import numpy as np
import random_programs
from check_gpu_program import H200, Place, on_device, run_on_device
from error_bounds import error_bounds
from hypothesis import strategies as st
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest
from hypothesis.internal.conjecture.data import ConjectureData
from random_programs import RandomProgram, programs
from schedule_cases import Case, NoMeaning, _compiled, _interpreted, assert_same, describe, draw_case, take_steps
from test_random_programs import assert_close, interpreted

import weft
from weft.ir.errors import ScheduleError, TargetError, UnsupportedError
from weft.ir.printer import print_kernel
from weft.ir.stmt import For, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.registry import run_passes
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import PASSES, compile_kernel, context_of

#: Large enough for several blocks, tiles and vectors, with a rest.
LARGE = st.sampled_from([1, 3, 8, 17, 32, 33, 64, 100, 129, 256, 260])


def with_draw(seed: int, check: Callable[[Any], str]) -> str:
    """What ``check`` says of the choices that ``seed`` stands for."""
    data = ConjectureData(random=random.Random(seed))
    with BuildContext(data, is_final=False, wrapped_test=check):
        try:
            return check(data.draw)
        except (NoMeaning, StopTest):
            return "dropped"


def check_random_schedule(seed: int, places: Collection[Place]) -> str:
    return with_draw(seed, lambda draw: check_grid(*draw_schedule(draw), places))


def draw_schedule(draw: Any) -> tuple[Case, Schedule]:
    case = draw_case(draw, dense=True)
    take_steps(case, draw, most=4)
    assert case.schedule is not None
    bind_loops(draw, case.schedule)
    return case, case.schedule


def schedule_text(seed: int) -> str:
    """What `check_random_schedule` checks."""
    return with_draw(seed, lambda draw: "\n".join(describe(draw_schedule(draw)[0]).values()))


def bind_loops(draw: Any, s: Schedule) -> None:
    """Loops made blocks and threads, here and there, as far as that is legal."""
    for loop in [n for n in walk(s.kernel.body) if isinstance(n, For)]:
        level = draw(st.sampled_from(["block", "thread", "thread", None]))
        if level is not None:
            try:
                s.bind(loop.var.name, level)
            except ScheduleError:
                continue


def joined(kernel: Kernel, fast: bool) -> Kernel:
    """``kernel`` in grid form, before sums are kept in variables, which may load what is not written yet."""
    return run_passes(PASSES[: PASSES.index("join_threads") + 1], kernel, context_of(H200, fast=fast))


def check_grid(case: Case, s: Schedule, places: Collection[Place]) -> str:
    """The grid form gives what the program gave before it was scheduled; so do all ``places``."""
    with np.errstate(all="ignore"):
        expected = _interpreted(case, case.kernel)
        if expected is None:
            raise NoMeaning
        text = f"{case.text}\n{s.trace}\n{print_kernel(s.kernel)}"
        fast = s.numerics == "fast"
        try:
            grid = joined(s.kernel, fast)
        except (UnsupportedError, TargetError, ScheduleError):
            return "refused"
        verify(grid)
        found = _interpreted(case, grid)
        limits = error_bounds(case.kernel, case.arguments) if fast else [None] * len(expected)
        compare(found or [], expected, limits, f"grid\n{text}\n{print_kernel(grid)}")
        if not fast and not case.exact:
            limits = error_bounds(case.kernel, case.arguments)
        for place in places:
            made = run_case(case, s, place)
            if made is not None:
                compare(made, expected, limits, f"{place}\n{text}")
    return "checked"


def compare(found: Sequence[Any], expected: Sequence[Any], limits: Sequence[Any], text: str) -> None:
    for actual, right, limit in zip(found, expected, limits, strict=True):
        assert_same(actual, right, limit, text)


def run_case(case: Case, s: Schedule, place: Place) -> list[Any] | None:
    """The outputs, or None where ``place`` only builds."""
    fast = s.numerics == "fast"
    if place == "cpu":
        return _compiled(case, s, fast=fast)
    if place == "device":
        every = run_on_device(s.kernel, case.arguments, s.numerics)
        return [every[n] for n in case.outputs]
    compile_kernel(s.kernel, H200, fast=fast)
    return None


def check_automatic_schedule(seed: int, places: Collection[Place]) -> str:
    """The automatic schedule for a GPU, on small sizes against the interpreter or on large ones against the CPU."""
    return with_draw(seed, lambda draw: check_automatic(*draw_automatic(draw), places))


def draw_automatic(draw: Any) -> tuple[RandomProgram, Any, bool]:
    """A program, its numerics, and whether it is large."""
    large = bool(draw(st.booleans()))
    with mock.patch.object(random_programs, "SIZES", LARGE if large else random_programs.SIZES):
        found = draw(programs())
    return found, draw(st.sampled_from(["fast", "strict"])), large


def automatic_text(seed: int) -> str:
    """What `check_automatic_schedule` checks."""

    def describe(draw: Any) -> str:
        program, numerics, _ = draw_automatic(draw)
        shapes = [f"{name}: {a.dtype}{list(a.shape)}" for name, a in program.arguments.items()]
        return "\n".join([program.text, *shapes, numerics])

    return with_draw(seed, describe)


def check_automatic(program: RandomProgram, numerics: Any, large: bool, places: Collection[Place]) -> str:
    arguments = list(program.arguments.values())
    plain = weft.define(program.text, schedule="naive", numerics="strict")
    op = weft.define(program.text, schedule="auto", numerics=numerics)
    with np.errstate(all="ignore"):
        expected = as_tuple(plain(*arguments)) if large else interpreted(plain, arguments)
        if numerics == "fast" and "*=" in program.text and not all(np.isfinite(a).all() and a.all() for a in expected):
            return "dropped"  # a product that leaves the range, or meets a zero, does so in some orders only
        for place in places:
            try:
                made = run_automatic(op, arguments, place)
            except UnsupportedError:
                return "refused"
            text = f"{place} {numerics}\n{program.text}"
            exact = program.exact and numerics == "strict"
            for output, got, want in zip(op.interface.outputs, made, expected):
                assert_close(f"{output.name} {place}", text, got, want, exact=exact)
    return "checked"


def run_automatic(op: weft.Operator, arguments: Sequence[Any], place: Place) -> tuple[Any, ...]:
    """The outputs; none where ``place`` only builds."""
    if place == "device":
        found = as_tuple(op(*map(on_device, arguments)))
        weft.cuda.synchronize()
        return tuple(a.numpy() for a in found)
    if place == "cpu":
        return as_tuple(op.schedule(*arguments, target="cuda").build()(*arguments))
    op.show("ptx" if place == "nvrtc" else "cuda", *arguments)
    return ()


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)
