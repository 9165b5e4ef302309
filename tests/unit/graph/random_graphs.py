"""Random graphs of operators, views, joints and constants, by seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.graph.builder import GraphBuilder
from weft.graph.formulas import contraction, joints, normalization, pointwise, reductions, views
from weft.graph.graph import Graph, Shape
from weft.ir import dtype as dt


class _Drawing:
    """One graph being drawn: tensors so far, the last ones more likely to be read."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.g = GraphBuilder(f"random_{seed}")
        self.names: list[str] = []
        self.args: list[Any] = []

    def array(self, shape: Shape) -> Any:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def pick(self) -> str:
        back = min(int(self.rng.geometric(0.5)), len(self.names))
        return self.names[-back]

    def shape(self, name: str) -> Shape:
        return self.g.edges[name].shape

    def add(self, kind: str, inputs: list[str], fn: Callable[..., Any], *args: Any) -> None:
        self.names.append(self.g.formula(kind, inputs, fn, *args))

    def unary(self) -> None:
        name = str(self.rng.choice(["tanh", "sigmoid", "exp", "gelu", "silu"]))
        self.add(name, [self.pick()], pointwise.unary, name, dt.float32)

    def relu(self) -> None:
        self.add("relu", [self.pick()], pointwise.same, "relu")

    def binary(self) -> None:
        a = self.pick()
        alike = [n for n in self.names if self.shape(n) == self.shape(a)]
        b = str(self.rng.choice(alike))
        self.add("pair", [a, b], pointwise.binary, str(self.rng.choice(["add", "mul", "sub", "maximum"])), dt.float32)

    def with_constant(self) -> None:
        a = self.pick()
        c = self.g.constant("c", self.array(self.shape(a)[-1:]))
        self.add("scale", [a, c], pointwise.binary, "mul", dt.float32)

    def product(self) -> None:
        a = self.pick()
        w = self.g.constant("w", self.array((self.shape(a)[-1], int(self.rng.integers(2, 9)))) / 4)
        self.add("product", [a, w], contraction.matmul)

    def reshape(self) -> None:
        a = self.pick()
        sizes, count = self.shape(a), int(np.prod(self.shape(a)))
        first = int(self.rng.choice([n for n in range(1, count + 1) if count % n == 0]))
        new = (first, count // first) if self.rng.random() < 0.5 else (*sizes[:1], count // sizes[0], 1)[: len(sizes)]
        if int(np.prod(new)) == count:
            self.add("reshape", [a], views.reshape, tuple(new))

    def permute(self) -> None:
        a = self.pick()
        self.add("permute", [a], views.permute, tuple(map(int, self.rng.permutation(len(self.shape(a))))))

    def cut(self) -> None:
        a = self.pick()
        sizes = self.shape(a)
        starts = tuple(int(self.rng.integers(0, n)) for n in sizes)
        steps = tuple(int(self.rng.integers(1, 3)) for _ in sizes)
        left = tuple(-(-(n - s) // step) for n, s, step in zip(sizes, starts, steps))
        self.add("cut", [a], views.cut, starts, steps, left)

    def join(self) -> None:
        a = self.pick()
        d = int(self.rng.integers(0, len(self.shape(a))))
        self.add("join", [a, a], joints.join, d, dt.float32)

    def pad(self) -> None:
        a = self.pick()
        ones = tuple(int(n) for n in self.rng.integers(0, 2, len(self.shape(a))))
        self.add("pad", [a], joints.pad, ones, ones, 0.5)

    def softmax(self) -> None:
        a = self.pick()
        self.add("softmax", [a], normalization.softmax, len(self.shape(a)) - 1, dt.float32, False)

    def total(self) -> None:
        a = self.pick()
        if len(self.shape(a)) > 1:
            d = int(self.rng.integers(0, len(self.shape(a))))
            self.add("mean", [a], reductions.mean, (d,), bool(self.rng.random() < 0.5), dt.float32)


_STEPS = (
    _Drawing.unary, _Drawing.relu, _Drawing.binary, _Drawing.binary, _Drawing.with_constant, _Drawing.product,
    _Drawing.reshape, _Drawing.permute, _Drawing.cut, _Drawing.join, _Drawing.pad, _Drawing.softmax, _Drawing.total,
)  # fmt: skip
#: Elements above which a tensor is not read any more: graphs stay quick to evaluate.
_LARGE = 4000


def random_graph(seed: int, steps: int = 10) -> tuple[Graph, list[Any]]:
    """A graph, and arguments for it."""
    d = _Drawing(seed)
    for _ in range(int(d.rng.integers(1, 3))):
        shape = tuple(int(n) for n in d.rng.integers(1, 7, int(d.rng.integers(1, 4))))
        d.names.append(d.g.input("x", "float32", shape))
        d.args.append(d.array(shape))
    for _ in range(steps):
        _STEPS[int(d.rng.integers(len(_STEPS)))](d)
        if d.g.edges[d.names[-1]].count > _LARGE:
            d.names.pop()
    made = d.names[-1]
    others = [str(n) for n in d.rng.choice(d.names, size=min(2, len(d.names)), replace=False)]
    return d.g.finish([made, *others]), d.args
