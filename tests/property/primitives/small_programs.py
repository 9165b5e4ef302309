"""Small programs: those of ``listed.weft``, and random ones of a grammar.

The grammar has what checks are easily wrong about: instances that write one element (``O(i+j)``, ``O(2*i)``,
``O(i/2)``), scatters, triangular ranges, ranges that may be empty, guards, reads beyond an edge, updates in place.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

INPUTS = {"A": "N,M", "B": "N", "C": "N,M,K", "D": "M,K"}
TYPES = ("float", "float", "float", "int32", "int32", "int8", "float16", "bfloat16", "double")
OPERATORS = ("=", "=", "+=!", "+=!", "+=!", "+=", "max=!", "min=!", "*=!", "*=", "max=")


@cache
def listed() -> tuple[str, ...]:
    """The programs of ``listed.weft``."""
    text = (Path(__file__).parent / "listed.weft").read_text(encoding="utf-8")
    bare = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return tuple(p.strip() for p in re.split(r"^(?=def )", bare, flags=re.MULTILINE)[1:])


def random_program(rng: random.Random) -> str:
    """A program of one to four statements; not every one of them means something."""
    return Grammar(rng).program()


class Grammar:
    """The tensors known so far, with their ranks, while statements are drawn one after another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.type = rng.choice(TYPES)
        self.inputs = rng.sample(sorted(INPUTS), rng.choice((1, 1, 2, 2)))
        self.ranks = {name: INPUTS[name].count(",") + 1 for name in self.inputs}
        self.scatters = rng.random() < 0.12
        self.made: list[str] = []

    def program(self) -> str:
        statements = [self.statement(n) for n in range(self.rng.choice((1, 1, 2, 2, 3, 4)))]
        outputs = [self.made[-1], *(m for m in self.made[:-1] if self.rng.random() < 0.4)]
        params = [f"{self.type}({INPUTS[name]}) {name}" for name in self.inputs]
        params += ["int32(N) T"] if self.scatters else []
        return f"def f({', '.join(params)}) -> ({', '.join(outputs)}) {{ {' '.join(statements)} }}"

    def statement(self, number: int) -> str:
        rng = self.rng
        fresh = not self.made or rng.random() < 0.75
        name = "XYZW"[number] if fresh else rng.choice(self.made)
        iterators = rng.sample("ijkl", rng.choice((1, 2, 2, 3)))
        written = self.written(name, iterators, fresh)
        value, reads = self.value(iterators)
        used = [i for i in iterators if i in " ".join((*written, value))]
        where = self.ranges(used, reads)
        self.ranks[name] = len(written)
        self.made += [] if name in self.made else [name]
        target = f"{name}({', '.join(written)})" if written else name
        text = f"{target} {rng.choice(OPERATORS)} {value}"
        return f"{text} where {', '.join(where)}" if where else text

    def written(self, name: str, iterators: list[str], fresh: bool) -> list[str]:
        """The subscripts of the tensor that is written."""
        rng = self.rng
        if fresh:
            found = [i for i in iterators if rng.random() < 0.65]
        else:
            found = [rng.choice(iterators) for _ in range(self.ranks[name])]
        subscripts = [self.subscript(i, iterators, is_written=True) for i in found]
        if self.scatters and subscripts and fresh:
            subscripts[0] = f"T({found[0]})"
        return subscripts

    def value(self, iterators: list[str]) -> tuple[str, list[str]]:
        """A formula, and the tensors in it that have elements."""
        rng, reads, names = self.rng, list[str](), list[str]()
        for name in rng.sample(sorted(self.ranks), min(len(self.ranks), rng.choice((1, 1, 2, 2, 3)))):
            places = [rng.choice(iterators) for _ in range(self.ranks[name])]
            subscripts = ", ".join(self.subscript(i, iterators, is_written=False) for i in places)
            reads.append(f"{name}({subscripts})" if subscripts else name)
            names += [name] if subscripts else []
        if rng.random() < 0.2:
            test = f"{rng.choice(iterators)} {rng.choice(('<=', '>', '=='))} {rng.choice([*iterators, '1'])}"
            reads[0] = f"({test} ? {reads[0]} : {self.zero()})"
        text = rng.choice((" * ", " + ", " * ", " - ")).join(reads)
        return (f"max({text}, {reads[-1]})" if rng.random() < 0.1 else text), names

    def ranges(self, used: list[str], reads: list[str]) -> list[str]:
        """What stands behind ``where``."""
        rng, where = self.rng, dict[str, str]()
        for i in used:
            if rng.random() < 0.25:
                free = [o for o in used if o != i and i not in where.get(o, "")]
                high = rng.choice(["2", "3", "4", "N", *(f"{o}+1" for o in free), *(f"{o}+2" for o in free)])
                where[i] = f"{i} in {rng.choice(['0', '0', '1', *free])}:{high}"
        if rng.random() >= 0.35:
            return [*where.values()]
        whole = [f"{i} in 0:{rng.choice(('N', '3', '4'))}" for i in used if i not in where]
        outside = rng.choice(("zero", "zero", "edge", "wrap"))
        return [*where.values(), *whole, *(f"{name} outside {outside}" for name in dict.fromkeys(reads))]

    def zero(self) -> str:
        if self.type.startswith("int"):
            return "0"
        return "0.0" if self.type == "float" else f"{self.type}(0.0)"

    def subscript(self, i: str, iterators: list[str], *, is_written: bool) -> str:
        rng = self.rng
        other = rng.choice(iterators)
        together = f"{i}+{other}" if other != i else f"{i}+1"
        strided = f"2*{i}" if other == i else f"2*{i}+{other}"
        before = i if is_written else f"{i}-1"
        forms = (i, together, strided, f"{i}+1", before, f"{i}/2", f"{i}%2", rng.choice("01"))
        return rng.choices(forms, weights=(66, 10, 5, 6, 5, 3, 2, 3))[0]
