"""Entries of the table of ONNX's operators: recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.formulas import contraction, joints, pointwise, recurrent, views
from weft.graph.from_onnx.pointwise import float_only
from weft.graph.from_onnx.shapes import joined, permute, reshape
from weft.graph.from_onnx.table import Site, Term, facts_of, lowers
from weft.ir.errors import UnsupportedError

#: Gates of a cell, and the functions it has unless told.
_CELLS = {"RNN": (1, ("Tanh",)), "GRU": (3, ("Sigmoid", "Tanh")), "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"))}


#: Functions of gates whose names here are others or that have numbers, with those that hold where none are given.
_FUNCTIONS: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "elu": ("elu", (1.0,)),
    "leakyrelu": ("leaky_relu", (0.01,)),
    "thresholdedrelu": ("thresholded_relu", (1.0,)),
    "hardsigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "affine": ("affine", (None, None)),
    "scaledtanh": ("scaled_tanh", (None, None)),
}


@lowers("RNN", "GRU", "LSTM")
def _layer(
    t: Site,
    x: Term,
    weights: Term,
    own: Term,
    bias: Term | None = None,
    lengths: Term | None = None,
    *states: Term | None,
) -> Sequence[Term]:
    float_only(x)
    directions, units = _checked(t, x, weights, own, bias)
    by_batch = bool(t.get("layout", 0))
    x = permute(t, x, (1, 0, 2)) if by_batch else x
    batch = x.shape[1]
    h, c, peephole = (*states, None, None, None)[:3]
    start = t.make([], pointwise.filled, (directions, batch, units), 0, x.dtype)
    names = {"R": own, "H": h, "B": bias, "P": peephole} | ({"C": c} if t.op == "LSTM" else {})
    sides: list[tuple[Term, ...]] = []
    for d in range(directions):
        tensors = {"W": t.make([weights], views.select, 0, d)}
        for name, given in names.items():
            if given is not None and name in "HC" and by_batch:
                given = permute(t, given, (1, 0, 2))
            given = start if given is None and name in "HC" else given
            if given is not None:
                tensors[name] = t.make([given], views.select, 0, d)
        is_backwards = d == 1 or t.get("direction", "forward") == "reverse"
        sides.append(_direction(t, x, tensors, lengths, _functions(t, d), is_backwards))
    made = [_side_by_side(t, [side[n] for side in sides]) for n in range(len(sides[0]))]
    every = permute(t, made[0], (1, 0, 2, 3))
    if by_batch:
        return permute(t, every, (2, 0, 1, 3)), *(permute(t, m, (1, 0, 2)) for m in made[1:])
    return every, *made[1:]


def _checked(t: Site, x: Term, weights: Term, own: Term, bias: Term | None) -> tuple[int, int]:
    """How many directions and units; all shapes fit these."""
    directions = facts_of({"forward": 1, "reverse": 1, "bidirectional": 2}, t, "direction", "forward")
    units = t.get("hidden_size", own.shape[-1])
    rows = _CELLS[t.op][0] * units
    if x.rank != 3:
        raise UnsupportedError(f"a sequence of {x.rank} dimensions")
    wanted = {"W": (directions, rows, x.shape[2]), "R": (directions, rows, units), "B": (directions, 2 * rows)}
    for name, term in (("W", weights), ("R", own), ("B", bias)):
        if term is not None and term.shape != wanted[name]:
            raise UnsupportedError(f"{name} is of shape {term.shape}, not {wanted[name]}")
    return directions, units


def _side_by_side(t: Site, parts: list[Term]) -> Term:
    return joined(t, [reshape(t, p, (1, *p.shape)) for p in parts], 0)


def _functions(t: Site, direction: int) -> tuple[recurrent.Activation, ...]:
    """The functions of one direction's gates."""
    usual = _CELLS[t.op][1]
    named = [str(n).lower() for n in t.get("activations") or usual * 2]
    first, last = direction * len(usual), (direction + 1) * len(usual)
    if len(named) < last:
        raise UnsupportedError(f"{len(named)} functions of gates for {direction + 1} times {len(usual)}")
    return tuple(_with_numbers(t, named)[first:last])


def _with_numbers(t: Site, named: Sequence[str]) -> list[recurrent.Activation]:
    """All functions with their numbers, which those that have any take one after another."""
    given: list[list[float]] = [list(t.get(f"activation_{which}") or ()) for which in ("alpha", "beta")]
    made: list[recurrent.Activation] = []
    for name in named:
        known, usual = _FUNCTIONS.get(name, (name, ()))
        if known not in recurrent.ACTIVATIONS:
            raise UnsupportedError(f"gates with {name!r}")
        found = [of_all.pop(0) if of_all else other for of_all, other in zip(given, usual)]
        numbers = [n for n in found if n is not None]
        if len(numbers) < len(usual):
            raise UnsupportedError(f"gates with {name!r} without its numbers")
        made.append((known, *numbers) if usual else known)
    return made


def _direction(
    t: Site,
    x: Term,
    tensors: dict[str, Term],
    lengths: Term | None,
    functions: tuple[recurrent.Activation, ...],
    is_backwards: bool,
) -> tuple[Term, ...]:
    """One direction of a layer: the units after every step, and the states after the last."""
    x = _turned(t, x, lengths) if is_backwards else x
    is_linear = bool(t.get("linear_before_reset", 0))
    weights, bias = tensors.pop("W"), tensors.pop("B", None)
    gates = [x, weights]
    if bias is not None:
        size = bias.shape[0] // 2
        first, second = _part(t, bias, 0, size), _part(t, bias, size, size)
        if t.op == "GRU" and is_linear:  # of the last gate, the reset gate is behind this one
            tensors["D"] = second
        else:
            first = t.make([first, second], pointwise.binary, "add", bias.dtype)
        gates.append(first)
    tensors = {"G": t.make(gates, contraction.linear), **tensors} | ({} if lengths is None else {"L": lengths})
    for name, sizes in recurrent.shapes_by_gate({n: e.shape for n, e in tensors.items()}).items():
        tensors[name] = reshape(t, tensors[name], sizes)
    flag = is_linear or bool(t.get("input_forget", 0))
    facts = (tuple(tensors), t.op, functions, t.get("clip"), flag, tuple(range(_CELLS[t.op][0])))
    every, *ends = t.make_all(list(tensors.values()), recurrent.recurrent, *facts)
    return (_turned(t, every, lengths) if is_backwards else every, *ends)


def _turned(t: Site, x: Term, lengths: Term | None) -> Term:
    if lengths is None:
        return t.make([x], joints.flip, (0,))
    return t.make([x, lengths], joints.reversed_rows, 0, 1)


def _part(t: Site, bias: Term, start: int, size: int) -> Term:
    return t.make([bias], views.cut, (start,), (1,), (size,))
