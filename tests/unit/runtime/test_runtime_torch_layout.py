"""Facts about tensors, found in memory."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import pytest

from weft.runtime.torch_layout import find_tensor_fields

torch = pytest.importorskip("torch")


def word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def test_the_places_tell_what_torch_tells() -> None:
    fields = find_tensor_fields(torch)
    if fields is None:
        pytest.skip("not known for this version of torch")
    plain = torch.randn(4, 6, dtype=torch.float64)
    leaf = torch.randn(3, requires_grad=True)
    for t in (plain, plain[1:], plain.t(), torch._neg_view(plain)[:, 2], leaf, leaf * 2, torch.nn.Parameter(plain)):
        structure = word(id(t) + fields.structure)
        assert structure == t._cdata
        assert bool(word(structure + fields.keys) & fields.negative) == t.is_neg()
        assert word(structure + fields.autograd) or not t.requires_grad
    assert not word(plain._cdata + fields.autograd)


def test_nothing_is_said_where_it_is_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert find_tensor_fields(torch) is None
    assert find_tensor_fields(types.SimpleNamespace()) is None
    keys = torch._C._dispatch_keys

    def other(t: Any) -> Any:
        return types.SimpleNamespace(raw_repr=lambda: keys(t).raw_repr() ^ 1)

    monkeypatch.setattr(torch._C, "_dispatch_keys", other)
    assert find_tensor_fields(torch) is None
