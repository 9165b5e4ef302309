"""Random programs and their normal forms compute the same: to the bit under strict numerics."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import RandomProgram, programs
from test_random_programs import assert_close

import weft
from weft.ir.verify import verify
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.target.cpu.host import host_machine
from weft.tensor.evaluate import evaluate
from weft.tensor.lower import lower
from weft.tensor.normal_form.normal_form import normal_form

EXAMPLES = int(os.environ.get("WEFT_RANDOM_PROGRAMS", "120"))


def specialized(random: RandomProgram) -> weft.tensor.program.TensorProgram:
    op = weft.define(random.text)
    signature = check_call(op.interface, list(random.arguments.values()), None).signature
    return build(op.program, signature, host_machine(), True).program


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(programs())
def test_forms_compute_what_programs_do(random: RandomProgram) -> None:
    program, arguments = specialized(random), list(random.arguments.values())
    with np.errstate(all="ignore"):
        expected = evaluate(program, arguments, wide=True)
        for fast in (True, False):
            form = normal_form(program, fast)
            assert normal_form(form, fast) == form, random.text
            verify(lower(form))
            for output, got, wanted in zip(program.outputs, evaluate(form, arguments, wide=True), expected):
                assert_close(f"{output.name}, fast: {fast}", random.text, got, wanted, exact=False)


if __name__ == "__main__":
    pytest.main([__file__])
