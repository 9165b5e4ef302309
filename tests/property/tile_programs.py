"""Random programs of overlapping tiles: blocks compute a few steps of a stencil in shared memory, wider at first.

Most are what `weft.passes.gpu_to_cpu.merge_blocks` merges, at borders of all kinds; some ask for the thread or the
block itself, read where nobody stored, or leave gaps. What has no meaning the interpreter finds, and it is dropped.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Borders: how the neighbour of the place `x`, thread `t`, is found on either side.
CLAMPED = ("{x} == 0 ? {t} : {t} - {d}", "{x} == {n} - 1 ? {t} : {t} + {d}")
PLAIN = ("{t} - {d}", "{t} + {d}")


@dataclass(frozen=True)
class Axis:
    """One dimension of the tiles: its names, how many threads, how many of their results each block keeps."""

    block: str
    thread: str
    place: str
    size: str
    threads: int
    stride: int
    halo: int


def tile_program(seed: int) -> str:
    """A program; the same seed gives the same one."""
    rng = random.Random(seed)
    steps, reach = rng.randint(1, 4), rng.choice([0, 1, 1, 1, 2])
    axes = [_axis(rng, d, steps, reach) for d in range(rng.choice([1, 1, 2]))]
    borders = CLAMPED if reach < 2 and rng.random() < 0.6 else PLAIN
    edge = 0 if borders is CLAMPED else steps * reach  # without borders only what has all its neighbours is asked for
    return "\n".join([*_head(axes), *_body(rng, axes, steps, reach, borders, edge), *("} }" for _ in axes), "}"])


def _axis(rng: random.Random, dimension: int, steps: int, reach: int) -> Axis:
    halo = steps * reach
    kept = rng.choice([3, 4, 8, 12] if dimension == 0 else [2, 3])
    odd = rng.choice([0, 0, 0, 0, 0, 0, 1, -1])  # blocks that leave gaps, or compute results twice
    name = "xy"[dimension]
    return Axis(f"b{name}", f"t{name}", name, f"n{name}", kept + 2 * halo, max(1, kept + odd), halo)


def _head(axes: list[Axis]) -> list[str]:
    shape = ", ".join(a.size for a in reversed(axes))
    sizes = ", ".join(f"{a.size}: int64" for a in axes)
    blocks = " { ".join(f"block {a.block} in 0:({a.size} + {a.stride - 1}) // {a.stride}" for a in reversed(axes))
    tile = ", ".join(str(a.threads) for a in reversed(axes))
    threads = " { ".join(f"thread {a.thread} in 0:{a.threads}" for a in reversed(axes))
    places = [f"let {a.place}: int64 = {a.block} * {a.stride} + {a.thread} - {a.halo}" for a in axes]
    return [
        f"kernel tiles({sizes}, A: int32[{shape}], C: int32[{shape}], out B: int32[{shape}]) {{ {blocks} {{",
        f"alloc S: int32[{tile}] in shared",
        f"alloc T: int32[{tile}] in shared",
        f"{threads} {{",
        *places,
        "let inside: bool = " + " && ".join(f"{a.place} >= 0 && {a.place} < {a.size}" for a in axes),
    ]


def _body(
    rng: random.Random, axes: list[Axis], steps: int, reach: int, borders: tuple[str, str], edge: int
) -> list[str]:
    own = ", ".join(a.thread for a in reversed(axes))
    here = ", ".join(a.place for a in reversed(axes))
    lines = [f"if inside {{ S[{own}] = A[{here}] }}", "barrier(block)"]
    source, to = "S", "T"
    copies, odd = rng.random() < 0.5, rng.random()
    for step in range(1, steps + 1):
        near = max(0, step * reach + (rng.choice([-1, 1]) if odd < 0.05 else 0))
        valid = [f"{a.thread} >= {near} && {a.thread} < {a.threads - near}" for a in axes]
        if edge:
            valid += [f"{a.place} >= {step * reach} && {a.place} < {a.size} - {step * reach}" for a in axes]
        value = _value(rng, axes, source, reach, borders, own, here, odd)
        lines += [f"if inside && {' && '.join(valid)} {{ {to}[{own}] = {value} }}", "barrier(block)"]
        if copies and step < steps:
            lines += [f"if inside && {' && '.join(valid)} {{ {source}[{own}] = {to}[{own}] }}", "barrier(block)"]
        else:
            source, to = to, source
    kept = [f"{a.thread} >= {a.halo} && {a.thread} < {a.threads - a.halo}" for a in axes]
    kept += [f"{a.place} >= {edge} && {a.place} < {a.size} - {edge}" for a in axes if edge]
    return [*lines, f"if inside && {' && '.join(kept)} {{ B[{here}] = {source}[{own}] }}"]


def _value(
    rng: random.Random, axes: list[Axis], source: str, reach: int, borders: tuple[str, str], own: str, here: str,
    odd: float,
) -> str:  # fmt: skip
    terms = [f"{source}[{own}]"]
    for axis in axes:
        for side in borders:
            if reach and rng.random() < 0.9:
                index = side.format(x=axis.place, t=axis.thread, n=axis.size, d=reach)
                terms.append(f"{source}[{', '.join(index if a is axis else a.thread for a in reversed(axes))}]")
    if rng.random() < 0.5:
        terms.append(f"C[{here}]")
    if 0.05 < odd < 0.12:
        terms.append(rng.choice([f"int32({axes[0].thread})", f"int32({axes[0].block})", f"int32({axes[0].place})"]))
    operators = [rng.choice([" + ", " - ", " * "]) for _ in terms[1:]]
    return terms[0] + "".join(op + term for op, term in zip(operators, terms[1:]))
