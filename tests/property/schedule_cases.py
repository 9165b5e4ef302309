"""One random case: a program, a random schedule of it, and whether both compute the same.

What `test_random_schedules` does a few hundred times and `bulk_schedules` as often as one likes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from check_witness import check_witness
from error_bounds import error_bounds
from hypothesis import strategies as st
from kernel_programs import kernel_programs
from random_programs import programs
from random_schedules import random_steps
from stage_programs import stage_programs
from test_cpu_matches_interpreter import MACHINES

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))
from run_compiled import Fenced, Runner, make_arguments

import weft
from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError, ScheduleError
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import find_problems, verify
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine, host_machine
from weft.tensor.coverage import initial_value
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes

Draw = Callable[[Any], Any]
Replay = Callable[[Schedule], "tuple[Any, ...]"]


class NoMeaning(Exception):
    """The program itself is at fault (a race, say), so that there is nothing to keep."""


@dataclass
class Case:
    """A kernel with its arguments in order; outputs among them are copied before they are written."""

    text: str
    kernel: Kernel
    arguments: list[Any]
    #: Whether every operation rounds in one known way, so that compiled code gives the interpreter's bits.
    exact: bool
    #: Outputs whose contents before the call must not be read.
    fresh: tuple[str, ...] = ()
    #: Runs a schedule another way: as the operator of its printed trace.
    replay: Replay | None = None
    #: Values of sizes that are numbers in the kernel, for conditions that name them.
    sizes: Mapping[str, int] = field(default_factory=dict)
    schedule: Schedule | None = None
    #: Whether what hardly depends on the schedule is tried too: its text read back, its trace replayed.
    thorough: bool = True
    #: What it is compiled for: mostly this host, sometimes an older machine whose code this host runs too.
    machine: Machine = field(default_factory=host_machine)
    refusals: list[ScheduleError] = field(default_factory=list)

    @property
    def outputs(self) -> list[int]:
        names = self.kernel.outputs
        return [n for n, p in enumerate(self.kernel.params) if isinstance(p, Buffer) and p.name in names]

    def copied(self) -> list[Any]:
        """The arguments with outputs of their own."""
        return [a.copy() if n in self.outputs else a for n, a in enumerate(self.arguments)]

    def scalars(self) -> dict[str, Any]:
        named = zip(self.kernel.params, self.arguments)
        return {p.name: a for p, a in named if not isinstance(p, Buffer)}

    def arrays(self) -> dict[str, Any]:
        named = zip(self.kernel.params, self.arguments)
        return {p.name: a for p, a in named if isinstance(p, Buffer)}


def outputs_of(program: TensorProgram) -> list[np.ndarray[Any, Any]]:
    """Fresh outputs, filled where an accumulation starts from what is there."""
    made = []
    for o in program.outputs:
        array = np.zeros(tuple(int(s.value) for s in o.shape), to_numpy(o.dtype))  # type: ignore[attr-defined]
        if o.name in program.carried:
            array[...] = initial_value(program, o.name).value  # type: ignore[union-attr]
        made.append(array)
    return made


def tensor_case(draw: Draw, dense: bool) -> Case:
    """A tensor program, lowered for its sizes or for all."""
    random = draw(st.one_of(programs(), stage_programs(), stage_programs()))
    op = weft.define(random.text)
    arguments = [np.array(a, order="C") if dense else a for a in random.arguments.values()]
    signature = check_call(op.interface, arguments, None).signature
    made = build(op.program, signature, host_machine(), True)
    fresh = tuple(o.name for o in made.program.outputs if o.name not in made.program.carried)
    outputs = outputs_of(made.program)
    if not draw(st.booleans()):
        every = [*arguments, *outputs]
        again = partial(_replay, op, arguments)
        return Case(random.text, made.unscheduled(), every, random.exact, fresh, again, made.sizes)
    sizes = solve_sizes(op.program, signature.shapes, {})
    kernel = build(op.program, None, host_machine(), True).unscheduled()
    dense = [np.ascontiguousarray(a) for a in arguments]
    scalars = [sizes[v.name] for v in kernel.scalars]
    return Case(f"{random.text}\nsymbolic", kernel, [*dense, *scalars, *outputs], random.exact, fresh)


def _replay(op: weft.Operator, arguments: list[Any], s: Schedule) -> tuple[Any, ...]:
    """What the operator gives that replays the printed trace."""
    found = op.with_schedule(s.trace)(*arguments)
    return found if isinstance(found, tuple) else (found,)


def kernel_case(draw: Draw, dense: bool) -> Case:
    """A loop program given as text, or a random one."""
    kernel = draw(kernel_programs())
    if find_problems(kernel) or (dense and any(b.strides is not None for b in kernel.buffers)):
        raise NoMeaning
    return Case(print_kernel(kernel), kernel, make_arguments(kernel, draw(st.integers(0, 99))), exact=True)


def draw_case(draw: Draw, *, dense: bool = False) -> Case:
    """A random case; ``dense`` where its arrays shall have no strides of their own."""
    return (tensor_case if draw(st.integers(0, 2)) else kernel_case)(draw, dense)


def take_steps(case: Case, draw: Draw, most: int = 8) -> None:
    """A random schedule of the case's kernel."""
    numerics = draw(st.sampled_from(["strict", "fast"]))
    case.thorough = not draw(st.integers(0, 2))
    case.machine = draw(st.sampled_from(MACHINES)) if not draw(st.integers(0, 3)) else host_machine()
    case.schedule = Schedule(case.kernel, numerics=numerics, machine=host_machine(), sizes=case.sizes)
    case.refusals = random_steps(draw, case.schedule, most)


