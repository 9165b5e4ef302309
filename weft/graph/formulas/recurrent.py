"""Recurrent layers: states that go on from step to step of a sequence (RNN, GRU, LSTM)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.graph.formulas import pointwise
from weft.graph.formulas.common import element, shape, working_type
from weft.graph.graph import Shape
from weft.ir.dtype import DType
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute, reduce_axis

#: A function of what a gate adds up: its name, or with the numbers that it is given, too.
Activation = str | tuple[str | float, ...]
ACTIVATIONS: Mapping[str, Callable[..., Value]] = {
    **{name: pointwise.FLOAT_UNARY[name] for name in (
        "sigmoid", "tanh", "softsign", "softplus", "elu", "leaky_relu", "hard_sigmoid", "thresholded_relu",
    )},
    "relu": pointwise.relu,
    "affine": lambda v, scale, shift: v * scale + shift,
    "scaled_tanh": lambda v, scale, inner: pointwise.FLOAT_UNARY["tanh"](v * inner) * scale,
}  # fmt: skip


class _Step:
    """A step: the tensors of the layer by name, subscripts of time, and the functions of the gates.

    ``G`` is what the gates get from the sequence, of shape (steps, batch, gates, units), ``R`` the weights from the
    units to the gates, of shape (gates, units, units), ``P`` those from the cell to the gates i, o and f, ``D`` what is
    added to ``R`` times the units, ``L`` the lengths of the sequences. ``order`` says where in ``G``, ``R`` and ``D``
    each gate is. Gates are an axis of their own, so that all of a unit can be computed where its state is.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        time: Any,
        functions: Sequence[Callable[[Value], Value]],
        order: Sequence[int],
    ) -> None:
        self.tensors, self.time, self.functions, self.order = tensors, time, functions, order
        self.sizes = shape(tensors["H"])
        self.kind = working_type(tensors["G"].dtype)

    def units(self, fn: Callable[[Any, Any], Any], name: str) -> Tensor:
        """One value for each unit of each row of the batch."""
        return compute(self.sizes, fn, name=name, dtype=self.kind)

    def products(self, state: Tensor, first: int, gates: int) -> Callable[[Any, Any, int], Value]:
        """What the units give to the gates whose places are from ``first`` on."""
        units = self.sizes[1]
        weights, added = self.tensors["R"], self.tensors.get("D")

        def body(b: Any, g: Any, j: Any) -> Any:
            k = reduce_axis(units, "k")
            return w.sum(state[b, k] * cast(self.kind, weights[g + first, j, k]), over=k)

        made = compute((self.sizes[0], gates, units), body, name="Products", dtype=self.kind)

        def product(b: Any, j: Any, gate: int) -> Value:
            place = self.order[gate]
            value = element(made, b, place - first, j)
            return value if added is None else value + cast(self.kind, added[place, j])

        return product

    def given(self, b: Any, j: Any, gate: int) -> Value:
        return cast(self.kind, self.tensors["G"][self.time, b, self.order[gate], j])

    def peephole(self, b: Any, j: Any, gate: int, cell: Tensor) -> Value | float:
        weights = self.tensors.get("P")
        return 0.0 if weights is None else cast(self.kind, weights[j + gate * self.sizes[1]]) * cell[b, j]


def _rnn(s: _Step, flag: bool, h: Tensor) -> list[Tensor]:
    products = s.products(h, 0, 1)
    return [s.units(lambda b, j: s.functions[0](s.given(b, j, 0) + products(b, j, 0)), "Units")]


def _gru(s: _Step, is_linear: bool, h: Tensor) -> list[Tensor]:
    """Gates z, r and h; with ``is_linear`` the reset gate is behind the product."""
    products = s.products(h, 0, 3 if is_linear else 2)

    def gate(number: int, name: str) -> Tensor:
        return s.units(lambda b, j: s.functions[0](s.given(b, j, number) + products(b, j, number)), name)

    z, r = gate(0, "Update"), gate(1, "Reset")
    if is_linear:
        last = s.units(lambda b, j: r[b, j] * products(b, j, 2), "Last")
    else:
        last_products = s.products(s.units(lambda b, j: r[b, j] * h[b, j], "Kept"), 2, 1)
        last = s.units(lambda b, j: last_products(b, j, 2), "Last")
    new = s.units(lambda b, j: s.functions[1](s.given(b, j, 2) + last[b, j]), "New")
    return [s.units(lambda b, j: (1.0 - z[b, j]) * new[b, j] + z[b, j] * h[b, j], "Units")]


