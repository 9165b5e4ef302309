"""Weights that change without torch counting it: compiled code has the new values all the same."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.graph.from_torch.changes import Memories
from weft.graph.run.witness import WHOLE, Memory, Witness
from weft.ir.errors import ArgumentError

torch = pytest.importorskip("torch")
nn = torch.nn


def small() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 13), nn.LayerNorm(13), nn.Linear(13, 1)).eval(), torch.randn(3, 7)


def large() -> tuple[Any, Any]:
    torch.manual_seed(0)
    layers = [nn.Linear(64, 257), nn.BatchNorm1d(257), nn.GELU(), nn.Linear(257, 64, bias=False)]
    return nn.Sequential(*layers).eval(), torch.randn(5, 64)


def with_torch(net: Any, x: Any) -> Any:
    return torch.compile(net, backend="weft")


@pytest.fixture(autouse=True)
def _alone() -> None:
    torch._dynamo.reset()


def agree(fast: Any, net: Any, x: Any) -> None:
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)


def _step(kind: str, **how: Any) -> Callable[[Any], None]:
    def change(net: Any) -> None:
        optimizer = getattr(torch.optim, kind)(net.parameters(), lr=0.1, **how)
        net(torch.ones(3, net[0].in_features)).square().sum().backward()
        optimizer.step()

    return change


def _data(net: Any) -> None:
    net[0].weight.data.mul_(3.0)


def _data_copied(net: Any) -> None:
    net[0].weight.data.copy_(torch.ones_like(net[0].weight))


def _data_filled(net: Any) -> None:
    net[1].weight.data[:] = 0.25


def _numpy(net: Any) -> None:
    net[0].bias.detach().numpy()[:] = 5


def _dlpack(net: Any) -> None:
    torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(net[0].weight.detach())).fill_(0.5)


def _negated(net: Any) -> None:
    net[0].weight.data.neg_()


def _swapped(net: Any) -> None:
    net[0].weight.untyped_storage().copy_(torch.randn(net[0].weight.shape).untyped_storage())


CHANGES = [
    _step("SGD", fused=True), _step("AdamW", fused=True), _step("Adagrad", fused=True), _step("Adam", foreach=True),
    _data, _data_copied, _data_filled, _numpy, _dlpack, _negated, _swapped,
]  # fmt: skip


@pytest.mark.parametrize("compiled", [weft.compile, with_torch])
@pytest.mark.parametrize("model", [small, large])
@pytest.mark.parametrize("change", CHANGES)
def test_writes_that_torch_does_not_count_are_seen(change: Any, model: Any, compiled: Any) -> None:
    net, x = model()
    with torch.no_grad():
        fast = compiled(net, x)
    agree(fast, net, x)
    change(net)
    agree(fast, net, x)
    change(net)
    agree(fast, net, x)


@pytest.mark.parametrize("change", [_data, _step("SGD", fused=True)])
def test_constants_of_other_sizes_are_made_anew_too(change: Any) -> None:
    net, x = large()
    fast = weft.compile(net, x)
    for rows in (5, 6, 7):
        agree(fast, net, torch.randn(rows, 64))
    change(net)
    for rows in (9, 5, 6, 7):  # one that was never called first: it could have what was packed before
        agree(fast, net, torch.randn(rows, 64))


@pytest.mark.parametrize("fields", ["known", "unknown"])
def test_a_float64_model_of_ones_that_is_negated(fields: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where machine code does not know torch's tensors."""
    if fields == "unknown":
        monkeypatch.setattr("weft.graph.from_torch.model.state_fields", lambda: None)
    net, x = nn.Linear(8, 6).double(), torch.randn(2, 8).double()
    nn.init.ones_(net.weight)
    fast = weft.compile(net, x)
    agree(fast, net, x)
    net.weight.data.neg_()
    agree(fast, net, x)
    net.bias.data[3] += 1  # one element of a small model
    agree(fast, net, x)


