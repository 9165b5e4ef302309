"""Random choices of how the statements of a program split, for tests of many devices."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

from weft.dist.mesh import Mesh
from weft.dist.ranks import split_block
from weft.dist.rules import Choice, Whole, choices
from weft.ir.errors import ArgumentError
from weft.tensor.program import TensorProgram


class RandomChoices:
    """Chooses for each statement and each axis of the mesh; a block whose choices disagree is computed whole."""

    def __init__(self, seed: int, mesh: Mesh, *, strict: bool = False) -> None:
        self.random, self.mesh, self.strict = random.Random(seed), mesh, strict
        self.made: list[Any] = []

    def __call__(self, program: TensorProgram) -> list[tuple[Choice, ...]]:
        for _, block in groupby(program.statements, lambda s: s.recurrences[:1] or id(s)):
            self.made += self._of_block([*block])
        return self.made

    def _of_block(self, block: list[Any]) -> list[tuple[Choice, ...]]:
        for _ in range(8):
            drawn = [tuple(self._draw(s) for _ in self.mesh.sizes) for s in block]
            try:
                split_block([*zip(block, drawn)], self.mesh)
            except ArgumentError:
                continue
            return drawn
        return [tuple(Whole() for _ in self.mesh.sizes)] * len(block)

    def _draw(self, statement: Any) -> Choice:
        options = choices(statement, strict=self.strict)
        return self.random.choice(options[1:] or options) if self.random.random() < 0.8 else Whole()
