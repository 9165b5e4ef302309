"""Operators written as a newcomer writes them, from papers and questions, each with what numpy says.

A file has cases one after another. A case::

    # name
    def f(float(N) x) -> (y) { y(i) = x(i) * 2 }      the program, as it first came to mind
    x: 7 | k = 3                                      shapes of arguments (and of what), scalars; one line a call
    | y = 2 * x                                       Python that prepares what follows
    = y                                               what numpy says
    ~ integer-division                                a remark that is told
    ! unexpected `**`                                 the refusal's first words; `?` for any
    + def f(...) ...                                  the program that its help suggests
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
HERE = Path(__file__).parent


@dataclass
class Case:
    name: str
    program: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    expected: str = ""
    remarks: list[str] = field(default_factory=list)
    refused: str = ""
    mended: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.program)

    @property
    def mended_text(self) -> str:
        return "\n".join(self.mended)

    def arguments(self, call: str) -> Arrays:
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {call}".encode()))
        return dict(_argument(part.strip(), rng) for part in call.split(" | "))

    def oracle(self, arguments: Arrays) -> Any:
        """What numpy says, in float64."""
        wide = {n: a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for n, a in arguments.items()}
        scope = {"np": np, **wide}
        exec("\n".join(self.setup), scope)
        return eval(self.expected, scope)


def read_cases() -> Iterator[Case]:
    for path in sorted(HERE.glob("*.cases")):
        for block in re.split(r"\n(?=# )", path.read_text(encoding="utf-8").strip()):
            yield _case(block.strip().splitlines())


def _case(lines: list[str]) -> Case:
    case = Case(lines[0].removeprefix("# "))
    for line in lines[1:]:
        mark, rest = line[:2], line[2:]
        if mark == "= ":
            case.expected = rest
        elif mark == "! ":
            case.refused = rest
        elif mark in ("| ", "~ ", "+ "):
            {"| ": case.setup, "~ ": case.remarks, "+ ": case.mended}[mark].append(rest)
        elif re.match(r"\w+(:| =) ", line) and not line.startswith("def "):
            case.calls.append(line)
        else:
            case.program.append(line)
    return case


def _argument(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    scalar = re.fullmatch(r"(\w+) = (\S+)", text)
    if scalar:
        return scalar[1], float(scalar[2]) if re.search(r"[.e]", scalar[2]) else int(scalar[2])
    name, _, rest = text.partition(": ")
    shape, *kind = rest.split()
    return name, _array(tuple(map(int, shape.split("x"))), kind, rng)


def _array(shape: tuple[int, ...], kind: list[str], rng: np.random.Generator) -> Any:
    match kind:
        case []:
            made: Any = rng.standard_normal(shape) * 0.7
        case ["pos"]:
            made = rng.uniform(0.1, 1.0, shape)
        case ["wide"]:
            made = rng.standard_normal(shape) * 5
        case ["uniform", low, high]:
            made = rng.uniform(float(low), float(high), shape)
        case ["nan"]:
            made = np.where(rng.random(shape) < 0.5, np.nan, rng.standard_normal(shape))
        case ["lower"]:
            made = np.tril(rng.standard_normal(shape)) + 3 * np.eye(shape[0])
        case ["spd"]:
            root = rng.standard_normal(shape)
            made = root @ root.T + shape[0] * np.eye(shape[0])
        case ["bool"]:
            return rng.random(shape) < 0.5
        case ["sign"]:
            return rng.choice(np.int32([-1, 1]), shape)
        case ["perm"]:
            return rng.permutation(shape[0]).astype(np.int32)
        case ["cover", most]:
            return rng.permutation(np.arange(shape[0]) % int(most)).astype(np.int32)
        case ["offsets", end]:
            inner = np.sort(rng.integers(0, int(end) + 1, shape[0] - 2))
            return np.concatenate([[0], inner, [int(end)]]).astype(np.int32)
        case ["uint8"]:
            return rng.integers(0, 256, shape).astype(np.uint8)
        case ["int", *numbers]:
            dtype = np.dtype(numbers.pop()) if not numbers[-1].lstrip("-").isdigit() else np.dtype(np.int32)
            low, high = (0, *map(int, numbers))[-2:]
            return rng.integers(low, high, shape).astype(dtype)
        case _:
            raise ValueError(f"unknown kind of array: {kind}")
    return np.asarray(made, np.float32)
