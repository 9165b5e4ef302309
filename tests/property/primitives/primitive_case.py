"""A small program with sizes: its loop program, arguments for it, and what the interpreter makes of both."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import weft
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ProgramError
from weft.ir.expr import Expr, Var, idx
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.simplify import simplify
from weft.ir.stmt import Kernel
from weft.ir.visit import substitute
from weft.operators.schedule import OperatorSchedule
from weft.tensor.coverage import initial_value

Array = Any
Sizes = Mapping[str, int]

#: What arguments are drawn from: strict results are the same to the bit on all of them.
MOODS = {"strict": ("whole", "real", "special", "zeros"), "fast": ("whole", "whole", "whole")}
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-38, 3e38, 1.5)
#: Tensors of subscripts; what they say is in range.
SUBSCRIPTS = ("T", "J")


class Setting(NamedTuple):
    """All that a case follows from; ``sizes`` of a symbolic one are those of one call."""

    text: str
    numerics: str
    symbolic: bool
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Call:
    """Arguments of a kernel, and its outputs as they should be."""

    mood: str
    sizes: Sizes
    arguments: list[Any]
    expected: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Case:
    """A program, its schedule before any step, and calls that have a meaning."""

    setting: Setting
    start: OperatorSchedule
    calls: list[Call]


def sizes_of(text: str) -> list[str]:
    """The symbolic sizes of a program."""
    return [v.name for v in weft.define(text).program.sizes]


@cache
def make_case(setting: Setting) -> Case:
    """The case; a `weft.Error` where the program is refused."""
    op = weft.define(setting.text)
    sizes = dict(setting.sizes)
    shapes = {p.name: shape_of(p, sizes) for p in op.program.inputs} if not setting.symbolic else {}
    start = weft.schedule(op, numerics=setting.numerics, **shapes)
    calls = []
    for number, mood in enumerate(MOODS[setting.numerics]):
        for at in some_sizes(setting, number):
            calls += _call(start, op.program, setting, mood, at, number)
    return Case(setting, start, calls)


def some_sizes(setting: Setting, number: int) -> list[Sizes]:
    """Sizes of calls: the given ones; of a symbolic case also smaller and larger ones, and none."""
    given = dict(setting.sizes)
    if not setting.symbolic:
        return [given]
    rng = random.Random(f"{setting.text}{number}")
    others = {name: rng.choice((0, 1, 1, 2, 3, 4, 5)) for name in given}
    return [given, others] if number else [given, others, dict.fromkeys(given, 0)]


def _call(start: OperatorSchedule, program: Any, setting: Setting, mood: str, sizes: Sizes, number: int) -> list[Call]:
    """The call, unless the program has no meaning there: an access out of bounds, say."""
    rng = random.Random(f"{setting.text}{sizes}{mood}{number}")
    arguments = []
    for p in start.kernel.params:
        if not isinstance(p, Buffer):
            arguments.append(sizes[p.name])
            continue
        array = draw_array(rng, p.name, p.dtype, shape_of(p, sizes), mood)
        if p.name in program.carried:
            array[...] = initial_value(program, p.name).value  # type: ignore[union-attr]
        arguments.append(array)
    try:
        expected = run(start.kernel, arguments, sizes, fresh_outputs(start))
    except ProgramError:
        return []
    return [Call(mood, sizes, arguments, expected)]


def fresh_outputs(s: OperatorSchedule) -> list[str]:
    """Outputs whose contents before the call may not be read."""
    return [o.name for o in s.program.outputs if o.name not in s.program.carried]


def shape_of(tensor: Any, sizes: Sizes) -> tuple[int, ...]:
    return tuple(max(0, value_of(e, sizes)) for e in tensor.shape)


def value_of(e: Expr, sizes: Sizes) -> int:
    found = simplify(substitute(e, {Var(name): idx(value) for name, value in sizes.items()}))
    return int(found.value)  # type: ignore[attr-defined]


def run(kernel: Kernel, arguments: Sequence[Any], sizes: Sizes, fresh: list[str]) -> dict[str, Array]:
    """The outputs of ``kernel`` on copies of ``arguments``, as rows: steps on axes give parameters other shapes."""
    mine = [
        a.copy().reshape(shape_of(p, sizes)) if isinstance(p, Buffer) else a for p, a in zip(kernel.params, arguments)
    ]
    interpret(kernel, mine, uninitialized=fresh)
    return {p.name: a.reshape(-1) for p, a in zip(kernel.params, mine) if p.name in kernel.outputs}


def draw_array(rng: random.Random, name: str, dtype: DType, shape: tuple[int, ...], mood: str) -> Array:
    kind = to_numpy(dtype)
    count = int(np.prod(shape))
    if name in SUBSCRIPTS and dtype.is_integer:
        values: list[Any] = [rng.randrange(3) for _ in range(count)]
    elif not dtype.is_float:
        values = [draw_integer(rng, dtype, mood) for _ in range(count)]
    else:
        values = [draw_float(rng, mood) for _ in range(count)]
    with np.errstate(all="ignore"):
        wide = np.float64 if dtype.is_float else kind
        return np.array(values, wide).reshape(shape).astype(kind)


def draw_integer(rng: random.Random, dtype: DType, mood: str) -> int:
    if str(dtype) == "bool":
        return int(rng.random() < 0.5)
    least, most = int(dtype.min_value), int(dtype.max_value)
    if mood == "special":
        return rng.randint(least, most)
    span = 5 if mood == "whole" else 100
    return rng.randint(max(least, -span), min(most, span))


def draw_float(rng: random.Random, mood: str) -> float:
    if mood == "whole":
        return rng.choice((-3, -2, -1, 0, 1, 2, 3))
    if mood == "real":
        return rng.gauss(0, 1) * 10.0 ** rng.choice((0, 0, 3, -3))
    if mood == "zeros":
        return rng.choice((0.0, -0.0, -0.0))
    return rng.choice(SPECIAL) if rng.random() < 0.5 else rng.gauss(0, 1)


def differ(expected: Mapping[str, Array], found: Mapping[str, Array], numerics: str) -> str | None:
    """What is different, if anything: under strict numerics in a bit (NaNs are all the same).

    Fast numerics take what a program computes with to be finite: an element that is not finite may become anything.
    Arguments are small whole numbers then, on which another order hardly rounds otherwise.
    """
    for name, right in expected.items():
        wrong = ~is_same(right, found[name], numerics)
        if np.any(wrong):
            zeros = np.all((found[name] == right)[wrong])
            what = f"the sign of a zero in {name}" if zeros else name
            return f"{what}: {right.tolist()} became {found[name].tolist()}"
    return None


def is_same(right: Array, found: Array, numerics: str) -> Array:
    if right.dtype.kind in "biu":
        return found == right
    a, b = found.astype(np.float64), right.astype(np.float64)
    if numerics == "strict":
        return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
    limit = 2e-2 if right.dtype.itemsize <= 2 else 1e-4
    with np.errstate(invalid="ignore"):
        return ~np.isfinite(b) | (np.abs(a - b) <= limit * (1 + np.abs(b)))
