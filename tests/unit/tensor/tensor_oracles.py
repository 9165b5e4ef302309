"""One program, every way to run it: the evaluator, and the interpreter on its specialized and symbolic loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.verify import verify
from weft.lang.parse import parse_programs
from weft.tensor.coverage import initial_value
from weft.tensor.evaluate import evaluate
from weft.tensor.lower import lower
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize


def program_of(text: str) -> TensorProgram:
    return list(parse_programs(text, "<test>").values())[-1]


def sizes_of(program: TensorProgram, args: list[Any], out: dict[str, Any]) -> dict[str, int]:
    given = {p.name: np.asarray(a) for p, a in zip(program.params, args)}
    shapes = {b.name: given[b.name].shape for b in program.inputs} | {n: np.shape(a) for n, a in out.items()}
    return solve_sizes(program, shapes, {v.name: int(given[v.name]) for v in program.constants})


def run_loops(program: TensorProgram, args: list[Any], out: dict[str, Any], symbolic: bool) -> list[np.ndarray]:
    sizes = sizes_of(program, args, out)
    special = specialize(program, sizes)
    kernel = lower(program if symbolic else special)
    verify(kernel)
    values = {p.name: a for p, a in zip(program.params, args)} | sizes
    results = []
    fresh = []
    for b in special.outputs:
        array = np.empty([s.value for s in b.shape], to_numpy(b.dtype))
        if b.name in program.carried:
            array[...] = out[b.name] if b.name in out else initial_value(program, b.name).value
        else:
            fresh.append(b.name)
        results.append(array)
    named = {b.name: r for b, r in zip(special.outputs, results)}
    interpret(
        kernel, [named[p.name] if p.name in named else values[p.name] for p in kernel.params], uninitialized=fresh
    )
    return results


def all_ways(source: str | TensorProgram, args: list[Any], tolerance: float = 1e-5, **out: Any) -> list[np.ndarray]:
    """The outputs, after checking that evaluator and both lowerings agree on them."""
    program = program_of(source) if isinstance(source, str) else source
    expected = list(evaluate(program, args, out=out))
    for symbolic in (False, True):
        got = run_loops(program, args, out, symbolic)
        for e, g in zip(expected, got):
            assert e.dtype == g.dtype
            assert e.shape == g.shape
            if e.dtype.kind in "biu":
                np.testing.assert_array_equal(g, e)
            else:
                np.testing.assert_allclose(g.astype(float), e.astype(float), rtol=tolerance, atol=tolerance)
    return expected
