"""Two programs side by side: which parameters and sizes stand for which, and what their shapes ask of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.algebra.linear import Linear, Literal, UndecidedError, add, as_constant, constant, names_of, variable
from weft.algebra.positions import position, regions
from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Var
from weft.tensor.program import TensorProgram


class ApartError(Exception):
    """The two programs take or give different things; the text says which."""


@dataclass
class Interfaces:
    """What the sizes of both programs are in those of the first, and what both ask of them."""

    first: TensorProgram
    second: TensorProgram
    given: Mapping[str, int]
    sizes: tuple[dict[str, Linear], dict[str, Linear]] = field(default_factory=lambda: ({}, {}))
    inputs: dict[str, str] = field(default_factory=dict)
    context: list[Literal] = field(default_factory=list)

    def match(self) -> Interfaces:
        mine, other = self.first.params, self.second.params
        if len(mine) != len(other):
            raise ApartError(f"the first takes {len(mine)} parameters, the second {len(other)}")
        for name in (*self.first.sizes, *self.first.constants):
            value = self.given.get(name.name)
            self.sizes[0][name.name] = variable(name.name) if value is None else constant(value)
        for a, b in zip(mine, other):
            self.parameter(a, b)
        if len(self.first.outputs) != len(self.second.outputs):
            raise ApartError(
                f"the first gives {len(self.first.outputs)} outputs, the second {len(self.second.outputs)}"
            )
        for x, y in zip(self.first.outputs, self.second.outputs):
            if x.dtype != y.dtype or x.rank != y.rank:
                raise ApartError(
                    f"output {x.name} is {x.dtype} of {x.rank} dimensions, {y.name} is {y.dtype} of {y.rank}"
                )
            self.shape(x, y, output=True)
        self.needs()
        return self

    def parameter(self, a: Buffer | Var, b: Buffer | Var) -> None:
        kind = [(x.dtype, x.rank if isinstance(x, Buffer) else None) for x in (a, b)]
        if kind[0] != kind[1]:
            texts = [f"{x.name} is {t}{'' if r is None else f' of {r} dimensions'}" for x, (t, r) in zip((a, b), kind)]
            raise ApartError(f"parameter {texts[0]}, {texts[1]}")
        self.inputs[b.name] = a.name
        if isinstance(a, Buffer) and isinstance(b, Buffer):
            self.shape(a, b, output=False)
        elif any(b.name == c.name for c in self.second.constants):
            self.sizes[1][b.name] = self.sizes[0].get(a.name, variable(a.name))

    def shape(self, a: Buffer, b: Buffer, *, output: bool) -> None:
        for mine, other in zip(a.shape, b.shape):
            form = self.form(mine, 0)
            if isinstance(other, Var) and other.name not in self.sizes[1]:
                self.sizes[1][other.name] = form
                continue
            apart = add(form, self.form(other, 1), -1)
            if as_constant(apart) not in (0, None):
                raise ApartError(f"{a.name} and {b.name} never have the same shape")
            if apart and output:
                raise UndecidedError(f"the shapes of {a.name} and {b.name} are not told to be equal for all sizes")
            if apart:
                self.context.append((apart, True))

    def form(self, size: Expr, side: int) -> Linear:
        cases = position(size, self.sizes[side])
        if len(cases) != 1 or cases[0].where or cases[0].quotients:
            raise UndecidedError("a size has cases or is rounded (give sizes=)")
        return cases[0].form

    def needs(self) -> None:
        """What sizes have to be for the programs to stay in bounds."""
        for side, program in enumerate((self.first, self.second)):
            for requirement in program.requirements:
                try:
                    parts = regions(requirement.condition, self.sizes[side])
                except UndecidedError:
                    continue
                if len(parts) == 1 and not parts[0].quotients:
                    self.context += [w for w in parts[0].where if names_of([w[0]])]

    def shape_of(self, number: int) -> list[Linear]:
        return [self.form(size, 0) for size in self.first.outputs[number].shape]
