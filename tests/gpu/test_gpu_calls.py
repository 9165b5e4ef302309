"""Calls with arrays on a GPU: frameworks, streams, layouts, outputs, graphs, sizes that vary."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import weft

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
AXPY = "def axpy(float(N) X, float(N) Y, float a) -> (Z) { Z(i) = a * X(i) + Y(i) }"
TWO = "def two(float(N) X) -> (Y, Z) { Y(i) = X(i) * 2  Z(i) = Y(i) + 1 }"
CHAIN = "def chain(float(N,M) X) -> (S) { T(i,j) = exp(X(i,j))  R(i) +=! T(i,j)  S(i,j) = T(i,j) / R(i) }"
COUNT = "def count(int(N) I, float(M) Z) -> (float(M) O) { O(I(i)) += 1.0 }"


def test_torch(torch: Any) -> None:
    mm = weft.define(MM)
    a, b = torch.randn(70, 33, device="cuda"), torch.randn(33, 50, device="cuda")
    for _ in range(3):
        c = mm(a, b)
        assert c.is_cuda
        assert c.shape == (70, 50)
        torch.testing.assert_close(c, (a.double() @ b.double()).float())
    out = torch.full((70, 50), float("nan"), device="cuda")
    for _ in range(3):
        assert mm(a, b, out=out) is out
        torch.testing.assert_close(out, c)
    torch.testing.assert_close(mm(A=a, B=b), c)


def test_layouts_and_alignment(torch: Any) -> None:
    axpy = weft.define(AXPY)
    base = torch.randn(4097, device="cuda")
    for x in (base[1:], base[:4096], base[::2][:2048], base[3:1003], base[:1], base[:0]):
        y = torch.randn_like(x)
        for _ in range(2):
            torch.testing.assert_close(axpy(x, y, 2.5), 2.5 * x + y)
    mm = weft.define(MM)
    a, b = torch.randn(64, 48, device="cuda"), torch.randn(64, 40, device="cuda")
    for _ in range(2):
        torch.testing.assert_close(mm(a.t(), b), (a.double().t() @ b.double()).float())
    out = torch.empty(40, 48, device="cuda").t()
    for _ in range(2):
        mm(a.t(), b, out=out)
        torch.testing.assert_close(out, (a.double().t() @ b.double()).float())


def test_scalars(torch: Any) -> None:
    axpy = weft.define(AXPY)
    x = torch.randn(100, device="cuda")
    for a in (2, 0.5, True, np.float32(3), float("inf"), 1e39, -1e39, torch.tensor(2.0)):
        expected = torch.tensor(float(a), device="cuda", dtype=torch.float32) * x + x
        torch.testing.assert_close(axpy(x, x, a), expected, equal_nan=True)


def test_several_outputs_and_temporaries(torch: Any) -> None:
    x = torch.randn(1000, device="cuda")
    for schedule in ("auto", "naive"):
        two = weft.define(TWO, schedule=schedule)
        for _ in range(2):
            y, z = two(x)
            torch.testing.assert_close(y, x * 2)
            torch.testing.assert_close(z, x * 2 + 1)
        chain = weft.define(CHAIN, schedule=schedule)
        m = torch.randn(30, 100, device="cuda")
        for _ in range(3):
            torch.testing.assert_close(chain(m), torch.softmax(m, 1))


def test_accumulation_starts_where_the_program_says(torch: Any) -> None:
    count = weft.define(COUNT)
    i = torch.tensor([0, 2, 2, 1, 2], dtype=torch.int32, device="cuda")
    z = torch.zeros(4, device="cuda")
    for _ in range(2):
        torch.testing.assert_close(count(i, z), torch.tensor([1.0, 1, 3, 0], device="cuda"))
    out = torch.full((4,), 10.0, device="cuda")
    count(i, z, out=out)
    torch.testing.assert_close(out, torch.tensor([11.0, 11, 13, 10], device="cuda"))


def test_streams_of_torch(torch: Any) -> None:
    """Work goes to the current stream: what was put there before is waited for, on the GPU."""
    axpy = weft.define(AXPY)
    x = torch.zeros(1 << 20, device="cuda")
    axpy(x, x, 1.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(3)
        for _ in range(3):
            z = axpy(x, x, 2.0)
        done = torch.cuda.Event()
        done.record()
    assert not done.query(), "a call must not wait for the GPU"
    side.synchronize()
    assert bool((z == 9).all())


def test_graph_capture(torch: Any) -> None:
    chain = weft.define(CHAIN, schedule="naive")  # several launches and temporaries
    mm = weft.define(MM)
    x, w = torch.randn(8, 16, device="cuda"), torch.randn(16, 4, device="cuda")
    mm(chain(x), w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = mm(chain(x), w)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, torch.softmax(x, 1) @ w, rtol=1e-4, atol=1e-5)


def test_the_first_call_may_be_captured(torch: Any) -> None:
    op = weft.define("def fresh(float(N) X, int(N) I) -> (Y) { Y(i) = X(I(i)) * 7 + 3 }")
    x, i = torch.randn(128, device="cuda"), torch.arange(128, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x, i)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, x * 7 + 3)


def test_types(torch: Any) -> None:
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8"):
        double = weft.define(f"def double({name}(N) X) -> (Y) {{ Y(i) = X(i) + X(i) }}")
        x = torch.arange(60, device="cuda").to(getattr(torch, name))
        for _ in range(2):
            torch.testing.assert_close(double(x), x + x)


def test_threads(torch: Any) -> None:
    axpy = weft.define(AXPY)
    wrong: list[Any] = []

    def work(n: int) -> None:
        x = torch.full((1000 + n % 2,), float(n), device="cuda")
        for k in range(200):
            z = axpy(x, x, float(k))
            if k % 50 == 0 and not bool((z == n * k + n).all()):
                wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_cupy(cupy: Any) -> None:
    mm = weft.define(MM)
    a, b = cupy.random.rand(40, 30, dtype=cupy.float32), cupy.random.rand(30, 20, dtype=cupy.float32)
    for _ in range(3):
        c = mm(a, b)
        assert isinstance(c, cupy.ndarray)
        cupy.testing.assert_allclose(c, a @ b, rtol=1e-5)
    out = cupy.empty((40, 20), dtype=cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(2):
            mm(a, b, out=out)
    stream.synchronize()
    cupy.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_arrays_of_others() -> None:
    """Weft's own arrays speak DLPack; anything that does is taken."""
    x = np.random.default_rng(0).random(1000, dtype=np.float32)

    class Interface:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    class Dlpack:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **named: Any) -> Any:
            return self.array.__dlpack__(**named)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    axpy = weft.define(AXPY)
    given = weft.cuda.DeviceArray.from_numpy(x)
    for wrap in (lambda a: a, Interface, Dlpack):
        z = axpy(wrap(given), wrap(given), 2.0)
        np.testing.assert_allclose(z.numpy(), 3 * x, rtol=1e-6)
        out = weft.cuda.DeviceArray.from_numpy(np.zeros_like(x))
        axpy(given, given, 4.0, out=wrap(out))
        np.testing.assert_allclose(out.numpy(), 5 * x, rtol=1e-6)


