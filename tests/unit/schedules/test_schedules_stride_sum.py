"""``stride_sum`` and ``write_out``: sums without the steps that a test never lets pass; iterations as statements."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.expr import idx
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.operators.schedule import OperatorSchedule
from weft.schedules.find import all_loops


def spread(size: int, stride: int, pad: int, sign: str = "") -> str:
    """A transposed convolution of one dimension, each result from the taps that reach it."""
    at = f"({sign}(t + {pad} - p))"
    return f"""def f(float(N,L,C) X, float(C,P,F) V) -> (float(N,{size},F) O) {{
        O(n,t,f) +=! {at} % {stride} == 0 ? X(n,(t + {pad} - p)/{stride},c) * V(c,p,f) : 0
            where t in 0:{size}, X outside zero
    }}"""


def start(text: str, numerics: str = "strict", taps: int = 4) -> OperatorSchedule:
    return weft.schedule(weft.define(text), numerics=numerics, X=(2, 5, 3), V=(3, taps, 2))


def check(s: OperatorSchedule, text: str, taps: int = 4) -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 5, 3), (3, taps, 2))]
    wanted = weft.define(text)(*args)
    verify(s.kernel)
    got = np.full(wanted.shape, np.nan, np.float32)
    interpret(s.kernel, [*args, got.reshape([int(n.value) for n in s.kernel.buffers[-1].shape])])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize("sign", ["", "-"])
def test_any_residues(stride: int, pad: int, sign: str) -> None:
    text = spread(12, stride, pad, sign)
    s = start(text)
    s.stride_sum("O", "vp")
    check(s, text)
    s = start(text)
    s.split_axis("O", 1, stride)
    s.stride_sum("O", "vp")
    check(s, text)


def test_what_is_left_of_a_window() -> None:
    """Two of four taps reach each result; subscripts are sums again."""
    s = start(spread(12, 2, 1))
    s.split_axis("O", 1, 2)
    loop = s.stride_sum("O", "vp")
    assert [str(x) for x in s.loops("O")] == ["n", "t_o", "t_i", "f", str(loop), "c"]
    text = print_kernel(s.kernel)
    assert "X[vn, vt_i + vt_o - vp_s, vc]" in text
    assert "V[vc, vp_s * 2 - vt_i + 1, vf]" in text
    assert "%" not in text


@pytest.mark.parametrize("taps", [3, 5])
def test_each_of_a_group_has_its_own_taps(taps: int) -> None:
    text = spread(12, 2, 1)
    s = start(text, taps=taps)
    s.split_axis("O", 1, 2)
    s.reorder("t_i", "n", "t_o", "f", "p", "c")
    blocks = s.write_out("t_i")
    assert [str(b) for b in blocks] == ["O", "O_1"]
    for block in blocks:
        s.stride_sum(block, "vp")
    counts = [[loop.hi for loop in all_loops(s.kernel.body) if loop.var.name.startswith("p")]]
    assert counts == [[idx((taps - 1) // 2), idx((taps + 1) // 2)]]
    check(s, text, taps)


def test_refusals() -> None:
    s = start(spread(12, 2, 1))
    with pytest.raises(ScheduleError, match="does not sum over `vt`"):
        s.stride_sum("O", "vt")
    with pytest.raises(ScheduleError, match="no test of what `O` adds"):
        s.stride_sum("O", "vc")
    with pytest.raises(ScheduleError, match="does not run from 0 up to a number that is at most 16"):
        weft.schedule(weft.define(spread(40, 2, 1)), X=(2, 19, 3), V=(3, 4, 2)).write_out("t")
    s.parallel("n")
    with pytest.raises(ScheduleError, match="is a parallel loop"):
        s.write_out("n")
    s.split("p", 2)
    with pytest.raises(ScheduleError, match="does not run in a loop of its own"):
        s.stride_sum("O", "vp")


REDUCED = {
    "a sum": "def f(float(M,K,L) A) -> (y) { y(m) +=! A(m,k,l) }",
    "a maximum": "def f(float(M,K,L) A) -> (y) { y(m) max=! A(m,k,l) }",
    "the place of a minimum": "def f(float(M,K,L) A) -> (y) { y(m,l) argmin=! A(m,k,l) }",
    "what is formed of sums": "def f(float(M,K,L) A) -> (y) { s(m,l) +=! A(m,k,l)  y(m) max=! s(m,l) }",
}


@pytest.mark.parametrize("text", REDUCED.values(), ids=REDUCED)
@pytest.mark.parametrize("steps", ["", "split", "reorder", "decompose"])
def test_reductions_written_out_start_once(text: str, steps: str) -> None:
    a = np.random.default_rng(0).standard_normal((3, 5, 2)).astype(np.float32)
    op = weft.define(text, numerics="strict")
    s = weft.schedule(op, a)
    wanted = np.asarray(op.with_schedule("naive")(a))
    block, loop = str(s.blocks()[0]), "k"
    if steps == "split":
        loop = str(s.split("k", 2)[1])
    elif steps == "reorder":
        s.reorder("k", s.loops(block)[0])
    elif steps == "decompose" and "arg" not in text:
        s.decompose_reduction(block, "k")
    s.write_out(loop)
    verify(s.kernel)
    found = np.full_like(wanted, 7)
    interpret(s.kernel, [a, found], uninitialized=["y"])
    np.testing.assert_array_equal(found, wanted)