def test_what_cannot_be_seen_is_told() -> None:
    net, x = nn.Embedding(5000, 16), torch.tensor([[7, 4999]])
    head = nn.Linear(16, 4)
    whole = nn.Sequential(net, head).eval()
    fast, other = weft.compile(whole, x), weft.compile(small()[0], small()[1])
    agree(fast, whole, x)
    for tell in (weft.refresh, lambda: weft.refresh(whole), lambda: weft.refresh(fast), fast.refresh):
        head.weight.data[1, 3] += 1
        net.weight.data[7] += 1
        tell()
        agree(fast, whole, x)
    assert other.refresh() is None


def test_refresh_of_a_torch_compiled_model_and_of_one_in_parts() -> None:
    class Parts(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(300, 300)

        def forward(self, x: Any) -> Any:
            y = self.a(x)
            return y * 2 if y.sum() > 0 else y - 1

    net, x = Parts().eval(), torch.randn(2, 300)
    with torch.no_grad(), pytest.warns(UserWarning, match="in parts"):
        fast = weft.compile(net, x)
    for made in (fast, torch.compile(net, backend="weft")):
        agree(made, net, x)
        net.a.weight.data[5, 5] += 3
        weft.refresh(made)
        agree(made, net, x)


def test_refresh_of_something_else_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"takes a module, or what weft.compile gave, not a list"):
        weft.refresh([1])


def test_steps_for_other_weights_cost_no_compilation() -> None:
    net, x = large()
    fast = weft.compile(net, x)
    agree(fast, net, x)
    (before,) = fast._last.model.variants.values()
    other, _ = large()
    _step("SGD", fused=True)(other)
    assert not before.is_expired
    agree(fast, net, x)
    assert list(fast._last.model.variants.values()) == [before]


