"""What graphs become for GPUs: products joined, channels last, what libraries do with each sum, masks told."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.unit.graph.test_cuda_executable import Fake, compile_for
from weft.graph.builder import GraphBuilder
from weft.graph.formulas import reductions
from weft.graph.from_torch import edge as torch_edge
from weft.graph.from_torch import known_values
from weft.graph.graph import Call, Ref, ordered_strides
from weft.graph.groups.group_code import GroupCode
from weft.graph.groups.mapping import kind_of
from weft.graph.rewrites.library_epilogues import LibraryCall, with_constants
from weft.ir import dtype as dt


def check(fake: Any, model: Any, *args: Any, tolerance: float = 1e-4) -> Any:
    """A call in order and a recorded one of ``model`` are eager's; gives what was compiled."""
    compiled, call = compile_for(fake, model, *args)
    with torch.no_grad():
        expected = model(*args)
        for _ in range(2):
            (made,) = call(*args)
            scale = float(expected.abs().max())
            torch.testing.assert_close(made.float(), expected.float(), rtol=tolerance, atol=tolerance * scale)
    return compiled


def targets(compiled: Any) -> list[str]:
    return [c.call.target for c in compiled.report.calls]


class Attention(nn.Module):
    """Queries, keys and values by products of their own."""

    def __init__(self, mask: str = "none", bias: bool = True) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32, bias=bias) for _ in range(3))
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, 4, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        places = torch.arange(length)
        seen = {
            "none": None,
            "all": (places >= 0)[None, None, None, :].expand(batch, 1, length, length),
            "causal": (places[None, :] <= places[:, None])[None, None],
            "window": ((places[None, :] - places[:, None]).abs() < 3)[None, None],
        }[self.mask]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.transpose(1, 2).reshape(batch, length, 32)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("library", [True, False])
def test_products_of_one_tensor_are_one(fake_cuda: Fake, bias: bool, library: bool) -> None:
    target = "aten.addmm.default" if bias else "aten.mm.default"
    model = Attention(bias=bias).eval()
    compiled = check(fake_cuda(*[target] * library), model, torch.randn(2, 12, 32))
    products = [k for g, k in compiled.report.groups if g.kind == "contraction" and "product" in g.name]
    assert targets(compiled).count(target) == (1 if library else 0)
    assert library or bias == (len(products) == 1)


@pytest.mark.parametrize(
    ("mask", "told"), [("all", (None, False)), ("causal", (None, True)), ("window", ("mask", False))]
)
def test_masks_that_no_input_changes_are_told(
    fake_cuda: Fake,
    monkeypatch: pytest.MonkeyPatch,
    mask: str,
    told: tuple[str | None, bool],
) -> None:
    monkeypatch.setattr(torch_edge, "is_on_gpu", lambda *_: True)
    compiled = check(
        fake_cuda("aten.scaled_dot_product_attention.default"), Attention(mask).eval(), torch.randn(2, 12, 32)
    )
    (call,) = [c.call for c in compiled.report.calls if "attention" in c.call.target]
    assert (call.args[3] and "mask", dict(call.named)["is_causal"]) == told


def test_what_a_mask_says_is_computed_once_for_all_layers(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(10)
        seen = (places[None, :] <= places[:, None])[None, None]
        for _ in range(3):
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=seen)
        return x

    computed: list[str] = []
    compute = known_values._computed

    def counted(node: Any, args: Any) -> Any:
        computed.append(node.name)
        return compute(node, args)

    monkeypatch.setattr(known_values, "_computed", counted)
    monkeypatch.setattr(torch_edge, "is_on_gpu", lambda *_: True)
    compiled = check(fake_cuda("aten.scaled_dot_product_attention.default"), layers, torch.randn(1, 2, 10, 8))
    assert [dict(c.call.named)["is_causal"] for c in compiled.report.calls] == [True] * 3
    assert computed
    assert len(computed) == len({*computed})


