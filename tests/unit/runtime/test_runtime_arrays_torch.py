"""Torch tensors as arguments."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.runtime.arrays import allocate, describe, describe_output, overlaps, scalar_value

torch = pytest.importorskip("torch")


def test_views():
    base = torch.arange(24.0).reshape(4, 6)
    for value in (base, base.T, base[::2, 1::3], base[:1].expand(3, 6), base[:0], base[2, 3]):
        info = describe(value, dtype="float32")
        assert (info.framework, info.shape, info.strides) == ("torch", tuple(value.shape), value.stride())
        assert info.pointer == value.data_ptr()


@pytest.mark.parametrize("dtype", dt.SCALAR_TYPES.values(), ids=str)
def test_types(dtype):
    made = allocate("torch", dtype, (2, 3))
    assert describe(made).dtype == dtype
    assert made.dtype == getattr(torch, dtype.name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.empty(3, device="meta"), "is on device `meta`"),
        (torch.eye(3).to_sparse(), "layout torch.sparse_coo"),
        (torch.zeros(3, requires_grad=True), "requires a gradient"),
        (torch.nn.Parameter(torch.zeros(3)), "A.detach()"),
        (torch.zeros(3, dtype=torch.float64), "A.to(torch.float32)"),
    ],
)
def test_refused(value, text):
    with pytest.raises(ArgumentError, match="argument `A`") as caught:
        describe(value, name="A", dtype="float32")
    assert text in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e8m0fnu])
def test_unsupported(dtype):
    with pytest.raises(UnsupportedError, match="does not compute with"):
        describe(torch.zeros(3, dtype=dtype))


def test_gradients_off():
    with torch.no_grad():
        assert describe(torch.zeros(3, requires_grad=True)).shape == (3,)


def test_negated_views_are_resolved():
    value = torch.conj(torch.tensor([1 + 2j, 3 - 4j])).imag
    info = describe(value)
    assert "negated" in info.note
    np.testing.assert_array_equal(info.owner.numpy(), [-2.0, 4.0])
    with pytest.raises(ArgumentError, match="negated view"):
        describe_output(value)


def test_fake_tensors_have_no_data():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        value = torch.empty(3)
    with pytest.raises(ArgumentError, match="data"):
        describe(value)


def test_outputs():
    with pytest.raises(ArgumentError, match="several elements"):
        describe_output(torch.zeros(1).expand(3))
    shared = torch.zeros(10)
    assert overlaps(describe(shared[:6]), describe(shared.numpy()[5:]))


def test_scalars():
    assert scalar_value(torch.tensor(2.5), "float32") == 2.5
    assert scalar_value(torch.tensor(3), "int32") == 3
    with pytest.raises(ArgumentError, match="not an array of shape"):
        scalar_value(torch.zeros(2), "float32")
