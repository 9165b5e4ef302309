"""A compiled GPU program: machine code, and the launches one call makes, in order.

What the runtime gives a launch, by the names in ``params``:

- a buffer parameter or temporary: its device address;
- a scalar parameter: its bits as in the slots of a CPU call (integers and bools extended to eight bytes,
  float32 in the low four, float16 and bfloat16 as float32), so one array of slots serves both targets;
- a `TensorMap` of the launch: its 128 bytes, encoded for the address of its buffer;
- `FAILED`: the address of an int64 in device memory, zero unless an assert has failed since the last reset;
- `ERROR_RECORD`: the address of eight int64 the host can read (pinned, mapped): the number of the assert that
  failed (from 1, 0 for none), then up to seven values. The thread that sets `FAILED` fills it, the number last.

A launch whose ``condition`` does not hold, or whose grid is empty, is left out. Grids, conditions and the shapes
of temporaries are expressions of the integer scalars among the kernel's parameters: `evaluate_size`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.dtype import SCALAR_TYPES, DType
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Select, Unary, Var
from weft.ir.interpret_scalar import binary_op, cast_op, compare_op, unary_op

ERROR_RECORD = "weft_error"
FAILED = "weft_failed"


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: function ``name`` of the machine code over ``grid`` blocks (x, y, z) of ``block`` threads.

    ``shared_bytes`` of shared memory are asked for at the launch, beyond what the code declares itself;
    a ``cooperative`` launch has all its blocks running at once. ``steps`` are the loops around it, outermost first.
    A launch that ``follows`` waits itself for the one before it, and so may begin before that has ended.
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    shared_bytes: int
    params: tuple[str, ...]
    condition: Expr | None = None
    cooperative: bool = False
    steps: tuple[Steps, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    follows: bool = False


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How the copy engine fetches boxes of elements of ``itemsize`` bytes from ``buffer``; a parameter of a launch.

    ``sizes`` are those of the array and ``box`` what is fetched at once, from the dimension along memory on;
    ``strides`` are the bytes from one element to the next along the others, ``steps`` how many of these apart the
    elements of a box are.
    """

    name: str
    buffer: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    itemsize: int = 2


@dataclass(frozen=True, slots=True)
class Steps:
    """A loop of the host around launches: those that follow one another in it take place for each of its values.

    ``name`` is a parameter of the launches; ``number`` tells apart loops that follow one another.
    """

    name: str
    lo: Expr
    hi: Expr
    number: int


@dataclass(frozen=True, slots=True)
class Site:
    """An assert of the kernel; the number in an error record is its position from 1."""

    message: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """CUDA C++ text, its machine code, what a call launches, and what device memory it needs meanwhile."""

    source: str
    cubin: bytes
    launches: tuple[Launch, ...]
    temporaries: tuple[Buffer, ...] = ()
    sites: tuple[Site, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {f.name: _to_json(getattr(self, f.name)) for f in fields(self)}


def program_from_json(data: Mapping[str, Any]) -> CudaProgram:
    """What `CudaProgram.to_json` wrote down."""
    return CudaProgram(**{name: _from_json(value) for name, value in data.items()})


def launches_of(
    launches: Sequence[Launch], sizes: Mapping[str, Any], depth: int = 0
) -> Iterator[tuple[Launch, Mapping[str, Any]]]:
    """The launches of a call in order, those in loops at every step, each with the sizes and steps by name."""
    for steps, group in groupby(launches, lambda launch: launch.steps[depth : depth + 1]):
        run = tuple(group)
        if not steps:
            yield from ((launch, sizes) for launch in run)
            continue
        for value in range(*(int(evaluate_size(e, sizes)) for e in (steps[0].lo, steps[0].hi))):
            yield from launches_of(run, {**sizes, steps[0].name: value}, depth + 1)


def evaluate_size(expr: Expr, sizes: Mapping[str, Any]) -> Any:
    """The value of a grid size, a condition or a length, given the kernel's scalars by name."""
    match expr:
        case Const():
            return expr.value
        case Var():
            return sizes[expr.name]
        case Binary(op="&&" | "||"):
            left = evaluate_size(expr.left, sizes)
            return evaluate_size(expr.right, sizes) if bool(left) == (expr.op == "&&") else left
        case Binary():
            left, right = evaluate_size(expr.left, sizes), evaluate_size(expr.right, sizes)
            return binary_op(expr.op, expr.dtype)(left, right)
        case Compare():
            return compare_op(expr.op)(evaluate_size(expr.left, sizes), evaluate_size(expr.right, sizes))
        case Select():
            return evaluate_size(expr.then if evaluate_size(expr.condition, sizes) else expr.otherwise, sizes)
        case Unary():
            return unary_op(expr.op, expr.dtype)(evaluate_size(expr.operand, sizes))
        case Cast():
            return cast_op(expr.operand.dtype, expr.dtype)(evaluate_size(expr.operand, sizes))
    raise InternalError(f"cannot compute a {type(expr).__name__} before a launch", span=expr.span)


def is_host_size(expr: Expr, scalars: frozenset[str]) -> bool:
    """Whether `evaluate_size` can compute ``expr`` from the scalars of these names."""
    if isinstance(expr, Var) or not isinstance(expr, SIZES):
        return isinstance(expr, Var) and expr.name in scalars
    parts = (getattr(expr, f.name) for f in fields(expr))
    return all(is_host_size(e, scalars) for e in parts if isinstance(e, Expr))


#: What sizes are made of, and what else a program is.
SIZES = (Const, Var, Binary, Compare, Select, Unary, Cast)
_KINDS = {kind.__name__: kind for kind in (*SIZES, Launch, TensorMap, Steps, Site, Buffer)}


def _to_json(value: Any) -> Any:
    """A list begins with what it is; the parts of an object are its fields in order."""
    kind = type(value).__name__
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode("ascii")]
    if isinstance(value, DType):
        return ["type", value.name]
    if isinstance(value, tuple):
        return ["tuple", *map(_to_json, value)]
    if kind in _KINDS:
        return [kind, *(_to_json(getattr(value, f.name)) for f in fields(value) if f.name != "span")]
    if value is not None and not isinstance(value, (str, int, float)):
        raise InternalError(f"cannot keep a {kind} with a launch", span=getattr(value, "span", None))
    return value


def _from_json(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    kind, *parts = data
    if kind in _KINDS:
        return _KINDS[kind](*map(_from_json, parts))
    if kind == "tuple":
        return tuple(map(_from_json, parts))
    if kind not in ("type", "bytes"):
        raise InternalError("a stored launch plan is not readable", why=f"got {data!r}")
    return SCALAR_TYPES[parts[0]] if kind == "type" else base64.b64decode(parts[0])