def test_what_a_mask_says_is_the_same_by_torch_and_by_formulas() -> None:
    b = GraphBuilder("net")
    ones = b.constant("ones", torch.ones(3, 5, dtype=torch.int64))
    call = Call("aten.cumsum.default", (Ref(ones), 1))
    names = [
        b.formula("sums", [ones], reductions.running, 1, "sum", dt.int64, library=library)
        for library in (call, None, Call("aten.no_such_operator.default", (Ref(ones),)))
    ]
    for name in names:
        assert torch.equal(known_values.known_values(b, name), torch.ones(3, 5, dtype=torch.int64).cumsum(1))
    assert known_values.known_values(b, b.input("x", "float32", (2,))) is None


def test_products_that_a_librarys_choice_changes_are_begun_before(
    fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def net(x: Any, v: Any, w: Any, bias: Any) -> Any:
        return torch.relu(torch.addmm(bias, x, w) + torch.sin(x @ v))

    begun: list[Any] = []
    prepare = GroupCode.prepare

    def with_others(code: Any, groups: Any, limits: Any = None, meanwhile: Any = (), each: Any = None) -> None:
        for work in meanwhile:
            work()
        prepare(code, groups, limits or {}, (), each)

    monkeypatch.setattr(GroupCode, "is_busy", True)
    monkeypatch.setattr(GroupCode, "begin", lambda _, groups: begun.extend(p.program.program for p in groups))
    monkeypatch.setattr(GroupCode, "prepare", with_others)
    given = [torch.randn(*shape) for shape in ((6, 8), (8, 4), (8, 4), (4,))]
    compiled = check(fake_cuda("aten.addmm.default"), net, *given)
    assert targets(compiled) == ["aten.addmm.default"]
    [kernel] = [kernel for group, kernel in compiled.report.groups if group.kind == "contraction"]
    assert kernel.program.program in begun


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_that_are_repeated_are_read_once(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    def grouped(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        k = torch.relu(k)
        many = k[:, :, None].expand(batch, 2, 3, 10, 8).reshape(batch, 6, 10, 8)
        return F.scaled_dot_product_attention(q, many, many, is_causal=True)

    monkeypatch.setattr(torch_edge, "is_on_gpu", lambda *_: True)
    arrays = fake_cuda("aten.scaled_dot_product_attention.default")
    compiled = check(arrays, grouped, torch.randn(batch, 6, 10, 8), torch.randn(batch, 2, 10, 8))
    (call,) = [c.call for c in compiled.report.calls]
    assert dict(call.named)["enable_gqa"]
    assert compiled.executable.graph.edges[call.args[1].name].shape == (batch, 2, 10, 8)


@pytest.mark.parametrize("library", [True, False])
def test_products_are_taken_in_the_order_of_memory(
    fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch, library: bool
) -> None:
    """torch's attention turns batch and length around and back; nothing is copied for that, nor is a batch made."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = x + self.inner(x, x, x, need_weights=False)[0]
            return result

    monkeypatch.setattr(torch_edge, "is_on_gpu", lambda *_: True)
    attention, product = "aten.scaled_dot_product_attention.default", "aten.addmm.default"
    arrays = fake_cuda(attention, *[product, "aten.bmm.default"] * library)
    compiled = check(arrays, Heads().eval(), torch.randn(3, 10, 32))
    assert targets(compiled) == ([product, attention, product] if library else [attention])
    assert len(compiled.report.groups) == (1 if library else 2)


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_columns_that_do_not_come_out_even(fake_cuda: Fake, library: bool, bias: bool) -> None:
    target = "aten.addmm.default" if bias else "aten.mm.default"
    model = nn.Linear(32, 515, bias=bias).eval().bfloat16()
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16)
    compiled = check(fake_cuda(*[target] * library), model, x, tolerance=3e-2)
    edges = compiled.executable.graph.edges
    made = [n for s in compiled.executable.steps for n in getattr(getattr(s, "program", s), "outputs", ())]
    assert (16, 520) in [edges[n].shape for n in made]


def test_a_batch_of_products_with_one_matrix(fake_cuda: Fake) -> None:
    weight = nn.Parameter(torch.randn(24, 16))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.bmm(x, self.weight.t().expand(5, 16, 24))

    compiled = check(fake_cuda("aten.matmul.default"), Layer().eval(), torch.randn(5, 8, 16))
    assert targets(compiled) == ["aten.matmul.default"]


class Block(nn.Module):
    """Convolutions of nine taps and of one, batch norms, a residual, one in groups, a depthwise one, a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.one = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.Conv2d(8, 16, 1, bias=False)
        self.deep, self.back = nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Conv2d(16, 8, 1)
        self.parts = nn.Conv2d(16, 16, 3, 1, 1, groups=4, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (8, 16, 16, 16))
        for norm in self.norms:
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norms[0](self.first(x)))
        y = F.relu(self.norms[1](self.one(x)))
        y = F.relu(self.norms[3](self.parts(y)))
        y = F.relu6(self.norms[2](self.deep(F.max_pool2d(y, 3, 1, 1))))
        return F.relu(self.back(y) + x).mean((2, 3))


@pytest.mark.parametrize(
    ("library", "count", "dtype"),
    [
        ("none", 0, torch.bfloat16),
        ("aten.convolution.default", 3, torch.float32),
        ("aten.convolution.default", 3, torch.bfloat16),
        ("aten.mm.default", 1, torch.float32),
        ("aten.addmm.default", 1, torch.float32),
    ],
)
def test_images_have_their_channels_last(fake_cuda: Fake, library: str, count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Block().eval().to(dtype)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    compiled = check(fake_cuda(library), model, torch.randn(2, 3, 8, 8, dtype=dtype), tolerance=tolerance)
    graph, find = compiled.executable.graph, compiled.executable.storage.find
    stored = [n for s in compiled.executable.steps for n in getattr(getattr(s, "program", s), "outputs", ())]
    images = [n for n in stored if n in graph.edges and len(graph.edges[n].shape) == 4 and graph.edges[n].shape[2] > 1]
    assert images
    for name in images:
        assert find(name).layout.strides == ordered_strides(graph.edges[name].shape, (0, 2, 3, 1))
    assert len([t for t in targets(compiled) if t == library]) == count


class Scaled(nn.Module):
    """A product with a bias and a scale of each column behind it, another with a number, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)
        self.gain, self.shift = nn.Parameter(torch.rand(16) + 0.5), nn.Parameter(torch.rand(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu((self.first(x) * 0.125).view(2, 3, 4, 8)).view(2, 3, 32)
        return self.gain * self.second(y) + self.shift + x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_behind_a_bias_go_into_weights_and_bias(fake_cuda: Fake, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    compiled = check(fake_cuda(), Scaled().to(dtype), torch.randn(2, 3, 16, dtype=dtype), tolerance=tolerance)
    left = [f.program.name for f in compiled.executable.graph.fragments if kind_of(f.program) != "view"]
    assert left == ["add_product", "gelu", "add_product", "add", "add"]


@pytest.mark.parametrize("target", ["aten.convolution.default", "aten.cudnn_convolution_relu.default"])
def test_weights_lie_as_the_library_computes(fake_cuda: Fake, target: str) -> None:
    """Once; or the library would convert them in every call."""
    g = GraphBuilder("net")
    x, w = g.input("x", "float32", (2, 3, 8, 8)), g.constant("w", torch.randn(4, 3, 3, 3))
    b = g.constant("b", torch.randn(4))
    call = Call(target, (Ref(x), Ref(w), Ref(b), (1, 1), (1, 1), (1, 1), False, (0, 0), 1))
    graph, changed = with_constants(g.finish([x]), LibraryCall(call, whole=False), fake_cuda())
    name = changed.args[1].name
    assert graph.edges[name].strides == graph.constants[name].stride() == (27, 1, 9, 3)
    torch.testing.assert_close(graph.constants[name], graph.constants[w])
    assert changed.args[2] == Ref(b)


def gelu_by_hand(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_of_torch(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (F.relu, False),
        (gelu_by_hand, True),
        (lambda x: F.gelu(x, approximate="tanh"), True),
        (F.gelu, None),
        (F.silu, None),
    ],
)
def test_what_a_library_does_with_each_sum(fake_cuda: Fake, function: Any, named: bool | None) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 24)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = function(self.linear(x))
            return result

    arrays, x = fake_cuda("aten._addmm_activation.default"), torch.randn(8, 16)
    # On a CPU this operator computes the other gelu, which differs by 5e-4.
    compiled = check(arrays, Layer().eval(), x, tolerance=2e-3 if named else 1e-4)
    calls = [c.call for c in compiled.report.calls]
    assert [dict(c.named)["use_gelu"] for c in calls] == ([] if named is None else [named])
