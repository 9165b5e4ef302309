"""Windows of what a product makes: some channels of it at a time, kept with zeros around them, rows on threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from weft.auto.contraction_plan import Contraction
from weft.auto.contraction_tiles import contraction_plans
from weft.auto.draft import Draft
from weft.auto.driver import AutoSchedule
from weft.auto.plan import rank_plans
from weft.auto.scheduler import auto_schedule
from weft.target.cpu.host import NAMED, host_machine

MACHINE = NAMED["x86-64-avx512"]
CLAMP, SILU = "min(max({0}, 0.0), 6.0)", "({0}) * (1.0 / (1.0 + exp(-({0}))))"


def block(stride: int, rows: int, columns: int, taps: int = 3, act: str = CLAMP) -> str:
    """An expansion and a window of each channel of it, as inverted residual blocks have them."""
    pad = taps // 2
    return f"""
def block(float(N,H,W,C) X, float(F,C) A, float(F) B, float(F,{taps},{taps}) K, float(F) D) -> (O) {{
    E(n,y,x,f) +=! X(n,y,x,c) * A(f,c)
    G(n,y,x,f) = {act.format("E(n,y,x,f) + B(f)")}
    P(n,y,x,f) +=! G(n,{stride}*y + dy - {pad},{stride}*x + dx - {pad},f) * K(f,dy,dx)
        where G outside zero, y in 0:{rows}, x in 0:{columns}
    O(n,y,x,f) = {act.format("P(n,y,x,f) + D(f)")}
}}"""


def scheduled(
    image: tuple[int, ...], filters: int, stride: int = 1, threads: int = 1, act: str = CLAMP
) -> AutoSchedule:
    _, height, width, channels = image
    text = block(stride, -(-height // stride), -(-width // stride), act=act)
    shapes = [image, (filters, channels), (filters,), (filters, 3, 3), (filters,)]
    s = weft.schedule(weft.define(text), *shapes, numerics="fast")
    return auto_schedule(s, MACHINE, threads, frozenset("ABKD"))


def told(found: AutoSchedule, topic: str, subject: str) -> list[str]:
    return [d.what for d in found.decisions if (d.topic, d.subject) == (topic, subject)]


def test_channels_are_made_and_read_before_the_next() -> None:
    found = scheduled((1, 56, 56, 24), 144)
    assert "computed together with `E`, `G`, `P`" in told(found, "fusion", "O")
    assert told(found, "tiling", "O") == ["16 values of `vf` at a time"]
    assert told(found, "fusion", "G") == ["done at the end of each tile of `E`"]
    assert "done at the end of each tile of `P`" in told(found, "fusion", "O")
    assert "`G` is kept with zeros around it" in told(found, "packing", "P")


def test_a_window_of_two_steps_does_not_take_the_formula_into_itself() -> None:
    """It would compute it twice and more; done with each sum, it is done once."""
    found = scheduled((1, 112, 112, 16), 96, stride=2)
    assert told(found, "fusion", "G") == ["done at the end of each tile of `E`"]


def test_long_formulas_join_smaller_tiles() -> None:
    found = scheduled((1, 56, 56, 24), 144, act=SILU)
    assert told(found, "fusion", "G") == ["done at the end of each tile of `E`"]
    (tile,) = told(found, "registers", "E")
    assert int(tile.split()[2]) <= 13, "19 operations on each of more sums are too long to be written out"


def test_tiles_of_channels_come_out_even() -> None:
    assert told(scheduled((1, 28, 28, 40), 240), "tiling", "O") == ["16 values of `vf` at a time"]


@pytest.mark.parametrize(
    ("image", "filters", "stride", "size"),
    [((1, 112, 112, 16), 96, 2, 4), ((2, 112, 112, 16), 96, 2, 4), ((1, 56, 56, 24), 72, 1, 14)],
)
def test_strips_where_a_vector_of_channels_is_too_much_or_one_is_left_over(
    image: tuple[int, ...], filters: int, stride: int, size: int
) -> None:
    found = scheduled(image, filters, stride)
    assert f"{size} values of `vy` at a time" in told(found, "tiling", "O")
    assert "computed together with `E`, `G`, `P`" in told(found, "fusion", "O")


def test_few_windows_of_small_images_are_not_copied() -> None:
    """All columns are written out, the first and last row are code of their own: nothing is left to test."""
    text = """def depthwise(float(H,W,F) X, float(F,3,3) K) -> (O) {
        O(y,x,f) +=! X(y + dy - 1,x + dx - 1,f) * K(f,dy,dx) where X outside zero, y in 0:ROWS, x in 0:COLUMNS
    }"""
    for columns, is_copied in ((7, False), (14, False), (28, True)):
        named = text.replace("ROWS", str(columns)).replace("COLUMNS", str(columns))
        s = weft.schedule(weft.define(named), (columns, columns, 32), (32, 3, 3), numerics="fast")
        found = auto_schedule(s, MACHINE, 1, frozenset("K"))
        assert any("with zeros around it" in what for what in told(found, "packing", "O")) is is_copied
        x, k = (
            np.random.default_rng(5).standard_normal(n).astype(np.float32) for n in [(columns, columns, 32), (32, 3, 3)]
        )
        np.testing.assert_allclose(s.build()(x, k), windows(x[None], k, 1, columns, columns)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("image", "strips"), [((1, 56, 56, 24), True), ((2, 56, 56, 24), False)])
def test_threads_share_out_rows_or_images(image: tuple[int, ...], strips: bool) -> None:
    """As in kernels before and after it, so that a thread finds what it wrote."""
    found = scheduled(image, 144, threads=2)
    (reason,) = [d.why for d in found.decisions if (d.topic, d.subject) == ("parallel", "O")]
    assert ("its own rows" in reason) is strips


def test_tiles_of_windows_count_what_their_rows_share() -> None:
    """14 rows of pixels side by side load 57 vectors for 126 products; 3 x 10 took twice as long."""
    text = """def depthwise(float(H,W,F) X, float(F,3,3) K) -> (O) {
        O(y,x,f) +=! X(y + dy,x + dx,f) * K(f,dy,dx)
    }"""
    s = weft.schedule(weft.define(text), (58, 58, 32), (32, 3, 3), numerics="fast")
    draft = Draft(s, MACHINE, 1)
    stage = draft.stage("O")
    best = contraction_plans(draft, stage)[0]
    assert best.rows == (("vx", 14),)
    assert Contraction(stage, best, 16, draft.enough_sums).is_written_out


CASES = [
    ((1, 30, 30, 8), 32, 3, 1, CLAMP, 1), ((1, 31, 29, 8), 48, 3, 2, CLAMP, 2), ((2, 24, 28, 5), 32, 5, 1, SILU, 1),
    ((3, 17, 28, 16), 40, 3, 2, SILU, 2), ((1, 40, 28, 24), 96, 5, 2, CLAMP, 2), ((1, 28, 30, 16), 20, 3, 1, CLAMP, 2),
]  # fmt: skip


@pytest.mark.parametrize(("image", "filters", "taps", "stride", "act", "threads"), CASES)
def test_results(image: tuple[int, ...], filters: int, taps: int, stride: int, act: str, threads: int) -> None:
    _, height, width, channels = image
    rng = np.random.default_rng(3)
    shapes = [image, (filters, channels), (filters,), (filters, taps, taps), (filters,)]
    x, a, b, k, d = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    rows, columns = -(-height // stride), -(-width // stride)
    before = weft.get_num_threads()
    weft.set_num_threads(threads)
    try:
        made = weft.define(block(stride, rows, columns, taps, act)).bind(A=a, B=b, K=k, D=d)(x)
    finally:
        weft.set_num_threads(before)
    right = expected(act, x, a, b, k, d, stride)
    np.testing.assert_allclose(made, right, rtol=2e-5, atol=2e-5 * np.abs(right).max())


def expected(act: str, x: Any, a: Any, b: Any, k: Any, d: Any, stride: int) -> Any:
    """In float64."""
    expanded = _act(act, np.einsum("nyxc,fc->nyxf", x.astype(float), a) + b)
    return _act(act, windows(expanded, k, stride, -(-x.shape[1] // stride), -(-x.shape[2] // stride)) + d)


def windows(x: Any, k: Any, stride: int, rows: int, columns: int) -> Any:
    taps = k.shape[1]
    padded = np.pad(x.astype(float), ((0, 0), (taps // 2,) * 2, (taps // 2,) * 2, (0, 0)))
    right = np.zeros((len(x), rows, columns, x.shape[3]))
    for i in range(taps):
        for j in range(taps):
            part = padded[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]
            right += part * k[:, i, j]
    return right


STRIPS = [
    ((1, 30, 30, 8), 32, 3, 1, CLAMP, 1), ((1, 31, 29, 3), 20, 3, 2, CLAMP, 1), ((2, 24, 28, 5), 33, 5, 1, SILU, 1),
    ((3, 17, 28, 6), 40, 3, 2, SILU, 2), ((1, 40, 28, 7), 24, 5, 2, CLAMP, 2), ((1, 23, 30, 16), 24, 3, 1, CLAMP, 1),
    ((1, 37, 19, 5), 17, 7, 2, CLAMP, 1), ((1, 64, 16, 4), 48, 3, 2, CLAMP, 2),
]  # fmt: skip


@pytest.mark.parametrize(("image", "filters", "taps", "stride", "act", "threads"), STRIPS)
def test_results_in_strips(
    image: tuple[int, ...], filters: int, taps: int, stride: int, act: str, threads: int
) -> None:
    """As on a machine with a small second cache; strips also where they are only nearly the fastest plan."""
    _, height, width, channels = image
    rng = np.random.default_rng(4)
    shapes = [image, (filters, channels), (filters,), (filters, taps, taps), (filters,)]
    args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    s = weft.schedule(
        weft.define(block(stride, -(-height // stride), -(-width // stride), taps, act)), *shapes, numerics="fast"
    )
    machine = host_machine()
    caches = tuple(c._replace(size=1 << 16) if c.level == 2 else c for c in machine.facts.caches)
    small = replace(machine, facts=machine.facts._replace(caches=caches))
    found = auto_schedule(s, small, threads, frozenset("ABKD"), rank=_strips_first)
    assert any("what is in between takes" in d.why for d in found.decisions), found.decisions
    right = expected(act, *args, stride)
    np.testing.assert_allclose(s.build()(*args), right, rtol=2e-5, atol=2e-5 * np.abs(right).max())


def _strips_first(subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
    ranked = rank_plans(subject, plans, seconds)
    return sorted(ranked, key=lambda plan: getattr(plan, "strips", None) is None)


def _act(act: str, e: Any) -> Any:
    return np.clip(e, 0, 6) if act is CLAMP else e / (1 + np.exp(-e))
