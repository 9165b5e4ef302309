"""`scan`: states that go on from step to step, in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError, ShapeError
from weft.ir.expr import Axis, Var, idx
from weft.ir.span import Span
from weft.tensor.build_python import DefinedLoad, Definition, Scan
from weft.tensor.caller import caller_span
from weft.tensor.python_tensor import Tensor, check_name, open_steps, parameters_of, told_when_too_deep, unique
from weft.tensor.value import Operand, Value, as_position, index_value


@dataclass(frozen=True, eq=False)
class _State(Tensor):
    """What a state is before a step: a row of all that it was."""

    step: Value | None = None

    @property
    def ndim(self) -> int:
        return self.buffer.rank - (self.step is not None)

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        given = indices if isinstance(indices, tuple) else (indices,)
        row = () if self.step is None else (self.step,)
        return Tensor(self.buffer, span=self.span)[row + given]


@told_when_too_deep
def scan(
    steps: Operand, starts: Sequence[Tensor], step: Callable[..., Sequence[Tensor]], name: str = "t"
) -> tuple[Tensor, ...]:
    """States that go on from step to step: ``step(t, a, b, ...)`` gives what each is after step ``t``.

    Of each state, a tensor of ``steps + 1`` rows: the first is its start, the last what it is in the end.

    >>> (S,) = scan(T, [S0], lambda t, s: [compute((N,), lambda i: 0.5 * s[i] + X[t, i])])
    """
    span = caller_span()
    _check_arguments(starts, step, name, span)
    var = Var(unique(name), span=span)
    axis = Axis(var, idx(0), as_position(steps, "the number of steps"))
    rows = [Buffer(unique(f"{s.name}_steps"), s.dtype, (axis.hi + idx(1), *s.buffer.shape), span=span) for s in starts]
    open_steps.append(var.name)
    try:
        made = step(index_value(var), *(_State(b, span=span, step=index_value(var)) for b in rows))
    finally:
        open_steps.remove(var.name)
    ends: list[Any] = list(made) if isinstance(made, (list, tuple)) else [made]
    _check_states(starts, ends, span)
    firsts, lasts = (tuple(map(_whole, tensors)) for tensors in (starts, ends))
    together = Scan(axis, tuple(rows), firsts, lasts)
    return tuple(Tensor(b, Definition(b, (), idx(0), span, together), span=span) for b in rows)


def _check_arguments(starts: object, step: object, name: str, span: Span | None) -> None:
    check_name(name)
    listed = starts if isinstance(starts, (list, tuple)) else ()
    if not listed or not all(isinstance(s, Tensor) for s in listed):
        raise ArgumentError(
            "the starts of a scan are a list of tensors",
            span=span,
            why="each is what a state is before the first step",
            help="weft.scan(T, [S0], lambda t, s: [...])",
        )
    if not callable(step):
        raise ArgumentError(
            "the step of a scan is a function of the step and of each state",
            span=span,
            help="weft.scan(T, [S0], lambda t, s: [...])",
        )
    parameters = parameters_of(step)
    if len(parameters) != 1 + len(listed) and not [p for p in parameters if p.kind is p.VAR_POSITIONAL]:
        names = ", ".join(["t", *(s.name for s in listed)])
        raise ArgumentError(
            f"the step of this scan takes {len(parameters)} arguments, but gets {1 + len(listed)}",
            span=span,
            why="it gets the step, then each state",
            help=f"lambda {names}: [...]",
        )


def _check_states(starts: Sequence[Tensor], ends: Sequence[Tensor], span: Span | None) -> None:
    if len(ends) != len(starts) or [e for e in ends if not isinstance(e, Tensor)]:
        count = f"{len(starts)} tensor{'s' * (len(starts) != 1)}"
        raise ArgumentError(f"a step of this scan gives {count}", span=span, why="each state that starts must go on")
    for old, new in zip(starts, ends):
        if (new.dtype, new.buffer.shape) != (old.dtype, old.buffer.shape):
            raise ShapeError(
                f"`{new.name}` does not follow `{old.name}`",
                span=span,
                why="a state keeps its type and shape from step to step",
            )


def _whole(tensor: Tensor) -> DefinedLoad:
    return DefinedLoad(tensor.buffer, tuple(idx(0) for _ in tensor.buffer.shape), definition=tensor.definition)
