"""Stages, schedules and explanations for a target that need not be here."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, ScheduleError, UnsupportedError
from weft.operators.quick_arguments import CUPY, TORCH, guarded_reader, make_guard, reader_text

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
A = np.zeros((32, 32), np.float32)


@pytest.fixture(autouse=True)
def _one_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CUDA_ARCH", "sm_90")


def test_stages_of_a_gpu_without_one() -> None:
    mm = weft.define(MM)
    assert "__global__" in mm.show("cuda", A, A)
    assert ".target sm_90" in mm.show("ptx", A, A)
    assert "thread " in mm.show("loops", A, A, target="cuda")
    assert "thread " not in mm.show("loops", A, A)
    assert "thread" in mm.show("lowered", A, A, target="cuda")
    assert "sm_90" in mm.explain(A, A, target="cuda")
    with pytest.raises(ArgumentError, match="there is no target `gpu`"):
        mm.show("loops", A, A, target="gpu")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="stage `asm` is not one of a cuda program"):
        mm.show("asm", A, A, target="cuda")


def test_the_architecture_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CUDA_ARCH", "sm_80")
    assert ".target sm_80" in weft.define(MM).show("ptx", A, A)


def test_schedules_for_a_gpu() -> None:
    mm = weft.define(MM)
    s = mm.schedule(A=(32, 32), B=(32, 32), target="cuda")
    assert "bind" in str(s.trace)
    assert "__global__" in s.build().show("cuda", A, A)
    bare = weft.schedule(mm, A=(32, 32), B=(32, 32), target="cuda")
    m, n, _ = bare.loops("C")
    bare.bind(m, "block")
    bare.bind(n, "thread")
    assert "threadIdx.x" in bare.build().show("cuda", A, A)


def test_polyhedral_schedules_are_for_cpus() -> None:
    with pytest.raises(UnsupportedError, match="is for CPUs"):
        weft.define(MM, schedule="polyhedral").show("cuda", A, A)


def test_the_reader_of_a_call_is_written_out() -> None:
    op = weft.define("def f(float(N) X, float a, int S) -> (Y) { Y(i) = X(S*i) * a }")
    text = reader_text(op.interface, TORCH)
    assert text.splitlines()[:4] == [
        "def read(args, out):",
        "  (a0, a1, a2, ) = args",
        "  if type(a1) is not float or not -3.4e38 <= a1 <= 3.4e38: raise Unusual",
        "  if type(a2) is not int or not -2147483648 <= a2 <= 2147483647: raise Unusual",
    ]
    assert "return (a2, type(a0), a0.dtype, a0.shape" in text
    assert "a0.strides" in reader_text(op.interface, CUPY)


def test_a_step_that_does_not_fit_is_refused() -> None:
    s = weft.schedule(weft.define(MM), A=(32, 32), B=(32, 32), target="cuda")
    with pytest.raises(ScheduleError):
        s.bind(s.loops("C")[2], "thread")


def test_torch_s_guards_know_calls_again() -> None:
    torch = pytest.importorskip("torch")
    op = weft.define("def f(float(N) X, float a, int S) -> (Y, Z) { Y(i) = X(S*i) * a  Z(i) = Y(i) }")
    read = guarded_reader(op.interface)
    x, y, z = (torch.zeros(64) for _ in range(3))
    fresh = [make_guard([x], (2,), "fresh")]
    given = [make_guard([x, y, z], (2,), "given"), make_guard([x, y[:32], z[:32]], (2,), "half")]
    if None in (*fresh, *given):
        pytest.skip("a torch without them")
    a, b, c = x.data_ptr(), y.data_ptr(), z.data_ptr()
    assert read((x, 1.5, 2), None, fresh, given) == ("fresh", [a, 1.5])
    assert read((x, 1.5, 2), (y, z), fresh, given) == ("given", [a, 1.5, b, c])
    assert read((x, 1.5, 2), (y[:32], z[:32]), fresh, given) == ("half", [a, 1.5, b, c])
    unlike = [x[1:33], x.double(), x[:32], x.view(8, 8), x.expand(2, 64), torch._neg_view(x), np.zeros(64, np.float32)]
    unlike += [torch.nn.Parameter(x), x.to("meta"), x[4:36][None][0]]
    for other in unlike:
        assert read((other, 1.5, 2), None, fresh, given) is None
    for numbers in ((1, 2), (1.5, 3), (1e39, 2), (1.5, 2.0), (True, 2)):
        assert read((x, *numbers), None, fresh, given) is None
    assert make_guard([x.clone().requires_grad_()], (), None) is None
    assert make_guard([x[1:]], (), None) is None
