"""The interface of a tensor program."""

from __future__ import annotations

from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Const
from weft.ir.printer import print_expr
from weft.ir.stmt import Param
from weft.operators.interface import Interface, Output, Parameter, place_of
from weft.tensor.cost import infer_cost
from weft.tensor.coverage import initial_value
from weft.tensor.program import TensorProgram

#: Work (operations and bytes) below which letting other threads run costs more than it gives: about 2 µs.
_SHORT = 1 << 15


def interface_of(program: TensorProgram) -> Interface:
    params = tuple(_parameter(program, p) for p in program.params)
    outputs = tuple(_output(program, o) for o in program.outputs)
    return Interface(program.name, params, outputs, program.source, program.remarks)


def _parameter(program: TensorProgram, param: Param) -> Parameter:
    if isinstance(param, Buffer):
        dims = tuple(int(n.value) if isinstance(n, Const) else print_expr(n) for n in param.shape)
        return Parameter(param.name, "tensor", param.dtype.name, dims, place_of(param.span))
    role = "constant" if param in program.constants else "scalar"
    return Parameter(param.name, role, param.dtype.name, (), place_of(param.span))  # type: ignore[arg-type]


def _output(program: TensorProgram, output: Buffer) -> Output:
    needed = output.name in program.carried and initial_value(program, output.name) is None
    return Output(output.name, output.dtype.name, needed, place_of(output.span))


def describe_program(program: TensorProgram) -> dict[str, Any]:
    """What a call of a specialized program needs to know, as plain data."""
    return {"outputs": output_records(program), "release_gil": releases_gil(program)}


def output_records(program: TensorProgram) -> list[dict[str, Any]]:
    """Outputs of a specialized program as plain data: type, shape, and what a fresh one starts from."""
    return [
        {
            "name": o.name,
            "dtype": o.dtype.name,
            "shape": [int(size.value) for size in o.shape if isinstance(size, Const)],
            "fill": _fill(program, o),
        }
        for o in program.outputs
    ]


def _fill(program: TensorProgram, output: Buffer) -> int | bool | str | None:
    """The identity an accumulation into a fresh output starts from; a float as text, for infinities in JSON."""
    if output.name not in program.carried:
        return None
    start = initial_value(program, output.name)
    if start is None:
        return None
    return repr(start.value) if isinstance(start.value, float) else start.value


def releases_gil(program: TensorProgram) -> bool:
    """Whether a call of this specialized program is long enough to let other Python threads run."""
    cost = infer_cost(program)
    work = (cost.flops, cost.bytes_read, cost.bytes_written)
    return not all(isinstance(w, int) for w in work) or sum(w for w in work if isinstance(w, int)) > _SHORT
