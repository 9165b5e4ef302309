"""The interface of a tensor program."""

from __future__ import annotations

from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr
from weft.ir.printer import print_expr
from weft.ir.stmt import Param
from weft.ir.visit import loads
from weft.operators.interface import Interface, Output, Parameter, place_of
from weft.tensor.coverage import identity
from weft.tensor.program import TensorProgram


def interface_of(program: TensorProgram) -> Interface:
    params = tuple(_parameter(program, p) for p in program.params)
    outputs = tuple(_output(program, o) for o in program.outputs)
    return Interface(program.name, params, outputs, program.source)


def _dim(size: Expr) -> str | int:
    return int(size.value) if isinstance(size, Const) else print_expr(size)


def _parameter(program: TensorProgram, param: Param) -> Parameter:
    if isinstance(param, Buffer):
        return Parameter(param.name, "tensor", param.dtype.name, tuple(map(_dim, param.shape)), place_of(param.span))
    role = "constant" if param in program.constants else "scalar"
    return Parameter(param.name, role, param.dtype.name, (), place_of(param.span))  # type: ignore[arg-type]


def _output(program: TensorProgram, output: Buffer) -> Output:
    needed = output.name in program.carried and _is_read_first(program, output.name)
    return Output(output.name, output.dtype.name, needed, place_of(output.span))


def _is_read_first(program: TensorProgram, name: str) -> bool:
    """Whether a statement reads the output before, or while, the first one writes it."""
    for statement in program.statements:
        if any(load.buffer.name == name for e in (statement.value, *statement.indices) for load in loads(e)):
            return True
        if statement.target.name == name:
            return False
    return False


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
    first = next(s for s in program.statements if s.target.name == output.name)
    value = identity(first.op, output.dtype).value
    return repr(value) if isinstance(value, float) else value
