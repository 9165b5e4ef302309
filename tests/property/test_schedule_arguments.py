"""Whatever a step is called with, it is done or refused with a `ScheduleError`, and a refusal leaves no mark."""

from __future__ import annotations

import contextlib
import inspect
import random
from typing import Any

import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.schedules.rewrite import PRIMITIVES
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import specialize

TEXT = """def f(float(H,W) A, float(W) b) -> (B) { T(y,x) = A(y,x) + b(x)
  S(y) +=! T(y,x)
  B(y,x) = T(y,x) / S(y) }"""
ANYTHING: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**40, -(2**70), 1.5, float("nan"), "", "y", "x", "x_1", "y_2", "T", "S", "B", "A",
    "nope", "i j", "j i", "i/2 j i%2", "register", "global", "guard", "clip", "H == 5", "N % 4 == 0", "fast", [], ["T"],
    ("B",), {}, "vpdpbusd", "y + 1", "(", "first", b"x", object(),
]  # fmt: skip
CALLS = 40


def arguments(rng: random.Random, primitive: Any) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(primitive).parameters.values():
        if p.kind == p.VAR_POSITIONAL:
            args += [rng.choice(ANYTHING) for _ in range(rng.randint(0, 3))]
        elif p.default is p.empty and p.kind != p.KEYWORD_ONLY:
            args.append(rng.choice(ANYTHING))
        elif p.default is p.empty or rng.random() < 0.5:
            named[p.name] = rng.choice(ANYTHING)
    return args, named


@pytest.mark.parametrize("name", PRIMITIVES)
def test_any_arguments(name: str, first_seed: int) -> None:
    rng = random.Random(f"{name}{first_seed or ''}")
    start = Schedule(lower(normalize(specialize(weft.define(TEXT).program, {"H": 5, "W": 7}))))
    for _ in range(CALLS):
        s = start.copy()
        args, named = arguments(rng, getattr(s, name))
        with contextlib.suppress(ScheduleError):
            getattr(s, name)(*args, **named)
            continue
        assert s.kernel is start.kernel, "a refused step left its mark"
