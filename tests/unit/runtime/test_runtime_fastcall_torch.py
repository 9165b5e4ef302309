"""The fast call with torch tensors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_runtime_fastcall import DENSE, copy_kernel, pair_table

from weft.ir import dtype as dt
from weft.runtime import fastcall
from weft.runtime.fastcall import MISS, CallTable, ScalarType, Specialization, TensorLayout
from weft.runtime.fastcall_native import exchange_functions
from weft.runtime.torch_layout import find_tensor_fields

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not fastcall.fast_calls_available() or exchange_functions(torch.Tensor) is None, reason="no fast calls here"
)


@pytest.fixture(params=["layout known", "layout unknown"], autouse=True)
def layout(request):
    """Tensors are read from memory, or Python is asked."""
    native = fastcall.native_calls()
    assert native.bind_torch()
    fields = find_tensor_fields(torch)
    if request.param == "layout unknown":
        native._set("torch_structure", 0)
    elif fields is None:
        pytest.skip("not known for this version of torch")
    yield
    native._set("torch_structure", 0 if fields is None else fields.structure)


@pytest.fixture
def table():
    table = CallTable(3, 1)
    rules = (DENSE, DENSE, ScalarType(dt.float32))
    table.add(Specialization(copy_kernel(), rules, (0, 1, 2), (DENSE,), (3,)))
    return table


@pytest.fixture
def tensors():
    return torch.randn(64), torch.randn(64), torch.empty(64)


def test_given_and_allocated(table, tensors):
    a, b, c = tensors
    assert table.call(c, a, b, 2.0) is c
    assert torch.equal(c, a * 2 + b)
    made = table.call(None, a, b, 2.0)
    assert type(made) is torch.Tensor
    assert torch.equal(made, c)
    assert made.is_contiguous()
    assert not made.requires_grad


def test_mixed_frameworks(table, tensors):
    a, b, _ = tensors
    assert type(table.call(None, a.numpy(), b, 1.0)) is torch.Tensor
    out = np.empty(64, np.float32)
    assert table.call(out, a, b, 1.0) is out


def test_gradients_go_the_slow_way(table, tensors):
    a, b, c = tensors
    a.requires_grad_()
    p = torch.nn.Parameter(b)
    assert table.call(c, a, b, 1.0) is MISS
    assert table.call(c, b, p, 1.0) is MISS
    with torch.no_grad():
        assert table.call(c, a, p, 1.0) is c
    assert table.call(c, a.detach(), p.detach(), 1.0) is c


def test_views_and_gradients(table, tensors):
    """Views may say something about gradients, and need none."""
    a, b, c = tensors
    base = torch.randn(2, 64)
    leaf = torch.randn(2, 64, requires_grad=True)
    assert table.call(c, base[1], b, 1.0) is c
    assert torch.equal(c, base[1] + b)
    assert table.call(c, leaf[0], b, 1.0) is MISS
    assert table.call(c, leaf.detach()[0], b, 1.0) is c
    assert table.call(c, (leaf * 2)[0], b, 1.0) is MISS
    assert table.call(leaf[0], a, b, 1.0) is MISS
    assert table.call(c, torch._neg_view(a), b, 1.0) is MISS
    assert table.call(c, torch._neg_view(base)[0], b, 1.0) is MISS
    with torch.inference_mode():
        assert table.call(c, torch.ones(64), b, 1.0) is c


def test_other_tensors_miss(table, tensors):
    a, b, c = tensors
    negated = torch.conj(torch.randn(64, dtype=torch.complex64)).imag
    assert negated.is_neg()
    others = [
        negated.to_sparse(), torch.empty(64, device="meta"), a.double(), a[:63], torch.randn(128)[::2],
        torch.randn(64, dtype=torch.complex64), a.reshape(8, 8),
    ]  # fmt: skip
    for x in others:
        assert table.call(c, x, b, 1.0) is MISS
    strided = CallTable(3, 1)
    rules = (TensorLayout(dt.float32, (64,), (2,)), DENSE, ScalarType(dt.float32))
    strided.add(Specialization(copy_kernel(), rules, (0, 1, 2), (DENSE,), (3,)))
    assert strided.call(c, negated, b, 1.0) is MISS
    assert strided.call(c, torch.randn(128)[::2], b, 1.0) is c


def test_aliasing_misses(table, tensors):
    a, b, _ = tensors
    assert table.call(a, a, b, 1.0) is MISS
    assert table.call(b.view(64), a, b, 1.0) is MISS


@pytest.mark.parametrize("name", ["bfloat16", "float16", "bool", "uint8", "int64", "float64"])
def test_types(name):
    dtype = dt.SCALAR_TYPES[name]
    table = pair_table(dtype, f"i{dtype.itemsize * 8}")
    x = torch.ones((1, 5), dtype=getattr(torch, name))
    made = table.call(None, x)
    assert [m.dtype for m in made] == [x.dtype] * 2
    assert made[0].stride() == (5, 1)
    assert table.call(None, torch.ones((1, 5), dtype=torch.int8)) is MISS


def test_no_references_leak(table, tensors):
    a, b, c = tensors
    before = [sys.getrefcount(x) for x in (a, b, c, True, False)]
    for _ in range(1000):
        table.call(c, a, b, 1.0)
        table.call(None, a, b, 1.0)
    after = [sys.getrefcount(x) for x in (a, b, c, True, False)]
    assert all(abs(x - y) < 50 for x, y in zip(before, after))
