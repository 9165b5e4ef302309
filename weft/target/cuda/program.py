"""A compiled GPU program: machine code, and the launches one call makes, in order.

What the runtime gives a launch, by the names in ``params``:

- a buffer parameter or temporary: its device address;
- a scalar parameter: its bits as in the slots of a CPU call (integers and bools extended to eight bytes,
  float32 in the low four, float16 and bfloat16 as float32), so one array of slots serves both targets;
- `FAILED`: the address of an int64 in device memory, zero unless an assert has failed since the last reset;
- `ERROR_RECORD`: the address of eight int64 the host can read (pinned, mapped): the number of the assert that
  failed (from 1, 0 for none), then up to seven values. The thread that sets `FAILED` fills it, the number last.

A launch whose ``condition`` does not hold, or whose grid is empty, is left out. Grids, conditions and the shapes
of temporaries are expressions of the integer scalars among the kernel's parameters: `evaluate_size`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import SCALAR_TYPES
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
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    shared_bytes: int
    params: tuple[str, ...]
    condition: Expr | None = None
    cooperative: bool = False
    steps: tuple[Steps, ...] = ()


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
        return {
            "source": self.source,
            "cubin": base64.b64encode(self.cubin).decode("ascii"),
            "launches": [_launch_to_json(launch) for launch in self.launches],
            "temporaries": [[b.name, b.dtype.name, [_expr_to_json(n) for n in b.shape]] for b in self.temporaries],
            "sites": [[s.message, s.where] for s in self.sites],
        }


def program_from_json(data: Mapping[str, Any]) -> CudaProgram:
    """What `CudaProgram.to_json` wrote down."""
    temporaries = tuple(
        Buffer(name, SCALAR_TYPES[dtype], tuple(_expr_from_json(n) for n in shape))
        for name, dtype, shape in data["temporaries"]
    )
    return CudaProgram(
        data["source"],
        base64.b64decode(data["cubin"]),
        tuple(_launch_from_json(launch) for launch in data["launches"]),
        temporaries,
        tuple(Site(message, where) for message, where in data["sites"]),
    )


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
    match expr:
        case Const():
            return True
        case Var():
            return expr.name in scalars
        case Binary() | Compare():
            return is_host_size(expr.left, scalars) and is_host_size(expr.right, scalars)
        case Select():
            return all(is_host_size(e, scalars) for e in (expr.condition, expr.then, expr.otherwise))
        case Unary() | Cast():
            return is_host_size(expr.operand, scalars)
    return False


def _launch_to_json(launch: Launch) -> dict[str, Any]:
    return {
        "name": launch.name,
        "grid": [_expr_to_json(n) for n in launch.grid],
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "params": list(launch.params),
        "condition": None if launch.condition is None else _expr_to_json(launch.condition),
        "cooperative": launch.cooperative,
        "steps": [[s.name, _expr_to_json(s.lo), _expr_to_json(s.hi), s.number] for s in launch.steps],
    }


def _launch_from_json(data: Mapping[str, Any]) -> Launch:
    x, y, z = (_expr_from_json(n) for n in data["grid"])
    width, height, depth = data["block"]
    condition = None if data["condition"] is None else _expr_from_json(data["condition"])
    return Launch(
        data["name"],
        (x, y, z),
        (width, height, depth),
        data["shared_bytes"],
        tuple(data["params"]),
        condition,
        data["cooperative"],
        tuple(Steps(name, _expr_from_json(lo), _expr_from_json(hi), n) for name, lo, hi, n in data["steps"]),
    )


def _expr_to_json(expr: Expr) -> Any:
    """Nested lists: a number alone is an int64; the rest starts with what it is."""
    match expr:
        case Const():
            return expr.value if expr.dtype == dt.index else ["const", expr.dtype.name, expr.value]
        case Var():
            return ["var", expr.dtype.name, expr.name]
        case Binary():
            return ["binary", expr.op, _expr_to_json(expr.left), _expr_to_json(expr.right)]
        case Compare():
            return ["compare", expr.op, _expr_to_json(expr.left), _expr_to_json(expr.right)]
        case Select():
            return ["select", *map(_expr_to_json, (expr.condition, expr.then, expr.otherwise))]
        case Unary():
            return ["unary", expr.op, _expr_to_json(expr.operand)]
        case Cast():
            return ["cast", expr.dtype.name, _expr_to_json(expr.operand)]
    raise InternalError(f"cannot keep a {type(expr).__name__} with a launch", span=expr.span)


def _expr_from_json(data: Any) -> Expr:
    match data:
        case int():
            return Const(data, dt.index)
        case ["const", dtype, value]:
            return Const(value, SCALAR_TYPES[dtype])
        case ["var", dtype, name]:
            return Var(name, SCALAR_TYPES[dtype])
        case ["binary", op, left, right]:
            return Binary(op, _expr_from_json(left), _expr_from_json(right))
        case ["compare", op, left, right]:
            return Compare(op, _expr_from_json(left), _expr_from_json(right))
        case ["select", condition, then, otherwise]:
            return Select(_expr_from_json(condition), _expr_from_json(then), _expr_from_json(otherwise))
        case ["unary", op, operand]:
            return Unary(op, _expr_from_json(operand))
        case ["cast", dtype, operand]:
            return Cast(SCALAR_TYPES[dtype], _expr_from_json(operand))
    raise InternalError("a stored launch plan is not readable", why=f"got {data!r}")