def _lstm(s: _Step, is_coupled: bool, h: Tensor, c: Tensor) -> list[Tensor]:
    """Gates i, o, f and c; with ``is_coupled`` what comes in is what goes."""
    products = s.products(h, 0, 4)
    first, middle, final = s.functions

    def gate(b: Any, j: Any, number: int) -> Value:
        return s.given(b, j, number) + products(b, j, number)

    def cell(b: Any, j: Any) -> Value:
        come = first(gate(b, j, 0) + s.peephole(b, j, 0, c))
        stay = 1.0 - come if is_coupled else first(gate(b, j, 2) + s.peephole(b, j, 2, c))
        return stay * c[b, j] + come * middle(gate(b, j, 3))

    new = s.units(cell, "Cell")
    units = s.units(lambda b, j: first(gate(b, j, 1) + s.peephole(b, j, 1, new)) * final(new[b, j]), "Units")
    return [units, new]


_CELLS: Mapping[str, Callable[..., list[Tensor]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def shapes_by_gate(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Of the tensors that have gates, whose shapes are given with these and units in one axis, those with two axes."""
    units = shapes["R"][1]
    split = {"G": 2, "R": 0, "D": 0}
    return {
        name: (*own[:at], own[at] // units, units, *own[at + 1 :])
        for name, own in shapes.items()
        if (at := split.get(name)) is not None
    }


def _limited(named: Activation, limit: float | None) -> Callable[[Value], Value]:
    name, *numbers = (named,) if isinstance(named, str) else named
    function = ACTIVATIONS[str(name)]
    return lambda v: function(v if limit is None else pointwise.clamp(v, -limit, limit), *numbers)


def recurrent(*rest: Any) -> tuple[Tensor, ...]:
    """One direction of a layer: the units after every step, and each state after the last.

    The tensors that `_Step` describes, with the states ``H`` and ``C`` at the start; then their names, which cell it
    is, its functions (see `Activation`), the limit of what these are given, what the cell itself makes of a flag, and
    the places of its gates.
    """
    *given, names, cell, functions, limit, flag, order = rest
    tensors: dict[str, Tensor] = dict(zip(names, given))
    gates, lengths = tensors["G"], tensors.get("L")
    kind, (batch, units) = working_type(gates.dtype), shape(tensors["H"])
    starts = [_started(tensors[n], kind) for n in ("H", "C") if n in tensors]
    called = [_limited(name, limit) for name in functions]

    def step(t: Any, *before: Tensor) -> list[Tensor]:
        s = _Step(tensors, t, called, order)
        made = _CELLS[cell](s, flag, *before)
        return made if lengths is None else [_while(s, t, lengths, *pair) for pair in zip(made, before)]

    steps = shape(gates)[0]
    rows = w.scan(steps, starts, step)

    def unit(t: Any, b: Any, j: Any) -> Any:
        value = element(rows[0], t + 1, b, j)
        return value if lengths is None else w.select(_is_inside(t, b, lengths), value, cast(kind, 0))

    every = compute((steps, batch, units), unit, name="Y", dtype=gates.dtype)
    ends = [_last(r, f"E{n}", (batch, units), steps, gates.dtype) for n, r in enumerate(rows)]
    return (every, *ends)


def _is_inside(t: Any, b: Any, lengths: Tensor) -> Value:
    return cast(lengths.dtype, t) < lengths[b]


def _while(s: _Step, t: Any, lengths: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """A state that goes on as long as the sequence does."""
    return s.units(lambda b, j: w.select(_is_inside(t, b, lengths), after[b, j], before[b, j]), "Next")


def _started(state: Tensor, kind: DType) -> Tensor:
    return compute(shape(state), lambda b, j: cast(kind, state[b, j]), name="Start", dtype=kind)


def _last(rows: Tensor, name: str, sizes: Shape, steps: int, dtype: DType) -> Tensor:
    return compute(sizes, lambda b, j: element(rows, steps, b, j), name=name, dtype=dtype)