def test_a_step_while_the_model_is_compiled_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU values are not looked at: here, too, the step alone says it."""
    monkeypatch.setattr("weft.graph.from_torch.model.witness_of", lambda tensors: Witness([Memory(0, 1, (0,), (1,))]))
    net, x = large()
    compile_module = __import__("weft.graph.from_torch.compile_module", fromlist=["x"]).compile_module

    def stepped(*args: Any, **named: Any) -> Any:
        made = compile_module(*args, **named)
        monkeypatch.undo()
        with torch.enable_grad():
            _step("SGD", fused=True)(net)
        return made

    monkeypatch.setenv("WEFT_CACHE", "off")
    monkeypatch.setattr("weft.graph.from_torch.compile_module.compile_module", stepped)
    fast = weft.compile(net, x)
    agree(fast, net, x)


def test_training_and_inference_in_turns() -> None:
    net, x = small()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05, fused=True)
    fast = weft.compile(net, x)
    for _ in range(4):
        agree(fast, net, x)
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()
    agree(fast, net, x)


def memory(array: Any) -> Memory:
    return Memory(array.ctypes.data, array.itemsize, array.shape, tuple(s // array.itemsize for s in array.strides))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 5)])
@pytest.mark.parametrize("look", ["whole", "turned", "each second", "unaligned"])
def test_each_element_of_small_tensors_is_seen(look: str, shape: tuple[int, ...], dtype: str) -> None:
    wide = np.zeros(tuple(2 * n for n in shape), dtype)
    views = {"whole": wide.copy(), "turned": wide.T, "each second": wide[(..., *(slice(0, None, 2) for _ in shape))]}
    views["unaligned"] = np.zeros(wide.size + 1, dtype)[1:].reshape(wide.shape)
    array = views[look]
    seen = Witness([memory(array)])
    assert seen.is_same()
    for place in np.ndindex(array.shape):
        array[place] = 1
        assert not seen.is_same(), place
        array[place] = 0
        assert seen.is_same()
    others = wide if look == "each second" else np.zeros(0)
    if others.size and shape:
        others[tuple(slice(1, None, 2) for _ in shape)] = 1
        assert seen.is_same(), "memory of others, between the elements"


@pytest.mark.parametrize("size", [8 * WHOLE + 1, 100_003, 1 << 20])
def test_places_of_large_tensors_are_within_them_and_spread(size: int) -> None:
    around = np.zeros(size + 64, "uint8")
    array = around[32:-32]
    seen = Witness([memory(array)])
    around[:32] = around[-32:] = 1
    assert seen.is_same()
    hit = 0
    for begin in range(0, size, -(-size // 32)):  # a thirty-second of it at a time
        before = array[begin : begin + size // 32].copy()
        array[begin : begin + size // 32] = 1
        hit += not seen.is_same()
        array[begin : begin + size // 32] = before
    assert hit == 32


def test_memories_meet_where_they_share_a_byte() -> None:
    base = torch.zeros(100)
    some = Memories([base[10:20], base[15:40], base[60:61], torch.zeros(0), None])
    meets = [n for n in range(100) if some.meet([base[n]])]
    assert meets == [*range(10, 40), 60]
    assert some.meet([base])
    assert not some.meet([base[40:60], base[61:], torch.zeros(3)])
    assert not Memories([]).meet([base])


def test_models_that_are_gone_are_not_told() -> None:
    net, x = small()
    fast = weft.compile(net, x)
    agree(fast, net, x)
    gone = weakref.ref(fast._last.model)
    del fast
    gc.collect()
    assert gone() is None
    _step("SGD", fused=True)(net)


def test_copies_and_threads() -> None:
    net, x = small()
    fast = weft.compile(net, x)
    agree(fast, net, x)
    other = copy.deepcopy(fast)
    agree(other, other.model, x)
    other.model[0].weight.data.mul_(2)
    thread = threading.Thread(target=lambda: net[0].weight.data.mul_(4))
    thread.start()
    thread.join()
    agree(other, other.model, x)
    agree(fast, net, x)


def _writes_first(a: Any, b: Any) -> Any:
    a.add_(1)
    return b * 2


def _writes_last(a: Any, b: Any) -> Any:
    b.copy_(a * 2)
    return a + b


def _of_one_tensor(array: Any, shift: int) -> tuple[Any, Any]:
    whole = torch.from_numpy(array)
    return whole[: 5 - shift], whole[shift:5]


def _of_two_arrays(array: Any, shift: int) -> tuple[Any, Any]:
    """Which torch does not know to be one memory."""
    return torch.from_numpy(array[: 5 - shift]), torch.from_numpy(array[shift:5])


@pytest.mark.parametrize("pair", [_of_one_tensor, _of_two_arrays])
@pytest.mark.parametrize("program", [_writes_first, _writes_last])
@pytest.mark.filterwarnings("ignore:weft")
def test_inputs_that_overlap_of_which_one_is_written(program: Any, pair: Any) -> None:
    rng = np.random.default_rng(0)
    fast = weft.compile(program, (torch.randn(4, 7), torch.randn(4, 7)))
    for shift in (1, 2, 0, 1):
        mine, theirs = (np.array(rng.standard_normal((6, 7)), "float32") for _ in range(2))
        theirs[:] = mine
        with torch.no_grad():
            torch.testing.assert_close(fast(*pair(mine, shift)), program(*pair(theirs, shift)))
        np.testing.assert_array_equal(mine, theirs)


def test_pieces_of_one_memory_that_do_not_overlap_are_compiled_as_any_others() -> None:
    fast = weft.compile(_writes_first, (torch.randn(4, 7), torch.randn(4, 7)))
    both, other = torch.randn(8, 7), torch.empty(8, 7)
    other.copy_(both)
    with torch.no_grad():
        torch.testing.assert_close(fast(both[:4], both[4:]), _writes_first(other[:4], other[4:]))
    torch.testing.assert_close(both, other)
    assert all(not isinstance(part, str) and hasattr(part, "model") for part in fast.parts.values())
