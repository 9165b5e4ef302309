"""What library programs look like as tensor programs and as loops; `pytest --update-golden` rewrites the files."""

from __future__ import annotations

import pytest

import weft.ops
from weft.ir.printer import print_kernel
from weft.tensor.lower import lower
from weft.tensor.printer import print_program
from weft.tensor.specialize import specialize

PROGRAMS = {
    "softmax": {"M": 4, "N": 8},
    "lut1": None,
    "matmul": None,
    "argmin_distance": None,
    "cumsum": None,
    "scatter_add": None,
    "max_pool2d": None,
    "wavenet": None,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_library_program(golden, name):
    program = weft.ops.program(name)
    text = print_program(program)
    sizes = PROGRAMS[name]
    if sizes is not None:
        program = specialize(program, sizes)
    golden(f"tensor/{name}.txt", text + "\n" + print_kernel(lower(program)))
