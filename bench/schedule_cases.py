"""The rows of `bench.schedules`: what is computed, by which schedule, and who else can do it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import blur
import convolution
import matmul
import narrow
import numpy as np
import rows
import torch
from torch.nn.functional import conv2d, gelu, layer_norm

import weft
from bench.schedule_peers import halide_blurs, onnx_call, torch_compiled
from bench.schedule_shapes import CONVOLUTIONS, SIZES
from bench.schedules import Call, Case, Peer


def _case(
    group: str,
    name: str,
    make: Callable[[], weft.Operator],
    args: tuple[Any, ...],
    expected: Any,
    peers: list[Peer],
    **facts: float,
) -> Case:
    """A row whose operator is built, timed once while it is, and right."""
    start = time.perf_counter()
    op = make()
    found = op(*args)
    took = time.perf_counter() - start
    close = torch.allclose(found.reshape(expected.shape).float(), expected.float(), rtol=1e-3, atol=2e-2)
    if not close:
        raise AssertionError(f"{name} is wrong")
    return Case(group, name, lambda: op(*args), lambda: op(*args, out=found), peers, built_s=took, **facts)


def matmuls(threads: int, compiled: bool) -> Iterator[Case]:
    """Sizes are rows, depth, columns."""
    for m, k, n in SIZES:
        yield _matmul(f"matmul {m}x{k}x{n}", m, n, k)
    yield _matmul("A B^T 1024", 1024, 1024, 1024, "B")
    yield _matmul("A^T B 1024", 1024, 1024, 1024, "A")
    x, y = torch.randn(12, 128, 64), torch.randn(12, 64, 128)
    out = torch.empty(12, 128, 128)
    peer = Peer("torch", lambda: torch.matmul(x, y, out=out), filling=True)
    make = functools.partial(matmul.schedule_batched_matmul, 12, 128, 128, 64)
    yield _case("f32 matmul", "batched 12x128x64x128", make, (x, y), x @ y, [peer], work=2.0 * 12 * 128 * 64 * 128)


def _matmul(name: str, m: int, n: int, k: int, transposed: str = "") -> Case:
    a = torch.randn(k, m) if transposed == "A" else torch.randn(m, k)
    b = torch.randn(n, k) if transposed == "B" else torch.randn(k, n)
    left, right = a.t() if transposed == "A" else a, b.t() if transposed == "B" else b
    out = torch.empty(m, n)
    peer = Peer("torch", lambda: torch.matmul(left, right, out=out), filling=True)
    make = functools.partial(matmul.schedule_matmul, m, n, k, transposed=transposed)
    return _case("f32 matmul", name, make, (a, b), left @ right, [peer], work=2.0 * m * n * k)


def convolutions(threads: int, compiled: bool) -> Iterator[Case]:
    for c, size, f, k, pad, step in CONVOLUTIONS:
        image, kernel = torch.randn(1, c, size, size), torch.randn(f, c, k, k)
        packed = torch.from_numpy(convolution.pack_weights(kernel.numpy()))
        expected = conv2d(image, kernel, padding=pad, stride=step)
        make = functools.partial(convolution.schedule_conv2d, tuple(image.shape), tuple(packed.shape), pad, step)
        name = f"conv {k}x{k}{'/2' if step == 2 else ''} {c}->{f} @{size}"
        peers = _conv_peers(image, kernel, threads, padding=pad, stride=step)
        work = 2.0 * expected.numel() * c * k * k
        yield _case("f32 convolution", name, make, (image, packed, pad, step), expected, peers, work=work)
    image, kernel = torch.randn(1, 32, 112, 112), torch.randn(32, 1, 3, 3)
    expected = conv2d(image, kernel, padding=1, groups=32)
    make = functools.partial(convolution.schedule_depthwise, tuple(image.shape), (32, 3, 3), 1)
    peers = _conv_peers(image, kernel, threads, padding=1, stride=1, groups=32)
    args = (image, kernel[:, 0].contiguous(), 1)
    yield _case("f32 convolution", "depthwise 3x3 32 @112", make, args, expected, peers, work=18.0 * expected.numel())


def _conv_peers(image: Any, kernel: Any, threads: int, *, padding: int, stride: int, groups: int = 1) -> list[Peer]:
    """oneDNN through torch, with weights packed once where torch can, and onnxruntime."""
    facts = ([padding] * 2, [stride] * 2, [1, 1], groups)
    packed = torch.ops.mkldnn._reorder_convolution_weight(kernel, *facts, list(image.shape))
    peers = [
        Peer("torch", lambda: conv2d(image, kernel, padding=padding, stride=stride, groups=groups)),
        Peer(
            "torch, packed",
            lambda: torch.ops.mkldnn._convolution_pointwise(image, packed, None, *facts, "none", [], ""),
        ),
    ]
    attributes = {"pads": [padding] * 4, "strides": [stride] * 2, "group": groups}
    call = onnx_call("Conv", {"X": image.numpy()}, threads, constants={"W": kernel.numpy()}, **attributes)
    return peers + onnx_peer(call)


def blurs(threads: int, compiled: bool) -> Iterator[Case]:
    image = torch.rand(2048, 3072)
    op = weft.define(blur.BLUR)

    def make() -> weft.Operator:
        s = weft.schedule(op, A=tuple(image.shape), numerics="fast")
        blur.rows_in_registers(s)
        return s.build()

    peers = [Peer(name, call, filling=True) for name, call in halide_blurs(image.numpy(), threads).items()]
    yield _case("blur", "two-stage blur 2048x3072", make, (image,), op(image), peers)


def by_rows(threads: int, compiled: bool) -> Iterator[Case]:
    x, b, g, square = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024), torch.randn(4096, 4096)
    like, turned, bias = torch.empty_like(x), torch.empty_like(square), torch.empty_like(x)
    row, column = torch.empty(4096), torch.empty(1024)
    table: list[tuple[str, Callable[..., weft.Operator], Callable[..., Any], Call | None, tuple[Any, ...], str]] = [
        (
            "softmax",
            rows.schedule_softmax,
            lambda x: x.softmax(1),
            lambda: torch.softmax(x, 1, out=like),
            (x,),
            "Softmax",
        ),
        ("layer norm", rows.schedule_layer_norm, _layer_norm, None, (x, g, b), "LayerNormalization"),
        (
            "bias + GELU",
            rows.schedule_bias_gelu,
            lambda x, b: gelu(x + b),
            lambda: torch._C._nn.gelu(torch.add(x, b, out=bias), out=like),
            (x, b),
            "bias_gelu",
        ),
        ("sums of rows", rows.schedule_sum_rows, lambda x: x.sum(1), lambda: torch.sum(x, 1, out=row), (x,), "rows"),
        (
            "sums of columns",
            rows.schedule_sum_columns,
            lambda x: x.sum(0),
            lambda: torch.sum(x, 0, out=column),
            (x,),
            "columns",
        ),
        ("transpose 4096", rows.schedule_transpose, _turned, lambda: turned.copy_(square.t()), (square,), "Transpose"),
    ]
    for name, schedule, plain, filling, args, op in table:
        m, n = args[0].shape
        peers = [Peer("torch", filling or functools.partial(plain, *args), filling=filling is not None)]
        if compiled:
            peers.append(Peer("torch.compile", torch_compiled(plain, args)))
        call = onnx_call(op, {f"X{i}": a.numpy() for i, a in enumerate(args)}, threads)
        peers += onnx_peer(call)
        yield _case("rows", name, functools.partial(schedule, m, n), args, plain(*args), peers)


def _layer_norm(x: Any, g: Any, b: Any) -> Any:
    return layer_norm(x, x.shape[1:], g, b)


def _turned(x: Any) -> Any:
    return x.t().contiguous()


def onnx_peer(call: Call | None) -> list[Peer]:
    return [] if call is None else [Peer("onnxruntime", call, filling=True)]


def bytes_matmuls(threads: int, compiled: bool) -> Iterator[Case]:
    n = 1024
    a, b = torch.randint(0, 256, (n, n), dtype=torch.uint8), torch.randint(-128, 128, (n, n), dtype=torch.int8)
    signed, out = (a // 2).to(torch.int8), torch.empty(n, n, dtype=torch.int32)
    peers = [Peer("torch", lambda: torch._int_mm(signed, b, out=out), filling=True)]
    call = onnx_call("MatMulInteger", {"A": a.numpy()}, threads, constants={"B": b.numpy()})
    peers += onnx_peer(call)
    expected = torch.from_numpy(a.numpy().astype(np.int32) @ b.numpy().astype(np.int32))
    make = functools.partial(narrow.schedule_matmul_bytes, n, n, n)
    yield _case("int8 matmul", "uint8 x int8 1024", make, (a, b), expected, peers, work=2.0 * n**3)


def bfloat16_matmuls(threads: int, compiled: bool) -> Iterator[Case]:
    for n in (1024, 2048):
        a, b = torch.randn(n, n).bfloat16(), torch.randn(n, n).bfloat16()
        expected = a.float() @ b.float()
        peers = [Peer("torch (bfloat16 out)", functools.partial(torch.matmul, a, b))]
        make = functools.partial(narrow.schedule_matmul_bfloat16, n, n, n)
        yield _case("bfloat16 matmul", f"bfloat16 {n}", make, (a, b), expected, peers, work=2.0 * n**3)


GROUPS = {
    "matmul": matmuls,
    "conv": convolutions,
    "blur": blurs,
    "rows": by_rows,
    "int8": bytes_matmuls,
    "bf16": bfloat16_matmuls,
}
