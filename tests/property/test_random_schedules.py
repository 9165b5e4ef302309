"""Random programs times random schedules: what is accepted computes the same, what is refused really conflicts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import programs
from random_schedules import random_steps
from stage_programs import stage_programs
from touched_elements import really_conflict, touched_elements

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))
from run_compiled import Runner

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.poly.verdict import Witness
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import host_machine
from weft.tensor.coverage import initial_value
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes

EXAMPLES = int(os.environ.get("WEFT_RANDOM_SCHEDULES", "300"))


def outputs_of(program: TensorProgram) -> list[np.ndarray[Any, Any]]:
    """Fresh outputs, filled where an accumulation starts from what is there."""
    made = []
    for o in program.outputs:
        array = np.zeros(tuple(int(s.value) for s in o.shape), to_numpy(o.dtype))  # type: ignore[attr-defined]
        if o.name in program.carried:
            array[...] = initial_value(program, o.name).value  # type: ignore[union-attr]
        made.append(array)
    return made


def run(kernel: Kernel, arguments: list[Any], program: TensorProgram) -> list[np.ndarray[Any, Any]]:
    outputs = outputs_of(program)
    fresh = [o.name for o in program.outputs if o.name not in program.carried]
    interpret(kernel, [*arguments, *outputs], uninitialized=fresh)
    return outputs


def assert_same(actual: Any, expected: Any, *, bits: bool, text: str) -> None:
    """Equal bit for bit (NaNs count as one value), or within a few roundings."""
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=text)
        return
    narrow = actual.dtype.itemsize < 4
    wide, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if bits:
        np.testing.assert_array_equal(wide, right, err_msg=text)
        return
    scale = np.max(np.abs(right[np.isfinite(right)]), initial=1.0)
    tolerance = 5e-2 if narrow else 2e-5
    np.testing.assert_allclose(wide, right, rtol=tolerance, atol=tolerance * scale, err_msg=text)


def check_refusal(error: ScheduleError, arrays: dict[str, Any], scalars: dict[str, int]) -> None:
    """It says why; where it names two iterations and is certain, they conflict."""
    text = str(error)
    assert error.why, text
    witness = error.witness
    if not isinstance(witness, Witness) or not witness.certain:
        return
    known = {**scalars, **witness.sizes}
    if any(known[name] != value for name, value in scalars.items()):
        return  # a witness for other sizes than those at hand
    touched = touched_elements(error.kernel, arrays, scalars)  # type: ignore[attr-defined]
    if touched is not None:
        assert really_conflict(touched, witness.first, witness.second, witness.element), text


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.one_of(programs(), stage_programs()), st.data())
def test_schedules_keep_the_result(random: Any, data: Any) -> None:
    op = weft.define(random.text)
    arguments = list(random.arguments.values())
    signature = check_call(op.interface, arguments, None).signature
    made = build(op.program, signature, host_machine(), True)
    symbolic = data.draw(st.booleans())
    sizes = solve_sizes(op.program, signature.shapes, {})
    kernel = build(op.program, None, host_machine(), True).kernel() if symbolic else made.kernel()
    scalars = {v.name: sizes[v.name] for v in kernel.scalars} if symbolic else {}
    s = Schedule(kernel, numerics=data.draw(st.sampled_from(["strict", "fast"])), machine=host_machine())
    refusals = random_steps(data.draw, s)
    verify(s.kernel)
    text = f"{random.text}\n{s.trace}\n{print_kernel(s.kernel)}"
    assert parse_kernel(print_kernel(s.kernel)) == s.kernel, text
    for error in refusals:
        check_refusal(error, random.arguments, scalars)
    dense = [np.ascontiguousarray(a) for a in arguments] if symbolic else arguments
    with np.errstate(all="ignore"):
        inputs = [*dense, *scalars.values()]
        expected = run(kernel, inputs, made.program)
        stepped = run(s.kernel, inputs, made.program)
        compiled = outputs_of(made.program)
        assert Runner(s.kernel)(*inputs, *compiled) == 0, text
        replayed = compiled if symbolic else replay(op, s, arguments)
    strict = s.numerics == "strict"
    for right, actual, machine, again in zip(expected, stepped, compiled, replayed):
        assert_same(actual, right, bits=strict, text=f"interpreted\n{text}")
        assert_same(machine, right, bits=random.exact and strict, text=f"compiled\n{text}")
        assert_same(again, right, bits=random.exact and strict, text=f"replayed\n{text}")


def replay(op: weft.Operator, s: Schedule, arguments: list[Any]) -> tuple[Any, ...]:
    """What the operator gives that replays the printed trace."""
    found = weft.Operator(op._definition.scheduled(str(s.trace)))(*arguments)
    return found if isinstance(found, tuple) else (found,)
