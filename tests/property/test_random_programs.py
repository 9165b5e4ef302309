"""Interpreter, reference evaluator and compiled code agree on random tensor programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import RandomProgram, programs

import weft
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.verify import verify
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.target.cpu.host import host_machine
from weft.tensor.coverage import initial_value
from weft.tensor.evaluate import evaluate

EXAMPLES = int(os.environ.get("WEFT_RANDOM_PROGRAMS", "120"))


def widened(array: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype.kind not in "biu" else array


def assert_close(name: str, text: str, actual: Any, expected: Any, *, exact: bool) -> None:
    """Equal where exact or integer; else within a few roundings of the narrowest float the program uses."""
    assert actual.shape == expected.shape, f"{name}: {actual.shape} != {expected.shape}\n{text}"
    assert actual.dtype == expected.dtype, f"{name}: {actual.dtype} != {expected.dtype}\n{text}"
    narrow = "half" in text or "float16" in text
    tolerance = 0.0 if exact or actual.dtype.kind in "biu" else 5e-2 if narrow else 2e-5
    finite = np.abs(widened(expected))
    scale = np.max(finite[np.isfinite(finite)], initial=1.0)
    np.testing.assert_allclose(
        widened(actual), widened(expected), rtol=tolerance, atol=tolerance * scale, err_msg=f"{name}\n{text}"
    )


def interpreted(op: weft.Operator, arguments: list[Any]) -> list[Any]:
    signature = check_call(op.interface, arguments, None).signature
    made = build(op.program, signature, host_machine(), True, op._definition.how)
    kernel = made.kernel()
    verify(kernel)
    outputs = []
    for o in made.program.outputs:
        array = np.zeros(tuple(int(s.value) for s in o.shape), to_numpy(o.dtype))  # type: ignore[attr-defined]
        if o.name in made.program.carried:
            array[...] = initial_value(made.program, o.name).value  # type: ignore[union-attr]
        outputs.append(array)
    fresh = [o.name for o in made.program.outputs if o.name not in made.program.carried]
    interpret(kernel, [*arguments, *outputs], uninitialized=fresh)
    return outputs


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(programs())
def test_three_meanings_agree(random: RandomProgram) -> None:
    op = weft.define(random.text, numerics="strict")
    arguments = list(random.arguments.values())
    with np.errstate(all="ignore"):
        compiled = op(*arguments)
        compiled = compiled if isinstance(compiled, tuple) else (compiled,)
        reference = evaluate(op.program, arguments)
        stepped = interpreted(op, arguments)
    for output, fast, slow, wide in zip(op.interface.outputs, compiled, stepped, reference):
        assert_close(f"{output.name}: compiled against interpreter", random.text, fast, slow, exact=random.exact)
        assert_close(f"{output.name}: interpreter against evaluator", random.text, slow, wide, exact=False)


if __name__ == "__main__":
    pytest.main([__file__])
