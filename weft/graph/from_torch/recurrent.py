"""Recurrent layers stay whole: as operators of our own while a model is traced, since torch takes its own apart, into
some operators for each step; and the entries of the table for these."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.graph.formulas import contraction, joints, pointwise, recurrent, views
from weft.graph.from_torch.edge import torch
from weft.graph.from_torch.table import TABLE, Site
from weft.graph.graph import Edge
from weft.ir.errors import UnsupportedError

#: Of each cell of torch's: its formula, the functions of its gates, and where torch has the gates of the formula.
_CELLS = {
    "lstm": ("LSTM", ("sigmoid", "tanh", "tanh"), (0, 3, 1, 2)),
    "gru": ("GRU", ("sigmoid", "tanh"), (1, 0, 2)),
    "rnn_tanh": ("RNN", ("tanh",), (0,)),
    "rnn_relu": ("RNN", ("relu",), (0,)),
}
_ARGUMENTS = "Tensor x, Tensor[] states, Tensor[] weights, bool biased, int layers, bool both_ways, bool batch_first"


def whole_layers() -> AbstractContextManager[Any]:
    """Within, recurrent layers that we have formulas for are traced as one operator each."""
    functions = {getattr(torch(), name) for name in _CELLS}

    class Whole(torch().overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, fn: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if fn in functions and not kwargs and (given := _read(args)) is not None:
                return _operators()[fn](*given)
            return fn(*args, **(kwargs or {}))

    return Whole()


@contextlib.contextmanager
def current_weights(module: Any) -> Iterator[None]:
    """Recurrent layers keep a list of their parameters beside these: within, it is of those that they have now."""
    layers = [m for m in module.modules() if isinstance(m, torch().nn.RNNBase)]
    names = ("_flat_weights", "_flat_weight_refs")
    before = [{name: m.__dict__[name] for name in names if name in m.__dict__} for m in layers]
    try:
        for layer in layers:
            weights = [getattr(layer, name, None) for name in layer._flat_weights_names]
            refs = [None if w is None else weakref.ref(w) for w in weights]
            layer.__dict__.update(zip(names, (weights, refs)))
        yield
    finally:
        for layer, had in zip(layers, before):
            layer.__dict__.update(had)


@functools.cache
def _operators() -> dict[Any, Callable[..., Any]]:
    """Ours for each function of torch's; made for the first such layer, since torch takes a while to register one."""
    package, made = torch(), {}
    library = _operators.library = package.library.Library("weft", "FRAGMENT")  # type: ignore[attr-defined]
    for name in _CELLS:
        states = ", Tensor" * _state_count(name)
        library.define(f"{name}({_ARGUMENTS}) -> (Tensor{states})")
        library.impl(name, functools.partial(_as_torch, name), "CompositeExplicitAutograd")
        package.library.register_fake(f"weft::{name}", _looks, lib=library)
        made[getattr(package, name)] = getattr(package.ops.weft, name).default
    return made


def _state_count(name: str) -> int:
    return 2 if name == "lstm" else 1


def _read(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """The arguments of our operator for such ones of torch's; None for packed sequences, dropout and projections."""
    if len(args) != 9 or not isinstance(args[2], (list, tuple)):
        return None
    x, states, weights, biased, layers, dropout, is_training, both_ways, batch_first = args
    states = list(states) if isinstance(states, (list, tuple)) else [states]
    count = layers * (1 + both_ways) * (4 if biased else 2)
    if (dropout and is_training) or len(weights) != count or x.dim() != 3:
        return None
    return x, states, list(weights), biased, layers, both_ways, batch_first


def _as_torch(name: str, x: Any, states: Any, weights: Any, biased: bool, layers: int, *rest: bool) -> Any:
    """By torch's own kernels."""
    given = states if name == "lstm" else states[0]
    return getattr(torch(), name)(x, given, weights, biased, layers, 0.0, False, *rest)


def _looks(x: Any, states: Any, weights: Any, biased: bool, layers: int, both_ways: bool, batch_first: bool) -> Any:
    """Results without values."""
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    every = x.new_empty((steps, batch, (1 + both_ways) * weights[1].shape[1]))
    return (every.transpose(0, 1) if batch_first else every, *(s.new_empty(s.shape) for s in states))


def _layers(
    t: Site,
    x: Edge,
    states: Sequence[Edge],
    weights: Sequence[Edge],
    biased: bool,
    layers: int,
    both_ways: bool,
    batch_first: bool,
) -> list[str]:
    if not x.dtype.is_float or any(e.dtype != x.dtype for e in (*states, *weights)):
        raise UnsupportedError("a recurrent layer of several types")
    count, directions = 4 if biased else 2, 1 + both_ways
    x = _made(t, [x], views.permute, (1, 0, 2)) if batch_first else x
    ends: list[list[Edge]] = []
    for layer in range(layers):
        sides = []
        for d in range(directions):
            n = layer * directions + d
            begin = [_made(t, [s], views.select, 0, n) for s in states]
            every, *last = _direction(t, x, begin, weights[n * count : (n + 1) * count], d == 1)
            sides.append(every)
            ends.append(last)
        x = sides[0] if directions == 1 else _made(t, sides, joints.join, 2, x.dtype)
    x = _made(t, [x], views.permute, (1, 0, 2)) if batch_first else x
    return [x.name, *(_stacked(t, [end[n] for end in ends]).name for n in range(len(states)))]


def _direction(t: Site, x: Edge, states: Sequence[Edge], weights: Sequence[Edge], is_backwards: bool) -> list[Edge]:
    """One direction of a layer: the units after every step, and the states after the last."""
    cell, functions, order = _CELLS[t.call.target.split(".")[1]]
    given, own, *biases = weights
    x = _made(t, [x], joints.flip, (0,)) if is_backwards else x
    tensors = {"R": own, "H": states[0]} | ({"C": states[1]} if len(states) > 1 else {})
    if cell == "GRU" and biases:  # of the last gate, the reset gate is behind this one
        tensors["D"] = biases.pop()
    elif biases:
        biases = [_made(t, biases, pointwise.binary, "add", x.dtype)]
    tensors["G"] = _made(t, [x, given, *biases], contraction.linear)
    for name, sizes in recurrent.shapes_by_gate({n: e.shape for n, e in tensors.items()}).items():
        tensors[name] = _made(t, [tensors[name]], views.reshape, sizes)
    facts = (tuple(tensors), cell, functions, None, cell == "GRU", order)
    names = t.make_all(list(tensors.values()), recurrent.recurrent, *facts, is_library=False)
    every, *ends = map(t.edge, names)
    return [_made(t, [every], joints.flip, (0,)) if is_backwards else every, *ends]


def _stacked(t: Site, parts: list[Edge]) -> Edge:
    rows = [_made(t, [p], views.reshape, (1, *p.shape)) for p in parts]
    return rows[0] if len(rows) == 1 else _made(t, rows, joints.join, 0, rows[0].dtype)


def _made(t: Site, inputs: Sequence[Edge], formula: Any, *args: Any) -> Edge:
    return t.edge(t.make(inputs, formula, *args, is_library=False))


TABLE.update({f"weft.{name}.default": _layers for name in _CELLS})
