"""Calls of models through machine code alone: what it takes, and what it gives back to Python."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.graph.onnx_models import model, node
from weft.runtime.fastcall import MISS
from weft.runtime.torch_layout import find_state_fields, tensor_state

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 5), torch.nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.b(torch.tanh(self.a(x))))


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Any:
    return torch.randn(3, 6)


def compiled(net: Any, x: Any) -> Any:
    fast = weft.compile(net, (x,))
    with torch.no_grad():
        fast(x)
    return fast


def is_taken(fast: Any, *args: Any) -> bool:
    """Whether machine code alone runs such a call."""
    return fast._fast is not None and fast._fast[0](None, *args) is not MISS


def agrees(fast: Any, net: Any, x: Any) -> bool:
    with torch.no_grad():
        return bool(torch.allclose(fast(x), net(x), atol=1e-5))


def test_the_layout_of_tensors_is_found_and_tells_changes() -> None:
    fields = find_state_fields(torch)
    assert fields is not None, "this torch is not known: weights are checked in Python"
    t = torch.zeros(10)[4:]
    before = tensor_state(t, fields)
    t.add_(1)
    assert tensor_state(t, fields) == before._replace(version=before.version + 1)
    assert before.data + 4 * before.offset == t.data_ptr()


def test_calls_like_the_first_need_no_python(net: Any, x: Any) -> None:
    fast = compiled(net, x)
    with torch.no_grad():
        assert is_taken(fast, x)
        assert not is_taken(fast, x.double())
        assert not is_taken(fast, torch.randn(4, 6))
        assert not is_taken(fast, x.numpy())
        assert not is_taken(fast)
    assert agrees(fast, net, x)


def _step(net: Any) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(torch.ones(3, 6)).sum().backward()
    optimizer.step()


def _load(net: Any) -> None:
    net.load_state_dict({name: torch.ones_like(value) / 7 for name, value in net.state_dict().items()})


def _assign(net: Any) -> None:
    net.a.weight = torch.nn.Parameter(torch.ones(5, 6) / 3)


def _other_data(net: Any) -> None:
    net.b.bias.data = torch.ones(4)


def _in_place(net: Any) -> None:
    with torch.no_grad():
        net.a.weight.mul_(3)


@pytest.mark.parametrize("change", [_step, _load, _assign, _other_data, _in_place])
def test_changed_weights_are_seen_at_once(change: Any, net: Any, x: Any) -> None:
    fast = compiled(net, x)
    with torch.no_grad():
        before = fast(x).clone()
    change(net)
    with torch.no_grad():
        assert not is_taken(fast, x)
    assert agrees(fast, net, x)
    assert agrees(fast, net, x)
    with torch.no_grad():
        assert is_taken(fast, x)
        assert not torch.allclose(fast(x), before, atol=1e-4)


def test_gradients_are_asked_for_by_the_weights(net: Any, x: Any) -> None:
    fast = compiled(net, x)
    made = fast(x)
    assert made.requires_grad
    made.sum().backward()
    with torch.no_grad():
        assert not fast(x).requires_grad


def test_what_was_compiled_for_old_weights_goes(net: Any, x: Any) -> None:
    fast = compiled(net, x)
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    old = weakref.ref(variant.compiled.executable)
    del variant
    _load(net)
    assert agrees(fast, net, x)
    gc.collect()
    assert old() is None


def test_several_outputs_and_nested_ones() -> None:
    x = torch.randn(5)
    for fn in (lambda x: (x + 1, x * 2), lambda x: {"a": x + 1, "b": [x * 2]}, lambda x: (x + 1,)):
        fast = weft.compile(fn, (x,))
        for _ in range(3):
            ours, theirs = fast(x), fn(x)
            assert type(ours) is type(theirs)
            flat = torch.utils._pytree.tree_leaves
            assert all(torch.allclose(a, b) for a, b in zip(flat(ours), flat(theirs)))


def test_threads_call_one_model_at_once(net: Any) -> None:
    inputs = [torch.randn(3, 6) for _ in range(8)]
    fast = compiled(net, inputs[0])
    with torch.no_grad():
        expected = [net(x) for x in inputs]
    wrong: list[int] = []

    def run(n: int) -> None:
        with torch.no_grad():
            for _ in range(200):
                if not torch.allclose(fast(inputs[n]), expected[n], atol=1e-5):
                    wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_calls_it_too(net: Any, x: Any) -> None:
    threads = weft.get_num_threads()
    weft.set_num_threads(1)  # no runtime of threads survives a fork
    fast = compiled(net, x)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if agrees(fast, net, x) else 1)
    weft.set_num_threads(threads)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_onnx_sessions_take_the_same_way() -> None:
    net = weft.load_onnx(model([node("Relu", "x", "y")], {"x": ["n", 3]}, ["y"]))
    x = np.linspace(-1, 1, 12, dtype="f").reshape(4, 3)
    for _ in range(3):
        assert np.array_equal(net(x), np.maximum(x, 0))
        assert np.array_equal(net.run(None, {"x": x})[0], np.maximum(x, 0))
    assert net._table.call(None, x) is not MISS
    assert net._table.call(None, torch.from_numpy(x)) is MISS
    assert np.array_equal(net(x[:2]), np.maximum(x[:2], 0))


class Nested(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: Any, *, scale: Any, shift: Any) -> Any:
        y = self.layer(x) * scale
        return {"first": y, "others": [(y + shift,), torch.relu(y)], "kind": "plain", "none": None}


def test_nested_results_and_arguments_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, scale, shift = Nested().eval(), torch.rand(3, 4), torch.rand(4), torch.rand(4)
    with torch.no_grad():
        fast = weft.compile(lambda x, scale, shift: net(x, scale=scale, shift=shift), (x, scale, shift))
        fast(x, scale=scale, shift=shift)
        slow = []
        monkeypatch.setattr(fast, "_call_slowly", lambda *given: slow.append(given))
        made, expected = fast(x, scale=scale, shift=shift), net(x, scale=scale, shift=shift)
    assert not slow
    assert [*made] == [*expected]
    assert made["kind"] == "plain"
    assert made["none"] is None
    pairs = [(made["first"], expected["first"]), *zip(made["others"][0], expected["others"][0])]
    for ours, theirs in (*pairs, (made["others"][1], expected["others"][1])):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert type(made["others"]) is list
    assert type(made["others"][0]) is tuple


def test_arguments_by_name_in_another_order() -> None:
    net, x, scale, shift = Nested().eval(), torch.rand(3, 4), torch.rand(4), torch.rand(4)
    with torch.no_grad():
        fast = weft.compile(lambda x, scale, shift: net(x, scale=scale, shift=shift), (x, scale, shift))
        expected = net(x, scale=scale, shift=shift)
        for _ in range(2):
            for named in ({"scale": scale, "shift": shift}, {"shift": shift, "scale": scale}):
                assert torch.allclose(fast(x, **named)["first"], expected["first"], atol=1e-5)
