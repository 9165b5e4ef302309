"""What a model is after it was compiled: other modules, modes, types and copies, each as eager has it then."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(7, 11), nn.LayerNorm(11), nn.Dropout(0.5)
        self.last = nn.Linear(11, 5)

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.drop(self.norm(self.first(x)))))


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def agree(fast: Any, net: Any, x: Any) -> None:
    """Twice: the second call may need no Python. Random numbers are drawn alike."""
    for _ in range(2):
        torch.manual_seed(1)
        made = fast(x)
        torch.manual_seed(1)
        torch.testing.assert_close(made, net(x), rtol=1e-3, atol=1e-3 if x.dtype is torch.float32 else 3e-2)


def _other_module(net: Any) -> None:
    net.first = nn.Linear(7, 11)


def _no_bias(net: Any) -> None:
    net.last.bias = None


def _a_bias(net: Any) -> None:
    net.extra.bias = nn.Parameter(torch.ones(7))


def _other_shape(net: Any) -> None:
    net.last.weight, net.last.bias = nn.Parameter(torch.randn(6, 11)), nn.Parameter(torch.randn(6))


def _no_module(net: Any) -> None:
    net.norm = nn.Identity()


@pytest.mark.parametrize("change", [_other_module, _no_bias, _a_bias, _other_shape, _no_module])
def test_other_modules_and_parameters_are_seen_at_once(change: Callable[[Any], None], net: Any) -> None:
    net.extra = nn.Linear(7, 7, bias=False)
    net.register_forward_pre_hook(lambda module, args: (module.extra(args[0]),))
    x = torch.randn(3, 7)
    fast = weft.compile(net, x)
    agree(fast, net, x)
    change(net)
    agree(fast, net, x)


def test_explain_sees_another_model_too(net: Any) -> None:
    x = torch.randn(3, 7)
    fast = weft.compile(net, x)
    _no_bias(net)
    _other_shape(net)
    compiled, given = fast.find_compiled((x,))
    assert compiled.executable.run_checked(given)[0].shape == (3, 6)


def test_training_is_seen_and_what_was_compiled_for_it_is_kept(net: Any) -> None:
    x = torch.randn(30, 7)
    fast = weft.compile(net, x)
    agree(fast, net, x)
    for mode in (True, False, True, False):
        net.train(mode)
        agree(fast, net, x)
    assert len(fast.parts) == 2


def test_types_that_are_chosen_automatically(net: Any) -> None:
    x = torch.randn(3, 7)
    fast = weft.compile(net, x)
    for dtype in (None, torch.bfloat16, None, torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            for _ in range(2):
                made = fast(x)
                assert made.dtype is (dtype or torch.float32)
                torch.testing.assert_close(made, net(x), rtol=3e-2, atol=3e-2)


def test_another_type_of_the_weights_is_seen(net: Any) -> None:
    x = torch.randn(3, 7)
    fast = weft.compile(net, x)
    for dtype in (torch.float64, torch.bfloat16, torch.float32, torch.float64):
        net.to(dtype)
        agree(fast, net, x.to(dtype))
    net.float()
    with pytest.raises(RuntimeError, match="same dtype"):
        fast(x.double())
    agree(fast, net, x)


def test_functions_that_call_modules_see_other_tensors_in_them(net: Any) -> None:
    x = torch.randn(3, 7)
    functions = [net.forward, functools.partial(lambda model, x: model(x) * 2, net), lambda x: net(x) + 1]
    for fn in functions:
        fast = weft.compile(fn, x)
        agree(fast, fn, x)
        net.load_state_dict({name: t * 1.5 for name, t in net.state_dict().items()}, assign=True)
        agree(fast, fn, x)
        net.train()
        agree(fast, fn, x)
        net.eval()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda fast: pickle.loads(pickle.dumps(fast))])
def test_copies_compile_models_of_their_own(copied: Callable[[Any], Any], net: Any) -> None:
    x = torch.randn(3, 7)
    fast = weft.compile(net, x)
    before = fast(x)
    other = copied(fast)
    torch.testing.assert_close(other(x), before)
    if other.model is not net:
        other.model.last.bias.add_(1)
        torch.testing.assert_close(other(x), before + 1)
    torch.testing.assert_close(fast(x), before)


def test_attributes_of_the_model_are_the_models(net: Any) -> None:
    fast = weft.compile(net, torch.randn(3, 7))
    with pytest.raises(AttributeError, match=r"a compiled model has no `eval`; its model has: fast\.model\.eval"):
        fast.eval()
    assert not hasattr(fast, "nonsense")


def test_functions_without_a_tensor_as_result() -> None:
    x = torch.randn(3)
    assert weft.compile(lambda x: None, x)(x) is None
    assert weft.compile(lambda x: x.shape[0], x)(x) == 3


def test_programs_that_values_decide_about_run_as_eager() -> None:
    def either(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))

    x = torch.ones(3)
    with pytest.warns(UserWarning, match="a program that values decide about"):
        fast = weft.compile(either, x)
    assert torch.equal(fast(x), x * 2)
    assert torch.equal(fast(-x), -x - 1)
