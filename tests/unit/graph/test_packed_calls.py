"""Libraries on packed weights as candidates: what they compute is right, whatever follows the sum, and who is taken."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.graph import compile_graph as compiling
from weft.graph.builder import formula_program
from weft.graph.formulas import windows
from weft.graph.from_torch import native_calls
from weft.graph.graph import Call, Edge, Graph, Opaque
from weft.graph.groups.choose import Choice, multiplications
from weft.graph.groups.take_turns import take_turns
from weft.ir import dtype as dt

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
Take = Callable[[int], None]


@pytest.fixture(autouse=True)
def _seed() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Take:
    """``take(n)`` makes the library's candidate number ``n``, or the last, the quickest; what is kept is kept apart."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))

    def take(call: int) -> None:
        monkeypatch.setattr(compiling._Compilation, "_kept_choice", lambda *_: None)
        monkeypatch.setattr(compiling._Compilation, "_choice", lambda *_: Choice(1.0, 0.0, "told", call))

    return take


def calls(fast: Any) -> list[Call]:
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    return [c.call for c in variant.compiled.report.calls]


def called(fast: Any) -> list[str]:
    return [call.target for call in calls(fast)]


class Block(nn.Module):  # type: ignore[misc,name-defined]
    """A convolution, what batch norm leaves of itself, perhaps a residual, and an activation; and another one."""

    def __init__(self, activation: Callable[[Any], Any], residual: bool, groups: int = 1) -> None:
        super().__init__()
        self.activation, self.residual = activation, residual
        self.convolution = nn.Conv2d(8, 8, 3, padding=1, groups=groups, bias=False)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.bias.uniform_(-1, 1)

    def forward(self, x: Any) -> Any:
        h = self.norm(self.convolution(x))
        return self.last(self.activation(h + x if self.residual else h))


ACTIVATIONS = {
    "nothing": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,  # which no call has
}


@pytest.mark.parametrize(
    ("activation", "residual"),
    [*((name, False) for name in ACTIVATIONS), *((name, True) for name in ("nothing", "relu", "relu6", "softplus"))],
)
def test_a_convolution_with_what_follows_it_is_eagers(take: Take, activation: str, residual: bool) -> None:
    take(99)
    model = Block(ACTIVATIONS[activation], residual).eval()
    x = 8 * torch.randn(2, 8, 10, 10)  # beyond the corners of all of them
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    target, _ = called(fast)
    is_added = residual and activation in ("nothing", "relu")
    assert target == "mkldnn._convolution_pointwise." + ("binary" if is_added else "default")


@pytest.mark.parametrize(
    "activation",
    [
        lambda x: x.clamp(0, 20), lambda x: F.leaky_relu(x, 1e-6), lambda x: torch.where(x > 50, -x, x),
        lambda x: torch.where((x > 0.1) & (x < 0.2), 0, F.relu(x)),
    ],
)  # fmt: skip
def test_functions_that_are_nearly_one_of_a_library_are_not_taken_for_it(take: Take, activation: Any) -> None:
    take(99)
    model = Block(activation, False).eval()
    x = torch.linspace(-60, 60, 1600).reshape(2, 8, 10, 10)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-3)
    assert not any("relu" in call.args for call in calls(fast))


@pytest.mark.parametrize("groups", [2, 8])
def test_groups_of_channels(take: Take, groups: int) -> None:
    take(0)
    model, x = Block(F.relu, False, groups).eval(), torch.randn(1, 8, 9, 9)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    assert called(fast)[0] == "mkldnn._convolution_pointwise.default"


class Product(nn.Module):  # type: ignore[misc,name-defined]
    """A linear layer whose weights lie in rows or in columns, as GPT-2 has them."""

    def __init__(self, columns: bool, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn((16, 24) if columns else (24, 16)))
        self.bias = nn.Parameter(torch.randn(24)) if bias else None
        self.columns = columns

    def forward(self, x: Any) -> Any:
        w = self.weight if self.columns else self.weight.t()
        made = torch.mm(x, w) if self.bias is None else torch.addmm(self.bias, x, w)
        return F.gelu(made)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("call", [0, 99])
def test_a_product_with_a_constant_matrix(take: Take, call: int, columns: bool, bias: bool) -> None:
    take(call)
    model, x = Product(columns, bias), torch.randn(5, 16)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    assert called(fast) == ["mkldnn._linear_pointwise.default"]


def test_weights_that_change_are_packed_again(take: Take) -> None:
    take(99)
    model, x = Block(F.relu, False).eval(), torch.randn(1, 8, 9, 9)
    fast = weft.compile(model, (x,))
    fast(x)
    model.convolution.weight.mul_(-2.0)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def test_other_types_than_float32_are_not_packed(take: Take) -> None:
    take(99)
    model, x = Block(F.relu, False).eval().double(), torch.randn(1, 8, 9, 9, dtype=torch.float64)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x))
    assert not any(target.startswith("mkldnn") for target in called(fast))


