"""Sums, and extremes, into elements that several places add to: windows that overlap, strides, halves, transposed
convolutions. The automatic scheduler decides at small sizes what it does at large ones: parts of sums, threads.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
import weft.auto.scheduler
from weft.auto import draft, rows
from weft.ir.interpret import interpret
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import host_machine
from weft.tensor.evaluate import evaluate

#: What is written, of what, in sizes W, V, C: products of rows W and columns V along C.
WRITTEN = {
    "windows": "O(w+v)",
    "far apart": "O(3*w+v)",
    "back to back": "O(2*w+v)",
    "even ones": "O(2*w+2*v)",
    "backward": "O(w-v+8)",
    "halves": "O((w+v)/2)",
    "remainders": "O((2*w+v)%5)",
    "in two axes": "O(w+v,v)",
    "in both axes": "O(w+v,w+v)",
    "in one": "O(0*w+v)",
}
RANKS = {"in two axes": "(20,6)", "in both axes": "(20,20)"}
#: What is taken apart for sure: others have enough results to share, or subscripts that strategies leave alone.
TAKEN = {"windows", "far apart", "back to back", "even ones", "backward"}
SIZES = [(2, 3, 40, "+=!"), (2, 3, 40, "max=!"), (3, 2, 130, "+=!"), (5, 4, 67, "+=!"), (3, 1, 33, "min=!")]


def small_machine() -> Any:
    """This one with caches of 1, 4, 16 KiB ..., in which little is much."""
    host = host_machine()
    caches = tuple(cache._replace(size=4**n << 10) for n, cache in enumerate(host.facts.caches))
    fields = {name: getattr(host, name) for name in host.__slots__}
    return type(host)(**fields | {"facts": host.facts._replace(caches=caches)})


def scheduled(op: Any, arguments: list[Any], numerics: Any, threads: int) -> Any:
    """``op`` as the automatic scheduler would have it on a small machine."""
    machine = small_machine()
    built = build(op.program, check_call(op.interface, arguments, None).signature, machine, True)
    s = Schedule(built.unscheduled(), numerics=numerics, machine=machine, sizes=built.sizes)
    weft.auto.scheduler.auto_schedule(s, machine, threads)
    return s


def whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers of which sums are exact in any order."""
    return rng.integers(-4, 5, shape).astype(dtype)


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "THREAD_WORK", 1)
    monkeypatch.setattr(rows, "LONG_SUM", 16)


def check(text: str, arguments: list[Any], numerics: Any) -> int:
    """How many of the schedules make partial results; all of them compute what the program says."""
    op = weft.define(text, numerics=numerics)
    wanted, taken = evaluate(op.program, arguments)[0], 0
    for threads in (16,) if arguments[0].shape[0] % 2 else (1, 16):
        s = scheduled(op, arguments, numerics, threads)
        taken += "rfactor" in str(s.trace)
        found = op.with_schedule(s)(*arguments)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{threads} threads\n{s.trace}\n{s}")
    return taken


@pytest.mark.parametrize("numerics", ["fast", "strict"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("written", WRITTEN)
def test_sums(written: str, dtype: str, numerics: Any) -> None:
    rng, taken = np.random.default_rng(0), 0
    kind = {"float32": "float", "int32": "int32"}[dtype]
    for w, v, c, operator in SIZES:
        target = f"{kind}{RANKS.get(written, '(24)')} O"
        text = f"def f({kind}(W,C) I, {kind}(C,V) K) -> ({target}) {{ {WRITTEN[written]} {operator} I(w,c) * K(c,v) }}"
        arguments = [whole(rng, (w, c), dtype), whole(rng, (c, v), dtype)]
        taken += check(text, arguments, numerics)
    assert taken or written not in TAKEN, "none was taken apart"


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("written", WRITTEN)
def test_sums_by_hand(written: str, at: int) -> None:
    """What the check accepts keeps its meaning; sums along what chooses no element are accepted."""
    rng = np.random.default_rng(4)
    for w, v, c, operator in SIZES:
        text = f"def f(float(W,C) I, float(C,V) K) -> (float{RANKS.get(written, '(24)')} O) "
        text += f"{{ {WRITTEN[written]} {operator} I(w,c) * K(c,v) }}"
        arguments = [whole(rng, (w, c), "float32"), whole(rng, (c, v), "float32")]
        op = weft.define(text)
        wanted = evaluate(op.program, arguments)[0]
        s = weft.schedule(op, *arguments, numerics="fast")
        _, part = s.split("c", 8)
        s.rfactor(part, axis=at)
        found = np.zeros_like(wanted)
        interpret(s.kernel, [*arguments, found], uninitialized=["O"])
        np.testing.assert_array_equal(found, wanted, err_msg=str(s))


@pytest.mark.parametrize("numerics", ["fast", "strict"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
def test_transposed_convolutions(strides: tuple[int, int], numerics: Any) -> None:
    rng, (down, along) = np.random.default_rng(1), strides
    text = f"""def f(float(N,C,H,W) I, float(C,F,P,Q) K) -> (float(N,F,{down}*(H-1)+P,{along}*(W-1)+Q) O) {{
        O(n,f,{down}*h+p,{along}*w+q) +=! I(n,c,h,w) * K(c,f,p,q) }}"""
    for n, c, h, w, f, p, q in ((1, 64, 4, 4, 1, 3, 3), (2, 40, 2, 3, 3, 2, 5)):
        check(text, [whole(rng, (n, c, h, w), "float32"), whole(rng, (c, f, p, q), "float32")], numerics)


@pytest.mark.parametrize("numerics", ["fast", "strict"])
def test_sums_onto_what_is_there(numerics: Any) -> None:
    rng = np.random.default_rng(2)
    text = (
        "def f(float(W,C) I, float(C,V) K, float(M) Z) -> (float(M) O) { O(j) = Z(j)  O(2*w+2*v) += I(w,c) * K(c,v) }"
    )
    for w, v, c, _ in SIZES:
        arguments = [whole(rng, shape, "float32") for shape in ((w, c), (c, v), (2 * (w + v) + 3,))]
        check(text, arguments, numerics)


def test_gradients_of_strided_convolutions() -> None:
    """A shipped operator that is such a sum: at a size at which it is taken apart by itself too."""
    rng = np.random.default_rng(3)
    grad, kernel = whole(rng, (1, 16384, 1, 2), "float32"), whole(rng, (16384, 1, 1, 3), "float32")
    wanted = np.zeros(4)
    for w, k in itertools.product(range(2), range(3)):
        wanted[w + k] += grad[0, :, 0, w].astype(np.float64) @ kernel[:, 0, 0, k]
    found = weft.ops.conv2d_strided_grad_input(grad, kernel, 1, 1, 1, 4)
    np.testing.assert_array_equal(found.ravel(), wanted)