def test_results_of_our_own_go_to_torch(torch: Any) -> None:
    x = weft.cuda.DeviceArray.from_numpy(np.arange(10, dtype=np.float32))
    y = torch.from_dlpack(weft.define(AXPY)(x, x, 1.0))
    torch.testing.assert_close(y, 2 * torch.arange(10.0, device="cuda"))
    del x
    assert float(y.sum()) == 90


def test_frameworks_mix(torch: Any, cupy: Any) -> None:
    axpy = weft.define(AXPY)
    x, y = torch.randn(100, device="cuda"), cupy.arange(100, dtype=cupy.float32)
    for _ in range(2):
        z = axpy(x, y, 2.0)
        torch.testing.assert_close(z, 2 * x + torch.arange(100.0, device="cuda"))


JAX = """
import jax, numpy as np, weft
x = jax.numpy.arange(1000, dtype=jax.numpy.float32)
axpy = weft.define("def axpy(float(N) X, float(N) Y, float a) -> (Z) { Z(i) = a * X(i) + Y(i) }")
for _ in range(2):
    z = jax.numpy.from_dlpack(axpy(x, x, 2.0))
    np.testing.assert_allclose(np.asarray(z), 3 * np.arange(1000))
print("done")
"""


def test_jax() -> None:
    pytest.importorskip("jax")
    env = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run([sys.executable, "-c", JAX], capture_output=True, text=True, timeout=120, env=env)
    if "Unable to initialize backend" in done.stderr:
        pytest.skip("jax without CUDA")
    assert "done" in done.stdout, done.stderr