def test_zeros_around_an_image_are_no_work_of_a_library() -> None:
    edges = [Edge("x", dt.float32, (1, 4, 6, 6)), Edge("w", dt.float32, (8, 4, 3, 3))]
    facts = ((1, 1), (1, 1), (1, 1), (1, 1), 1)
    program = formula_program("c", edges, windows.convolution_without_bias, *facts)
    assert multiplications(program) == 8 * 6 * 6 * 4 * 3 * 3


def test_turns_take_the_least_and_leave_out_what_is_far_behind() -> None:
    asked: list[str] = []

    def sampler(name: str, times: list[float]) -> Callable[[], float]:
        def sample() -> float:
            asked.append(name)
            return times[min(asked.count(name), len(times)) - 1]

        return sample

    noisy, steady, slow = sampler("noisy", [9e-6, 8e-6, 1e-6]), sampler("steady", [2e-6]), sampler("slow", [8e-6])
    assert take_turns([noisy, steady, slow, lambda: math.inf], 8) == [8e-6, 2e-6, 8e-6, math.inf]
    assert asked.count("steady") == 8
    assert asked.count("slow") == asked.count("noisy") == 2


def test_a_library_is_taken_only_where_it_is_clearly_quicker() -> None:
    assert Choice(1.0, 0.96).is_ours
    assert not Choice(1.0, 0.9).is_ours


def test_a_second_process_packs_again_and_decides_nothing(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    take(99)
    model, x = Block(F.relu, True).eval(), torch.randn(1, 8, 9, 9)
    weft.compile(model, (x,))(x)
    monkeypatch.setattr(compiling._Compilation, "compile", lambda *_: pytest.fail("decided again"))
    fast = weft.compile(model, (x,))  # finds what is kept on disk, as another process does
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    assert called(fast)[0] == "mkldnn._convolution_pointwise.binary"


class Chain(nn.Module):  # type: ignore[misc,name-defined]
    """Two convolutions, the second with a residual, and a product; none of them makes the result."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.linear = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 16, 1), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        z = torch.relu(self.second(y) + y)
        return torch.softmax(self.linear(z.mean((2, 3))), -1)


def executable_of(fast: Any) -> Any:
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    return variant.compiled.executable


def test_calls_of_libraries_are_rows_of_the_table(take: Take) -> None:
    take(1)
    model, inputs = Chain().eval(), [torch.randn(2, 8, 9, 9) for _ in range(8)]
    fast = weft.compile(model, (inputs[0],))
    expected = [model(x) for x in inputs]
    for x, right in zip(inputs, expected):
        torch.testing.assert_close(fast(x), right)
    assert len(called(fast)) == 3
    assert executable_of(fast).is_direct
    with ThreadPoolExecutor(4) as pool:
        for made, right in zip(pool.map(torch.no_grad()(fast), inputs * 8), expected * 8):
            torch.testing.assert_close(made, right)


def test_results_of_calls_are_given_back(take: Take) -> None:
    take(1)
    x = torch.randn(1, 8, 128, 128)  # a megabyte between the convolutions
    fast = weft.compile(Chain().eval(), (x,))
    for _ in range(20):
        fast(x)
    before = _resident()
    for _ in range(200):
        fast(x)
    assert _resident() - before < 50e6


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_result_that_lies_otherwise_than_its_readers_expect_is_copied(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By machine code: it was computed again by Python, and all kernels before it."""
    take(99)
    model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, groups=8), nn.Softmax(1)).eval()
    x = torch.randn(2, 8, 9, 9)  # whose channels oneDNN leaves apart, where ours come together
    fast = weft.compile(model, (x,))
    executable = executable_of(fast)
    monkeypatch.setattr(executable, "_run", lambda *_: pytest.fail("left to Python"))
    assert executable.is_direct
    for _ in range(3):
        torch.testing.assert_close(fast(x), model(x))


def test_calls_do_not_keep_the_graph(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the values of all constants, among them those that only packed ones were made of."""
    real, seen = native_calls.native_call, []

    def watched(graph: Graph, node: Opaque, strides: Callable[[str], tuple[int, ...]]) -> Any:
        seen.append(weakref.ref(graph))
        return real(graph, node, strides)

    monkeypatch.setattr(native_calls, "native_call", watched)
    take(1)
    model, x = Chain().eval(), torch.randn(2, 8, 9, 9)
    fast = weft.compile(model, (x,))
    gc.collect()
    assert seen
    assert all(graph() is None for graph in seen)
    torch.testing.assert_close(fast(x), model(x))
