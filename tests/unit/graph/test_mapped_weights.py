"""Weights in a file: the same tensors with the same values, of which memory has none until somebody reads them."""

from __future__ import annotations

import copy
import mmap
import re
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.graph.constants import Constants, packing_order, spent_after
from weft.graph.from_torch.mapped_weights import map_weights
from weft.graph.graph import Edge
from weft.ir.dtype import float32
from weft.ir.errors import ArgumentError
from weft.runtime import paged_file

torch = pytest.importorskip("torch")
nn = torch.nn

MAPPED = {"weights": "mapped"}


def _model() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128)).eval(), torch.randn(8, 256)


def _mapping_of(tensor: Any) -> str:
    """The line of the system's table of memory that has it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(n, 16) for n in re.findall(r"[0-9a-f]+", line)[:2])
        if first <= tensor.data_ptr() < end:
            return line
    return ""


def _is_mapped(tensor: Any) -> bool:
    return "(deleted)" in _mapping_of(tensor)


def test_weights_are_in_a_file_and_all_else_is_as_before() -> None:
    model, x = _model()
    plain = copy.deepcopy(model)
    names = {name: id(p) for name, p in model.named_parameters()}
    fast = weft.compile(model, x, options=MAPPED)
    with torch.no_grad():
        assert torch.allclose(fast(x), plain(x), atol=1e-5)
        assert torch.equal(model(x), plain(x))
    assert {name: id(p) for name, p in model.named_parameters()} == names
    assert [_is_mapped(p) for p in model.parameters()] == [True, False, True, False]
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), plain.state_dict().values()))


def test_other_values_are_seen() -> None:
    (model, x), (other, _) = _model(), _model()
    with torch.no_grad():
        other[0].weight.mul_(0.5)
        fast = weft.compile(model, x, options=MAPPED)
        model.load_state_dict(other.state_dict())
        assert torch.allclose(fast(x), other(x), atol=1e-5)
        assert torch.equal(model[0].weight, other[0].weight)
        assert _is_mapped(model[0].weight)


def test_weights_that_were_written_are_mapped_again() -> None:
    weight = torch.zeros(1 << 16)
    map_weights([weight])
    first = weight.data_ptr()
    map_weights([weight])
    assert weight.data_ptr() == first
    weight.add_(1)
    map_weights([weight])
    assert weight.data_ptr() != first
    assert weight.sum() == 1 << 16


def test_a_write_is_of_this_process_and_stays_when_pages_go() -> None:
    weight = torch.zeros(1 << 16)
    map_weights([weight])
    assert _is_mapped(weight)
    weight[5] = 7.0
    paged_file.page_out()
    assert weight[5] == 7.0
    assert weight.sum() == 7.0


def test_gradients_and_other_sizes_work_with_mapped_weights() -> None:
    model, x = _model()
    fast = weft.compile(model, x, options=MAPPED)
    with torch.no_grad():
        assert torch.allclose(fast(x[:3]), model(x[:3]), atol=1e-5)
    with pytest.warns(UserWarning, match="gradients"):
        fast(x).sum().backward()
    assert model[0].weight.grad is not None


@pytest.mark.parametrize("kind", ["small", "viewed", "inference", "numpy"])
def test_what_stays_in_memory(kind: str) -> None:
    with torch.inference_mode(kind == "inference"):
        weight = torch.ones(4 if kind == "small" else 1 << 16)
    held = {"viewed": weight[1:], "numpy": weight.numpy()}.get(kind) if kind in ("viewed", "numpy") else None
    before = weight.data_ptr()
    map_weights([weight])
    assert weight.data_ptr() == before
    del held


def test_layouts_are_kept() -> None:
    weight = torch.randn(64, 32, 3, 3).to(memory_format=torch.channels_last)
    expected, strides = weight.clone(), weight.stride()
    map_weights([weight, weight])
    assert _is_mapped(weight)
    assert weight.stride() == strides
    assert torch.equal(weight, expected)


def test_without_room_for_a_file_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_named: object) -> mmap.mmap:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(paged_file.mmap, "mmap", full)
    weight = torch.ones(1 << 16)
    with pytest.warns(UserWarning, match="weights stay in memory, as no file can have them: No space left on device"):
        map_weights([weight])
    assert not _is_mapped(weight)


def test_other_ways_are_refused() -> None:
    model, x = _model()
    with pytest.raises(ArgumentError, match="weights='gone' is not known"):
        weft.compile(model, x, options={"weights": "gone"})


def test_constants_go_and_are_made_again() -> None:
    made: list[str] = []
    constants = Constants("ab", {"a": 1, "b": 2}, lambda name: made.append(name) or 3, {"a"})
    constants.forget("ab")
    assert (constants["a"], constants["b"], made) == (3, 2, ["a"])
    assert spent_after([{"a", "b"}, {"b"}, set()]) == [{"a"}, {"b"}, set()]


def test_large_constants_are_packed_first() -> None:
    edges = {name: Edge(name, float32, (count,)) for name, count in (("a", 4), ("b", 9), ("c", 6))}
    assert packing_order([{"a"}, {"b"}, {"a", "c"}, {"packed by a library"}], edges) == [2, 1, 0, 3]


def test_nothing_but_what_calls_read_is_left_of_constants() -> None:
    """Batch norm is folded into copies of the weights: they go when they are packed, and no garbage holds them."""
    import gc

    model = nn.Sequential(*(m for _ in range(4) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)))).eval()
    x = torch.randn(1, 64, 6, 6)
    gc.collect()
    gc.disable()
    try:
        before = {id(o) for o in gc.get_objects()}
        fast = weft.compile(model, x)
        new = [o for o in gc.get_objects() if id(o) not in before and type(o) is torch.Tensor]
        own = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept = [t for t in new if t.numel() == 64 * 64 * 9 and t.untyped_storage().data_ptr() not in own]
    finally:
        gc.enable()
    with torch.no_grad():
        assert fast(x).shape == x.shape
    assert not kept
