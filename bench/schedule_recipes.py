"""Random schedules for `bench.model_rank`: for each work a recipe that draws steps; refused ones are left out."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.ir.errors import ScheduleError
from weft.schedules.schedule import Schedule

_TEXTS = {
    "matmul": "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "conv": """def conv(float(C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(f,h,w) +=! I(c,h + kh,w + kw) * K(f,c,kh,kw) }""",
    "softmax": """def softmax(float(M,N) X) -> (O) {
        Top(m) max=! X(m,n)
        E(m,n) = exp(X(m,n) - Top(m))
        Total(m) +=! E(m,n)
        O(m,n) = E(m,n) / Total(m) }""",
    "blur": """def blur(float(H,W) A) -> (B) {
        T(y,x) = (A(y,x) + A(y,x+1) + A(y,x+2)) / 3
        B(y,x) = (T(y,x) + T(y+1,x) + T(y+2,x)) / 3 }""",
}
SIZES: dict[str, list[dict[str, tuple[int, ...]]]] = {
    "matmul": [
        {"A": (256, 256), "B": (256, 256)},
        {"A": (384, 512), "B": (512, 512)},
        {"A": (100, 300), "B": (300, 210)},
    ],
    "conv": [
        {"I": (32, 30, 30), "K": (32, 32, 3, 3)},
        {"I": (16, 58, 58), "K": (64, 16, 3, 3)},
        {"I": (64, 14, 14), "K": (96, 64, 1, 1)},
    ],
    "softmax": [{"X": (512, 1024)}, {"X": (4096, 200)}, {"X": (60, 8192)}],
    "blur": [{"A": (514, 770)}, {"A": (1026, 2050)}, {"A": (200, 300)}],
}


@functools.cache
def definition(work: str) -> weft.Operator:
    return weft.define(_TEXTS[work])


class Draw:
    """A schedule under way and the dice; a step that is refused is not done."""

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.s = schedule
        self.rng = rng

    def may(self, chance: float) -> bool:
        return self.rng.random() < chance

    def pick(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def do(self, step: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What the step makes, or None where it is refused."""
        try:
            return step(*args, **named)
        except ScheduleError:
            return None

    def split(self, loop: str, sizes: Sequence[int]) -> tuple[str, str | None]:
        """Outer and inner loop, or the loop itself where it stays whole."""
        size = self.pick(sizes)
        made = self.do(self.s.split, loop, size, tail=self.pick(["guard", "guard", "separate"])) if size > 1 else None
        return (loop, None) if made is None else (made[0].name, made[1].name)

    def vectorize(self, loop: str | None, chance: float = 1.0) -> None:
        if loop is not None and self.may(chance):
            self.do(self.s.vectorize, loop)

    def unroll(self, loop: str | None, chance: float = 1.0) -> None:
        if loop is not None and self.may(chance):
            self.do(self.s.unroll, loop)


def _shuffled(draw: Draw, loops: Sequence[str | None]) -> list[str]:
    found = [x for x in loops if x is not None]
    draw.rng.shuffle(found)
    return found


def random_matmul(s: Schedule, rng: random.Random) -> None:
    """Tiles in any order, a few of them sensible; sums in registers or not; either side packed or not."""
    draw = Draw(s, rng)
    m, mi = draw.split("m", [1, 2, 4, 6, 8, 8, 12, 16])
    n, ni = draw.split("n", [16, 16, 32, 32, 48, 64, 128])
    k, ki = draw.split("k", [1, 1, 1, 8, 32, 128])
    mo, m = draw.split(m, [1, 1, 1, 2, 4, 8]) if draw.may(0.4) else (m, None)
    if draw.may(0.75):
        outer, tile = _shuffled(draw, [mo, m, n]), [mi, ni] if draw.may(0.85) else [ni, mi]
        depth = [x for x in (k, ki) if x is not None]
        inside = outer[-1]
        order = [*outer, *depth, *(x for x in tile if x is not None)]
        if draw.may(0.2):
            order = [*depth[:1], *outer, *depth[1:], *(x for x in tile if x is not None)]
    else:
        order = _shuffled(draw, [mo, m, mi, n, ni, k, ki])
        inside = draw.pick(order)
    draw.do(s.reorder, *order)
    draw.vectorize(ni, 0.85)
    draw.unroll(mi, 0.75)
    if draw.may(0.6):
        scope = "register" if draw.may(0.85) else "global"
        draw.do(s.cache_write, "C", scope=scope, at=inside)
    if draw.may(0.4):
        draw.do(s.pack, "B", f"j/{draw.pick([16, 32, 64])} i j%{draw.pick([16, 32, 64])}")
    if draw.may(0.3):
        draw.do(s.pack, "A", f"i/{draw.pick([4, 8])} j i%{draw.pick([4, 8])}")


def random_conv(s: Schedule, rng: random.Random) -> None:
    """Lanes along the row or the output channels, a tile of sums, loops in any order."""
    draw = Draw(s, rng)
    along_row = draw.may(0.55)
    w, wi = draw.split("w", [16, 16, 8, 14, 28, 32] if along_row else [1, 2, 4, 7, 8, 14])
    f, fi = draw.split("f", [1, 2, 4, 8, 8] if along_row else [16, 16, 32, 32, 64])
    h, hi = draw.split("h", [1, 1, 2, 4]) if draw.may(0.5) else ("h", None)
    c, ci = draw.split("c", [1, 1, 4, 8]) if draw.may(0.4) else ("c", None)
    lane, copies = (wi, fi) if along_row else (fi, wi)
    if draw.may(0.8):
        outer = _shuffled(draw, [f, h, hi, w])
        depth = _shuffled(draw, ["kh", "kw"])
        depth = [x for x in (c, ci) if x is not None] + depth if draw.may(0.7) else _shuffled(draw, [c, ci, *depth])
        order = [*outer, *depth, *(x for x in (copies, lane) if x is not None)]
        inside = outer[-1]
    else:
        order = _shuffled(draw, [f, fi, h, hi, w, wi, c, ci, "kh", "kw"])
        inside = draw.pick(order)
    draw.do(s.reorder, *order)
    draw.vectorize(lane, 0.85)
    draw.unroll(copies, 0.75)
    draw.unroll("kw", 0.15)
    if draw.may(0.65):
        made = draw.do(s.cache_write, "O", scope="register" if draw.may(0.9) else "global", at=inside)
        if made is not None and not along_row and draw.may(0.7):
            draw.do(s.pack, made[1], "j k i")
    if not along_row and draw.may(0.6):
        draw.do(s.pack, "K", "j k l i")


def random_softmax(s: Schedule, rng: random.Random) -> None:
    """Stages apart or together in rows, reductions in lanes or not, any axis of vectors."""
    draw = Draw(s, rng)
    row = s.loops("O")[0].name
    if draw.may(0.7):
        for block in ("Total", "E", "Top"):
            if draw.may(0.85):
                draw.do(s.compute_at, block, row)
    elif draw.may(0.3):
        draw.do(s.compute_inline, "E")
    for block in ("Top", "Total"):
        loops = draw.do(s.loops, block)
        if loops and draw.may(0.6):
            made = draw.do(s.split, loops[-1].name, draw.pick([16, 32, 64, 128]))
            if made is not None and draw.do(s.rfactor, made[1].name, axis=0) is not None:
                draw.vectorize(made[1].name, 0.9)
    for block in ("E", "O"):
        loops = draw.do(s.loops, block)
        if loops and draw.may(0.6):
            loop = loops[-1].name if draw.may(0.9) else loops[0].name
            draw.do(s.vectorize, loop, draw.pick([8, 16, 32, 64]))
        elif loops and len(loops) > 1 and draw.may(0.25):
            draw.do(s.reorder, loops[-1].name, loops[-2].name)


def random_blur(s: Schedule, rng: random.Random) -> None:
    """Inlined, kept in a window, by strips, or apart; rows first or columns first."""
    draw = Draw(s, rng)
    y, x = (loop.name for loop in s.loops("B"))
    how = draw.pick(["apart", "inline", "row", "strip", "tile"])
    lanes = draw.pick([8, 16, 16, 32, 64])
    if how == "inline":
        draw.do(s.compute_inline, "T")
    if how in ("row", "strip"):
        strip, inner = draw.split(y, [4, 16, 64]) if how == "strip" else (y, None)
        at = inner or strip
        draw.do(s.compute_at, "T", at)
        if draw.may(0.7) and draw.do(s.store_at, "T", *([strip] if inner else [])) is not None and draw.may(0.7):
            draw.do(s.fold_storage, "T", 0, 4)
    if how == "tile":
        (y, yi), (x, xi) = draw.split(y, [8, 32, 64]), draw.split(x, [64, 128, 256])
        draw.do(s.reorder, *(name for name in (y, x, yi, xi) if name is not None))
        draw.do(s.compute_at, "T", x)
    for block in ("T", "B"):
        loops = draw.do(s.loops, block)
        if not loops:
            continue
        if len(loops) > 1 and draw.may(0.2):
            draw.do(s.reorder, loops[-1].name, loops[-2].name)
        loops = s.loops(block)
        if how == "inline" and draw.may(0.4):
            _rows_together(draw, [loop.name for loop in loops], lanes)
        elif draw.may(0.7):
            loop = loops[-1].name if draw.may(0.9) else loops[0].name
            draw.do(s.vectorize, loop, lanes)


def _rows_together(draw: Draw, loops: list[str], lanes: int) -> None:
    (y, yi), (x, xi) = draw.split(loops[0], [2, 4, 8]), draw.split(loops[1], [lanes])
    draw.do(draw.s.reorder, *(name for name in (y, x, yi, xi) if name is not None))
    draw.vectorize(xi)
    draw.unroll(yi)


RECIPES: dict[str, Callable[[Schedule, random.Random], None]] = {
    "matmul": random_matmul,
    "conv": random_conv,
    "softmax": random_softmax,
    "blur": random_blur,
}