def check_case(case: Case) -> None:
    """What is accepted computes the same; what is refused says why, and a witness really conflicts."""
    s = case.schedule
    assert s is not None
    with np.errstate(all="ignore"):
        expected = _interpreted(case, case.kernel)
        if expected is None:
            raise NoMeaning
        verify(s.kernel)
        text = f"{case.text}\n{s.trace}\n{print_kernel(s.kernel)}"
        assert not case.thorough or parse_kernel(print_kernel(s.kernel)) == s.kernel, text
        for error in case.refusals:
            assert error.why, error
            check_witness(error, case.arrays(), case.scalars())
        _check_results(case, s, expected, text)


def _interpreted(case: Case, kernel: Kernel) -> list[Any] | None:
    """The outputs as the interpreter finds them; None where the program is at fault."""
    arguments = case.copied()
    try:
        interpret(kernel, arguments, uninitialized=case.fresh)
    except ProgramError:
        if kernel is case.kernel:
            return None
        raise
    return [arguments[n] for n in case.outputs]


def _check_results(case: Case, s: Schedule, expected: list[Any], text: str) -> None:
    strict = s.numerics == "strict"
    limits = None if strict and case.exact else error_bounds(case.kernel, case.arguments)
    stepped = _interpreted(case, s.kernel)
    assert stepped is not None
    results = {"interpreted": stepped, "compiled": _compiled(case, s, fast=not strict)}
    if case.replay is not None and case.thorough:
        results["replayed"] = list(case.replay(s))
    for how, found in results.items():
        bits = strict and (case.exact or how == "interpreted")
        for place, (actual, right) in enumerate(zip(found, expected)):
            limit = None if bits or limits is None else limits[place]
            assert_same(actual, right, limit, f"{how}\n{text}")


def _compiled(case: Case, s: Schedule, *, fast: bool) -> list[Any]:
    text = f"{case.machine.name}\n{s.trace}\n{print_kernel(s.kernel)}"
    fenced = {n: Fenced(case.arguments[n]) for n in case.outputs}
    arguments = [fenced[n].array if n in fenced else a for n, a in enumerate(case.arguments)]
    status = Runner(s.kernel, case.machine, fast=fast)(*arguments)
    assert status == 0, f"status {status}\n{text}"
    assert all(f.is_whole() for f in fenced.values()), f"written outside an output\n{text}"
    return [f.array for f in fenced.values()]


def assert_same(actual: Any, expected: Any, limit: Any, text: str) -> None:
    """Equal bit for bit (NaNs count as one value) or, with a ``limit`` for each element, that near."""
    assert actual.shape == expected.shape
    if limit is None or (actual.dtype.kind in "biu" and not np.any(limit)):
        np.testing.assert_array_equal(np.asarray(actual, _wide(actual)), np.asarray(expected, _wide(actual)), text)
        return
    found, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    certain = np.isfinite(limit) & np.isfinite(right)
    wrong = certain & ~(np.abs(found - right) <= limit)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        found_text = f"{found[where]!r}, should be {right[where]!r} within {limit[where]!r}"
        raise AssertionError(f"element {list(where)} is {found_text}; {int(wrong.sum())} differ\n{text}")


def _wide(array: Any) -> Any:
    return array.dtype if array.dtype.kind in "biu" else np.float64


def describe(case: Case) -> Mapping[str, str]:
    """What one needs to see the case again, by heading."""
    trace = "" if case.schedule is None else str(case.schedule.trace)
    now = "" if case.schedule is None else print_kernel(case.schedule.kernel)
    shapes = [f"{a.dtype}{list(a.shape)} strides {list(a.strides)}" for a in case.arrays().values()]
    return {
        "program": case.text,
        "machine": case.machine.name,
        "arguments": "\n".join([*shapes, *(f"{n} = {v}" for n, v in case.scalars().items())]),
        "kernel": print_kernel(case.kernel),
        "trace": trace,
        "now": now,
    }
