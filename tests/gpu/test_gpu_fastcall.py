"""Calls by machine code on a GPU: torch tensors, the caller's stream, graphs, refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft.runtime import fastcall
from weft.runtime.fastcall_native import exchange_functions

AXPY = "def axpy(float(N) X, float(N) Y, float a) -> (Z) { Z(i) = a * X(i) + Y(i) }"
CHAIN = "def chain(float(N,M) X) -> (S) { T(i,j) = exp(X(i,j))  R(i) +=! T(i,j)  S(i,j) = T(i,j) / R(i) }"
LOOKUP = "def lookup(float(E) T, int(N) I) -> (O) { O(i) = T(I(i)) }"


@pytest.fixture(autouse=True)
def machine_code(torch: Any) -> None:
    if not fastcall.fast_calls_available() or exchange_functions(torch.Tensor) is None:
        pytest.skip("no fast calls here")


@contextlib.contextmanager
def no_python(op: Any) -> Iterator[None]:
    """Calls of ``op`` that machine code does not take fail."""

    def slow(*_: Any, **__: Any) -> None:
        raise AssertionError("a call went the slow way")

    op._call_slowly = slow
    try:
        yield
    finally:
        del op._call_slowly


def test_given_and_made(torch: Any) -> None:
    axpy = weft.define(AXPY)
    x, y, z = (torch.randn(1000, device="cuda") for _ in range(3))
    for _ in range(2):
        axpy(x, y, 1.0), axpy(x, y, 1.0, out=z)
    with no_python(axpy):
        for a in (2.0, 3, -0.5):
            made = axpy(x, y, a)
            assert axpy(x, y, a, out=z) is z
            torch.testing.assert_close(made, a * x + y)
            torch.testing.assert_close(z, made)
    assert made.device == x.device
    assert not made.requires_grad


def test_several_launches_with_temporaries(torch: Any) -> None:
    chain = weft.define(CHAIN, schedule="naive")
    x = torch.randn(30, 100, device="cuda")
    for _ in range(2):
        chain(x)
    with no_python(chain):
        for _ in range(50):
            x.normal_()
            torch.testing.assert_close(chain(x), torch.softmax(x, 1))


def test_streams_and_graphs(torch: Any) -> None:
    axpy, chain = weft.define(AXPY), weft.define(CHAIN, schedule="naive")
    x, m = torch.zeros(1 << 20, device="cuda"), torch.randn(8, 16, device="cuda")
    for _ in range(2):
        axpy(x, x, 1.0), chain(m)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with no_python(axpy), no_python(chain):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(3)
            z = axpy(x, x, 2.0)
            done = torch.cuda.Event()
            done.record()
        assert not done.query(), "a call must not wait for the GPU"
        side.synchronize()
        assert bool((z == 9).all())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            s = chain(m)
        m.normal_()
        graph.replay()
    torch.testing.assert_close(s, torch.softmax(m, 1))


def test_what_does_not_fit(torch: Any) -> None:
    def told(op: Any, *args: Any, **named: Any) -> str:
        try:
            op(*args, **named)
        except weft.Error as error:
            return str(error)
        return ""

    x, z = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
    needs = torch.randn(64, device="cuda", requires_grad=True)
    negative = torch._neg_view(x)
    calls = [
        ((x, needs, 1.0), z), ((needs, x, 1.0), None), ((negative, x, 1.0), z), ((x, x, 1.0), x), ((x, x[:9], 1.0), z),
        ((x.cpu(), x, 1.0), z), ((x.double(), x, 1.0), z), ((x, x, 1.0), z.half()), ((x, x, 1.0), z.cpu()),
        ((x, torch.nn.Parameter(x), 1.0), z), ((x[1:33], x[:32], 1.0), None), ((x.to_sparse(), x, 1.0), z),
    ]  # fmt: skip
    expected = [told(weft.define(AXPY), *args, out=out) for args, out in calls]
    axpy = weft.define(AXPY)
    for _ in range(2):
        axpy(x, x, 1.0), axpy(x, x, 1.0, out=z)
    for (args, out), error in zip(calls, expected):
        assert told(axpy, *args, out=out) == error
        with no_python(axpy):
            axpy(x, x, 2.0, out=z)
    assert sum(map(bool, expected)) >= 8
    with torch.no_grad():
        torch.testing.assert_close(axpy(needs, x, 2.0, out=z), 2 * needs + x)
        torch.testing.assert_close(axpy(negative, x, 2.0, out=z), x - 2 * x)


def test_an_assert_is_told_at_the_next_call(torch: Any) -> None:
    lookup, axpy = weft.define(LOOKUP), weft.define(AXPY)
    table, good = torch.randn(6, device="cuda"), torch.tensor([1, 5], dtype=torch.int32, device="cuda")
    x, z, out = torch.randn(64, device="cuda"), torch.empty(64, device="cuda"), torch.empty(2, device="cuda")
    for _ in range(2):
        lookup(table, good, out=out), axpy(x, x, 1.0, out=z)
    weft.cuda.synchronize()
    with no_python(lookup):
        lookup(table, good + 1, out=out)
    torch.cuda.synchronize()
    with pytest.raises(weft.ShapeError, match="lookup on cuda:0"):
        axpy(x, x, 1.0, out=z)
    with no_python(lookup), no_python(axpy):
        torch.testing.assert_close(lookup(table, good, out=out), table[[1, 5]])
        axpy(x, x, 1.0, out=z)
    weft.cuda.synchronize()


def test_memory_is_given_back(torch: Any) -> None:
    axpy = weft.define(AXPY)
    x = torch.randn(1 << 20, device="cuda")
    for _ in range(3):
        axpy(x, x, 1.0)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with no_python(axpy):
        for _ in range(100):
            axpy(x, x, 1.0)
    assert torch.cuda.memory_allocated() == before


def test_cupy(torch: Any, cupy: Any) -> None:
    """CuPy's arrays, whose class has no table for DLPack."""
    axpy = weft.define(AXPY)
    x, y = (cupy.random.rand(1000, dtype=cupy.float32) for _ in range(2))
    z = cupy.empty_like(x)
    for n in range(5):
        assert axpy(x, y, float(n), out=z) is z
        cupy.testing.assert_allclose(z, n * x + y, rtol=1e-6)
        made = axpy(x, y, float(n))
        assert type(made) is cupy.ndarray
        cupy.testing.assert_allclose(made, z)
    for given in (x[::2], x[::-1], x[1:500]):
        for _ in range(4):
            cupy.testing.assert_allclose(axpy(given, given, 2.0), 3 * given, rtol=1e-6)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(3):
            axpy(x, y, 2.0, out=z)
    stream.synchronize()
    cupy.testing.assert_allclose(z, 2 * x + y, rtol=1e-6)
    for wrong in (z[:9], z.astype(cupy.float64), x):
        with pytest.raises(weft.Error):
            axpy(x, y, 1.0, out=wrong)
