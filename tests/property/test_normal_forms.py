"""Random programs and their normal forms compute the same: to the bit under strict numerics."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import RandomProgram, programs
from test_random_programs import assert_close

import weft
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.verify import verify
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.target.cpu.host import host_machine
from weft.tensor.coverage import initial_value
from weft.tensor.evaluate import evaluate
from weft.tensor.lower import lower
from weft.tensor.normal_form.normal_form import normal_form
from weft.tensor.program import TensorProgram

EXAMPLES = int(os.environ.get("WEFT_RANDOM_PROGRAMS", "120"))


def specialized(random: RandomProgram) -> TensorProgram:
    op = weft.define(random.text)
    signature = check_call(op.interface, list(random.arguments.values()), None).signature
    return build(op.program, signature, host_machine(), True).program


def loops(program: TensorProgram, written: TensorProgram, arguments: list[Any]) -> list[np.ndarray[Any, Any]]:
    """What the loops of ``program`` give, begun as calls of the program as written begin."""
    kernel = lower(program)
    verify(kernel)
    outputs = [np.zeros([int(n.value) for n in o.shape], to_numpy(o.dtype)) for o in written.outputs]  # type: ignore[attr-defined]
    for o, array in zip(written.outputs, outputs):
        if o.name in written.carried:
            array[...] = initial_value(written, o.name).value  # type: ignore[union-attr]
    interpret(kernel, [*arguments, *outputs])
    return outputs


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(programs())
def test_forms_compute_what_programs_do(random: RandomProgram) -> None:
    program, arguments = specialized(random), list(random.arguments.values())
    with np.errstate(all="ignore"):
        expected = evaluate(program, arguments, wide=True)
        for fast in (True, False):
            form = normal_form(program, fast)
            assert normal_form(form, fast) == form, random.text
            for output, got, wanted in zip(program.outputs, evaluate(form, arguments, wide=True), expected):
                assert_close(f"{output.name}, fast: {fast}", random.text, got, wanted, exact=False)
        if form != program:
            pairs = zip(loops(form, program, arguments), loops(program, program, arguments))
            for output, (got, wanted) in zip(program.outputs, pairs):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{output.name}, to the bit\n{random.text}")
                same = np.signbit(got) == np.signbit(wanted) if output.dtype.is_float else np.array(True)
                assert np.all(same | np.isnan(wanted.astype(np.float64))), random.text


if __name__ == "__main__":
    pytest.main([__file__])
