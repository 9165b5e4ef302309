"""Plans on disk: a model that was compiled before is neither translated nor decided about again."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.graph import plan
from weft.graph.from_torch import compile_module, edge
from weft.graph.from_torch import model as fx_model
from weft.graph.run import cuda_executable

torch = pytest.importorskip("torch")


@pytest.fixture
def translations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A store of its own, and what was translated."""
    made: list[str] = []
    translate = compile_module.translate

    def counted(*args: Any, **named: Any) -> Any:
        made.append(named["name"])
        return translate(*args, **named)

    monkeypatch.setattr(compile_module, "translate", counted)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    return made


def network(seed: int, *, tied: bool = False) -> Any:
    torch.manual_seed(seed)
    made = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 16), torch.nn.GELU(), torch.nn.Linear(16, 16), torch.nn.Linear(16, 16),
    ).eval()  # fmt: skip
    made[1].running_mean.normal_()
    made[1].running_var.uniform_(0.5, 2)
    if tied:
        made[7].weight = made[6].weight
    return made


def told(model: Any) -> list[str]:
    """What `explain` says, but how long compiling took, which a plan from disk did not."""
    return [line for line in weft.explain(model).splitlines() if not line.startswith("compiling: ")]


def check(model: Any, x: Any) -> Any:
    with torch.no_grad():
        fast = weft.compile(model, (x,))
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    return fast


def test_weights_are_those_of_the_model_at_hand(translations: list[str]) -> None:
    x = torch.rand(2, 3, 6, 6)
    first = check(network(0), x)
    assert len(translations) == 1
    model = network(1)
    fast = check(model, x)
    assert len(translations) == 1
    assert told(fast) == told(first)
    with torch.no_grad():
        model[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(translations) == 1


def test_plans_of_a_gpu(translations: list[str], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries' calls, with weights as they want them, and what follows a recorded graph."""
    arrays = fake_cuda("aten.convolution.default", "aten.addmm.default")
    monkeypatch.setattr(fx_model, "TorchArrays", lambda processor: arrays)
    monkeypatch.setattr(cuda_executable, "LARGE", 64)
    x = torch.rand(2, 3, 6, 6)
    first = check(network(0), x)
    assert "aten.convolution.default" in weft.explain(first)
    fast = check(model := network(1), x)
    assert len(translations) == 1
    assert told(fast) == told(first)
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(2, 3, 6, 6)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_other_models_have_plans_of_their_own(translations: list[str]) -> None:
    x = torch.rand(2, 3, 6, 6)
    check(network(0), x)
    check(network(0, tied=True), x)
    check(network(0).double(), x.double())
    check(network(0), torch.rand(3, 3, 6, 6))
    assert len(translations) == 4
    check(network(2, tied=True), x)
    assert len(translations) == 4


def test_a_plan_that_cannot_be_read_is_made_again(translations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(2, 3, 6, 6)
    check(network(0), x)
    monkeypatch.setattr(plan.pickle, "loads", lambda _: object())
    check(network(0), x)
    assert len(translations) == 2
    monkeypatch.undo()
    check(network(0), x)


def test_folded_weights_are_not_all_there_at_once(translations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is made when its kernel packs it, and goes then; channels fill the vectors of any machine, so all pack."""
    layers = [
        m for _ in range(5) for m in (torch.nn.Conv2d(16, 16, 3, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU())
    ]
    model, x = torch.nn.Sequential(*layers).eval(), torch.rand(1, 16, 14, 14)
    check(model, x)
    real, made, alive = plan.ConstantMaker._computed, list[Any](), list[int]()

    def watched(*args: Any) -> Any:
        found = real(*args)
        made.extend(weakref.ref(t) for t in found if t.numel() == 16 * 16 * 9)
        alive.append(sum(t() is not None for t in made))
        return found

    monkeypatch.setattr(plan.ConstantMaker, "_computed", watched)
    check(model, x)
    assert len(translations) == 1
    assert len(made) >= 5
    assert max(alive) <= 2


def test_further_sizes_after_a_plan(translations: list[str]) -> None:
    check(network(0), torch.rand(2, 3, 6, 6))
    model = network(1)
    fast = check(model, torch.rand(2, 3, 6, 6))
    with torch.no_grad():
        for batch in (3, 4, 5):
            x = torch.rand(batch, 3, 6, 6)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


class Masked(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=self.mask)


def test_values_that_the_graph_was_made_by_are_the_same(
    translations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask that is causal is a formula without it; another of the same shape is not."""
    monkeypatch.setattr(edge, "is_on_gpu", lambda *_: True)  # where attention stays whole, and masks are looked at
    x, causal = torch.randn(1, 2, 6, 4), torch.ones(6, 6).tril().bool()
    model = Masked(causal)
    fast = check(model, x)
    check(Masked(causal.clone()), x)
    assert len(translations) == 1
    check(Masked(causal.flip(1)), x)
    assert len(translations) == 2
    with torch.no_grad():
        model.mask.copy_(causal.flip(0))
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