CAPTURED = """
import torch, weft
op = weft.define("def fresh(float(N) X, int(N) I) -> (Y) { Y(i) = X(I(i)) * 5 + 3 }")
x, i = torch.randn(128, device="cuda"), torch.arange(128, dtype=torch.int32, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = op(x, i)
x.normal_()
graph.replay()
torch.testing.assert_close(y, x * 5 + 3)
i.add_(1)
graph.replay()
try:
    weft.cuda.synchronize()
except weft.ShapeError as error:
    print("done")
"""


def test_the_first_call_of_a_process_may_be_captured(torch: Any) -> None:
    done = subprocess.run([sys.executable, "-c", CAPTURED], capture_output=True, text=True, timeout=120)
    assert "done" in done.stdout, done.stderr


def test_dynamic_sizes(torch: Any) -> None:
    mm = weft.define(MM, dynamic=["M"])
    b = torch.randn(24, 16, device="cuda")
    for m in (1, 7, 64, 1000, 7):
        a = torch.randn(m, 24, device="cuda")
        torch.testing.assert_close(mm(a, b), (a.double() @ b.double()).float())


def test_bound_arrays(torch: Any) -> None:
    w, x = torch.randn(24, 16, device="cuda"), torch.randn(8, 24, device="cuda")
    layer = weft.define(MM).bind(B=w)
    expected = (x.double() @ w.double()).float()
    w.zero_()
    for _ in range(3):
        torch.testing.assert_close(layer(x), expected)


def test_kept_code_is_found_again(torch: Any) -> None:
    x = torch.randn(100, device="cuda")
    first = weft.define(TWO)
    first(x)
    again = weft.define(TWO)
    torch.testing.assert_close(again(x)[0], x * 2)


def test_loop_programs(torch: Any, run_kernel: Any) -> None:
    text = """kernel reverse(X: float32[n], out Y: float32[n], n: int64) {
      block b in 0:(n + 63) // 64 {
        alloc S: float32[64] in shared {
          thread t in 0:64 {
            if b * 64 + t < n { S[t] = X[b * 64 + t] }
            barrier(block)
            if b * 64 + t < n { Y[n - 1 - b * 64 - t] = S[t] }
          }
        }
      }
    }"""
    x = np.arange(1000, dtype=np.float32)
    _, y = run_kernel(text, [x, np.zeros_like(x), 1000])
    np.testing.assert_array_equal(y, x[::-1])
    given, out = torch.arange(100.0, device="cuda"), torch.empty(100, device="cuda")
    weft.kernel(text)(given, out, 100)
    torch.testing.assert_close(out, given.flip(0))


def test_stages_are_for_this_gpu(torch: Any) -> None:
    mm = weft.define(MM)
    a = torch.randn(16, 16, device="cuda")
    assert "__global__" in mm.show("cuda", a, a)
    assert ".target sm_" in mm.show("ptx", a, a)
    assert "block" in mm.show("loops", a, a)
    assert "sm_" in mm.explain(a, a)
    s = mm.schedule(a, a)
    built = s.build()
    torch.testing.assert_close(built(a, a), (a.double() @ a.double()).float())


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "transpose"])
def test_the_library(torch: Any, name: str) -> None:
    op = getattr(weft.ops, name)
    shapes = [tuple(8 if isinstance(d, str) else d for d in p.dims) for p in op.interface.params]
    arrays = [np.random.default_rng(1).random(s, dtype=np.float32) for s in shapes]
    expected = op(*arrays)
    result = op(*(torch.from_numpy(a).cuda() for a in arrays))
    for one, other in zip(
        result if isinstance(result, tuple) else (result,), expected if isinstance(expected, tuple) else (expected,)
    ):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-4, atol=1e-5)
