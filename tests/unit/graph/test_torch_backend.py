"""torch.compile(backend="weft") and weft.compile: results, strides, aliasing, mutation, gradients, what falls back."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.retrace import retrace
from weft.graph.from_torch import backend as torch_backend
from weft.graph.from_torch import parts
from weft.graph.from_torch.backend import backend
from weft.graph.from_torch.model import Options
from weft.ir.errors import ArgumentError

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch_backend.COMPILED.clear()
    with torch.no_grad():
        yield


class Convolutions(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 10)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.norm(self.first(x)))
        h = F.max_pool2d(h + torch.relu(self.second(h)), 2)
        return self.head(h.mean((2, 3)))


class Encoder(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 16), nn.LayerNorm(16)
        self.qkv, self.out, self.up, self.down = (nn.Linear(a, b) for a, b in ((16, 48), (16, 16), (16, 32), (32, 16)))

    def forward(self, tokens: Any) -> Any:
        x = self.norm(self.table(tokens))
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, d)
        x = x + self.out(a)
        return x + self.down(F.gelu(self.up(x))), x[:, 0]


def compiled_part(fast: Any) -> Any:
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    return variant


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours.stride() == theirs.stride()


def test_convolutions_without_dynamo_and_with_it() -> None:
    model, x = Convolutions().eval(), torch.randn(2, 3, 16, 16)
    fast = weft.compile(model, (x,))
    same(fast(x), model(x))
    called = [c.call.target for c in compiled_part(fast).compiled.report.calls]
    assert all(target.startswith("mkldnn.") for target in called)  # which is taken where it is quicker: not always
    same(torch.compile(model, backend=backend)(x), model(x))


def test_an_encoder_and_other_sizes() -> None:
    model, tokens = Encoder().eval(), torch.randint(0, 50, (2, 6))
    fast = weft.compile(model, (tokens,))
    for shape in ((2, 6), (1, 4)):
        tokens = torch.randint(0, 50, shape)
        for ours, theirs in zip(fast(tokens), model(tokens)):
            same(ours, theirs)
    assert len(fast.parts) == 2


def test_changing_sizes_through_torch_compile_stay_compiled() -> None:
    fast = torch.compile(lambda x: torch.softmax(x * 2, -1), backend=backend)
    for n in (3, 4, 5, 6):
        x = torch.randn(n, 7)
        same(fast(x), torch.softmax(x * 2, -1))
    variants = [v for m in torch_backend.COMPILED for v in m.variants.values()]
    assert variants
    assert all(v.compiled is not None for v in variants)


def test_gradients_run_as_eager_and_are_told() -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.enable_grad():
        with pytest.warns(UserWarning, match="gradients are asked for"):
            torch.compile(model, backend=backend)(x).sum().backward()
        expected = torch.autograd.grad(model(x).sum(), model.weight)[0]
        assert "gradients are asked for" in weft.explain()
        with pytest.warns(UserWarning, match="gradients are asked for.*torch.no_grad"):
            direct = weft.compile(model, (x,))(x)
    torch.testing.assert_close(model.weight.grad, expected)
    assert direct.requires_grad


def test_wrong_arguments_are_the_model_s_own_error_and_nothing_else(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    model = nn.Linear(4, 3)
    fast = weft.compile(model, (torch.randn(2, 4),))
    for wrong in (torch.randn(2, 5), torch.ones(2, 4, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match="mat1"):
            fast(wrong)
    with pytest.raises(TypeError, match=r"must be Tensor, not numpy\.ndarray"):
        fast(torch.randn(2, 4).numpy())
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert not recwarn.list


def test_images_as_wide_as_windows_are_high_are_no_matrices() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), nn.ReLU()).eval()
    x = torch.randn(2, 4, 3, 3)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x))
    assert "runs as eager" not in weft.explain(fast)


def test_what_cannot_be_compiled_is_told_at_once() -> None:
    with pytest.raises(ArgumentError, match="takes a module or a function, not a int"):
        weft.compile(3, (torch.ones(2),))
    with pytest.raises(ArgumentError, match="numerics='sloppy' is not known"):
        weft.compile(nn.Linear(4, 3), (torch.ones(2, 4),), options={"numerics": "sloppy"})


@dataclass
class Pair:
    first: Any
    rest: dict[str, Any]
    number: int = 3


def test_results_in_a_dataclass() -> None:
    x = torch.randn(2, 4)
    fast = weft.compile(lambda x: Pair(x + 1, {"twice": x * 2}), (x,))
    made = fast(x)
    assert type(made) is Pair
    assert made.number == 3
    torch.testing.assert_close((made.first, made.rest["twice"]), (x + 1, x * 2))
    assert "0 calls of the framework" in weft.explain(fast)


def test_outputs_alias_and_have_the_strides_of_eager() -> None:
    def views(x: Any) -> Any:
        y = x * 2
        return y, y.t(), x.view(-1), (x + 1).t().contiguous().t()

    x = torch.randn(3, 4)
    for run in (weft.compile(views, (x,)), torch.compile(views, backend=backend)):
        y, t, flat, turned = run(x)
        for ours, theirs in zip((y, t, flat, turned), views(x)):
            same(ours, theirs)
        assert y.data_ptr() == t.data_ptr()
        assert flat.data_ptr() == x.data_ptr()


def test_buffers_and_inputs_that_are_written() -> None:
    class Counter(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.total += x.sum(0)
            x.mul_(2)
            return self.total * 1

    for compile_model in (lambda m, a: weft.compile(m, a), lambda m, a: torch.compile(m, backend=backend)):
        ours, theirs = Counter(), Counter()
        x = torch.randn(2, 3)
        fast = compile_model(ours, (x.clone(),))
        a, b = x.clone(), x.clone()
        for _ in range(2):
            same(fast(a), theirs(b))
            same(a, b)
            same(ours.total, theirs.total)


def test_weights_that_change_are_seen() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fasts = [weft.compile(model, (x,)), torch.compile(model, backend=backend)]
    changes = (
        lambda: model.weight.add_(1),
        lambda: model.load_state_dict(nn.Linear(8, 8).state_dict()),
        lambda: setattr(model, "weight", nn.Parameter(torch.randn(8, 8))),
    )
    for change in changes:
        for fast in fasts:
            same(fast(x), model(x))
        change()
        for fast in fasts:
            same(fast(x), model(x))


def test_results_that_are_constant_are_the_callers_own() -> None:
    def tables(x: Any) -> Any:
        table = torch.arange(6.0).cos() * 2
        return x + table, table.view(2, 3)

    x = torch.randn(6)
    fast = weft.compile(tables, (x,))
    fast(x)[1].zero_()
    for ours, theirs in zip(fast(x), tables(x)):
        same(ours, theirs)


def test_parameters_of_inference_mode_and_negated_views() -> None:
    with torch.inference_mode():
        model, x = nn.Linear(4, 3), torch.randn(2, 4)
        same(weft.compile(model, (x,))(x), model(x))
    negated = torch.randn(3, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    with pytest.warns(UserWarning, match="a negated view"):
        fast = weft.compile(torch.exp, (negated,))
    torch.testing.assert_close(fast(negated), torch.exp(negated))


def test_operators_without_a_formula_run_between_kernels() -> None:
    def mixed(x: Any) -> Any:
        values, places = torch.sort(x.relu() + 1, dim=1)
        return values * 2 + torch.fft.fft(values).real, places

    x = torch.randn(4, 8)
    fast = weft.compile(mixed, (x,))
    for ours, theirs in zip(fast(x), mixed(x)):
        same(ours, theirs)
    text = weft.explain(fast)
    assert "call aten._fft_c2c.default: it reads an object" in text or "call aten._fft_r2c.default: no formula" in text


def test_random_numbers_are_eagers() -> None:
    def noisy(x: Any) -> Any:
        return torch.rand_like(x) + F.dropout(x, 0.5, training=True) * torch.rand(3)

    x = torch.randn(2, 3)
    fast = weft.compile(noisy, (x,))
    torch.manual_seed(7)
    expected = noisy(x)
    torch.manual_seed(7)
    same(fast(x), expected)


def test_check_first_steps_back_on_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.graph.run.executable import Executable

    run = Executable.run_checked
    monkeypatch.setattr(Executable, "run_checked", lambda self, given: [o + 1 for o in run(self, given)])
    x = torch.randn(3)
    fast = weft.compile(torch.sin, (x,), options={"check": "first"})
    with pytest.warns(UserWarning, match="the first call differed from eager"):
        same(fast(x), torch.sin(x))
    same(fast(x), torch.sin(x))
    assert "eager, because the first call differed" in weft.explain(fast)


def test_a_failure_to_compile_is_eager_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setenv("WEFT_FAULTS", "told")
    monkeypatch.setattr("weft.graph.from_torch.compile_module.compile_graph", fail)
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="broken on purpose"):
        fast = weft.compile(torch.cos, (x,))
    same(fast(x), torch.cos(x))
    assert "eager, because a fault of Weft, RuntimeError: broken on purpose (test_torch_backend.py:" in weft.explain(
        fast
    )


def _written_view(x: Any) -> Any:
    view = x.view(1, 5)
    view.mul_(2)
    return view, view + 1, x


def _copied_back(x: Any) -> Any:
    made = (x * 2).view(1, 5)
    x.copy_(made.reshape(5))
    return made.view(5, 1), made


@pytest.mark.parametrize("program", [_written_view, _copied_back])
def test_results_share_memory_with_inputs_that_were_written_as_eagers_do(program: Any) -> None:
    class Program(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return program(x)

    given, other = torch.arange(5.0), torch.arange(5.0)
    with torch.no_grad():
        ours, theirs = weft.compile(Program(), (torch.randn(5),))(given), program(other)
    torch.testing.assert_close((given, *ours), (other, *theirs))
    shared = [[t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for t in made]
              for made, x in ((ours, given), (theirs, other))]  # fmt: skip
    assert shared[0] == shared[1]


def test_batch_norm_goes_into_weights_of_16_bits() -> None:
    """They are rounded once more, and the convolution's result once less."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(6, 40, 3, padding=1, bias=False), nn.BatchNorm2d(40), nn.ReLU()).eval()
    model[1].running_mean.uniform_(-1, 1)
    model[1].running_var.uniform_(0.5, 2)
    x = torch.randn(2, 6, 9, 11).bfloat16()
    exact = model.double()(x.double())
    model.bfloat16()
    fast = weft.compile(model, (x,))
    off, own = (((y.double() - exact).norm() / exact.norm()).item() for y in (fast(x), model(x)))
    assert off < 2 * own
    assert "rsqrt" not in str(weft.explain(fast)), "the scale is not computed in calls"
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    [(_, kernel)] = variant.compiled.report.groups
    assert len(kernel.program.program.inputs) == 3  # the image, weights, and what is added


def test_autocast_and_bfloat16() -> None:
    model, x = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), torch.randn(3, 16)

    def run(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    ours, theirs = torch.compile(run, backend=backend)(x), run(x)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours, theirs, rtol=3e-2, atol=3e-2)


def test_two_threads_call_one_model() -> None:
    model, inputs = Convolutions().eval(), [torch.randn(2, 3, 16, 16) for _ in range(2)]
    fast, expected = weft.compile(model, (inputs[0],)), [model(x) for x in inputs]
    wrong: list[Any] = []

    def work(n: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                if not torch.allclose(fast(inputs[n]), expected[n], rtol=1e-4, atol=1e-5):
                    wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_backend_has_a_name() -> None:
    torch_backend.register()
    x = torch.randn(3, 4)
    same(torch.compile(lambda x: x.cos() + 1, backend="weft")(x), x.cos() + 1)
    assert "1 kernels" in weft.explain()


def test_options_are_checked() -> None:
    with pytest.raises(weft.ArgumentError, match="no option `chekc`"):
        weft.compile(torch.sin, (torch.ones(2),), options={"chekc": "first"})
    with pytest.raises(weft.ArgumentError, match="explain takes a model"):
        weft.explain(3)


def test_results_that_run_backwards_are_copied() -> None:
    x = torch.randn(3, 4)
    fast = weft.compile(lambda x: (x.flip(0), x.flip(0, 1).t(), x.flip(1) + 1), (x,))
    for ours, theirs in zip(fast(x), (x.flip(0), x.flip(0, 1).t(), x.flip(1) + 1)):
        same(ours, theirs)
    assert compiled_part(fast).reason is None


def test_results_that_repeat_a_copy_have_strides_of_zero() -> None:
    x = torch.randn(3, 4)
    fn = lambda x: (x.flip(0).expand(2, 3, 4), x.t().reshape(12).expand(2, 12))
    for ours, theirs in zip(weft.compile(fn, (x,))(x), fn(x)):
        same(ours, theirs)


def test_tensors_without_elements() -> None:
    x = torch.randn(0, 4)

    def fn(x: Any) -> Any:
        return torch.relu(x).t(), x.sum(0), torch.cat([x, torch.ones(2, 4)])

    for ours, theirs in zip(weft.compile(fn, (x,))(x), fn(x)):
        same(ours, theirs)


def test_what_cannot_be_traced_as_a_whole_is_compiled_in_parts(capfd: pytest.CaptureFixture[str]) -> None:
    class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):  # type: ignore[no-untyped-def]
            y = torch.relu(self.layer(x)) - 1
            return y.softmax(-1) if x.sum() > 0 else y * 2

    model = Branches().eval()
    x = torch.rand(3, 4)
    with torch.no_grad():
        with pytest.warns(UserWarning, match=r"weft: the model is compiled in parts: torch\.export: "):
            fast = weft.compile(model, (x,))
        for given in (x, -x, x):
            torch.testing.assert_close(fast(given), model(given))
        model.layer.weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            fast(x[:, :3])
    assert capfd.readouterr().err == ""
    told = weft.explain(fast)
    assert "the model is compiled in parts" in told
    assert told.count("kernels (") >= 3
    with pytest.raises(ArgumentError, match="compiled in parts"):
        weft.profile(fast, x)


def test_a_model_that_is_another_while_it_is_traced_runs_as_eager() -> None:
    def fn(x: Any) -> Any:
        mask = torch.ones(5 if torch.compiler.is_compiling() else 4)
        return x + mask if x.sum() > 0 else x

    x = torch.ones(2, 4)
    with pytest.warns(UserWarning, match="compiled in parts"):
        fast = weft.compile(fn, (x,))
    torch.testing.assert_close(fast(x), x + 1)  # the first call is eager
    with pytest.warns(UserWarning, match=r"runs as eager PyTorch: torch\.export: .*; in parts: TorchRuntimeError"):
        torch.testing.assert_close(fast(x), x + 1)
    torch.testing.assert_close(fast(x), x + 1)


def test_a_call_that_fails_midway_is_made_again_without_what_it_wrote() -> None:
    def fn(x: Any, count: Any) -> Any:
        count.add_(1)
        mask = torch.ones(5 if torch.compiler.is_compiling() else 4)
        return x + mask + count if x.sum() > 0 else x

    x, count = torch.ones(2, 4), torch.zeros(())
    with pytest.warns(UserWarning, match="compiled in parts"):
        fast = weft.compile(fn, (x, count))
    torch.testing.assert_close(fast(x, count), x + 2)  # the first call is eager
    with pytest.warns(UserWarning, match=r"runs as eager PyTorch: torch\.export: .*; in parts: TorchRuntimeError"):
        torch.testing.assert_close(fast(x, count), x + 3)
    assert count == 2


def test_where_dynamo_does_not_even_load_the_model_runs_as_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    def half_loaded(*_args: Any) -> None:
        raise AttributeError("module 'sympy' has no attribute 'core'")

    def fn(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x

    monkeypatch.setattr(torch_backend, "compile_in_parts", half_loaded)
    x = torch.ones(2, 4)
    with pytest.warns(UserWarning, match=r"runs as eager PyTorch: torch\.export: .*; in parts: AttributeError"):
        fast = weft.compile(fn, (x,))
    torch.testing.assert_close(fast(x), x + 1)


def test_places_in_the_memory_of_tensors_that_begin_elsewhere() -> None:
    def fn(x: Any) -> Any:
        return x.as_strided((2, 3), (3, 1), 4) * 2

    memory = torch.arange(24.0)
    fast = weft.compile(fn, (memory[:12],))
    for begin in (0, 2, 4, 6, 0, 2):
        x = memory[begin : begin + 12]
        same(fast(x), fn(x))


def test_parts_that_give_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(3, 4)
    traced = retrace(lambda x: (x + 1, x * 2), [x])
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    output.args = ((None, output.args[0][0], 3, output.args[0][1]),)
    monkeypatch.setattr(parts, "lower_module", lambda gm, inputs, compiler: compiler(gm, inputs))
    none, first, three, second = parts.compile_part(traced, [x], Options(), parts.Remembered())([x])
    assert (none, three) == (None, 3)
    torch.testing.assert_close((first, second), (x + 1, x * 2))


def test_sparse_tensors_run_as_eager() -> None:
    x = torch.eye(3).to_sparse_csr()
    with pytest.warns(UserWarning, match="runs as eager PyTorch"):
        fast = weft.compile(lambda x, y: x @ y, (x, torch.ones(3, 2)))
    same(fast(x, torch.ones(3, 2)), torch.ones(3, 2))


def test_views_of_folded_constants_that_the_library_laid_out_otherwise() -> None:
    """As T5's table of relative positions: looked up, turned, added to and cut, all of constants."""

    class Biased(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4)

        def forward(self, x: Any) -> Any:
            places = torch.arange(7)[:, None].sub(torch.arange(7)).abs().clamp_max(4)
            bias = self.table(places).permute(2, 0, 1).unsqueeze(0) + 1.0
            return F.scaled_dot_product_attention(x, x, x, attn_mask=bias.expand(2, -1, -1, -1)), bias[:, :, 3:] * x[
                0, 0, 0, 0
            ]

    model, x = Biased().eval(), torch.randn(2, 4, 7, 8)
    for ours, theirs in zip(weft.compile(model, (x,))(x), model(x)):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def _keeps_old(x: Any) -> Any:
    old = x.clone()
    x.add_(1)
    return old, x


def _turns_itself(x: Any) -> Any:
    x.copy_(x.t().clone())
    return x.sum()


def _swaps(x: Any) -> Any:
    first, rest = x[0].clone(), x[1].clone()
    x[0] = rest
    x[1] = first
    return first


@pytest.mark.parametrize(
    "fn", [lambda x: x.clone(), lambda x: (x + 1, (x + 1).clone()), _keeps_old, _turns_itself, _swaps]
)
def test_copies_have_memory_of_their_own(fn: Any) -> None:
    start = torch.randn(3, 3)
    for fast in (weft.compile(fn, (start.clone(),)), torch.compile(fn, backend=backend)):
        x, y = start.clone(), start.clone()
        ours, theirs = ([m] if isinstance(m, torch.Tensor) else [*m] for m in (fast(x), fn(y)))
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b)
            assert (a.data_ptr() == x.data_ptr()) == (b.data_ptr() == y.data_ptr())
        torch.testing.assert_close(x, y)
        assert len({a.data_ptr() for a in ours}) == len({b.data_ptr() for b in theirs})


def test_results_of_calls_that_nobody_reads_may_have_another_shape() -> None:
    """Torch says that the second result of embedding_bag has as many elements as bags, and gives none."""
    table, places, starts = torch.randn(7, 3), torch.tensor([1, 2, 4, 5, 4]), torch.tensor([0, 2])
    fn = lambda i, w, o: F.embedding_bag(i, w, o, mode="sum")
    same(weft.compile(fn, (places, table, starts))(places, table, starts), fn(places, table, starts))


def test_a_schedule_that_fails_while_layouts_are_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> float:
        raise AssertionError("vi0")

    monkeypatch.setenv("WEFT_FAULTS", "told")
    monkeypatch.setattr("weft.graph.groups.price_program.price_program", broken)
    model, x = Convolutions().eval(), torch.randn(1, 3, 8, 8)
    fast = weft.compile(model, (x,))
    same(fast(x), model(x))
    assert compiled_part(fast).reason is None


class ScaledLater(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.window, self.linear, self.scale = nn.Conv1d(6, 8, 3), nn.Linear(7, 8), nn.Parameter(torch.randn(8))

    def forward(self, x: Any) -> Any:
        y = self.window(x)
        return y * self.scale[:, None] + self.scale[None, :, None], self.linear(y) * self.scale.unsqueeze(0)


def test_scales_that_are_views_made_after_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_FAULTS", "raise")
    model, x = ScaledLater().eval(), torch.randn(2, 6, 9)
    torch.testing.assert_close(weft.compile(model, (x,))(x), model(x), rtol=1e-4, atol=1e-5)


def test_what_only_values_tell_the_size_of_is_left_out() -> None:
    """It was the end of compiling the whole model."""

    def chosen(x: Any) -> Any:
        rows = torch.relu(x * 2 + 1)
        return rows[rows.sum(1) > 3] @ x.mT

    x = torch.randn(6, 4)
    with pytest.warns(UserWarning, match=r"in parts: `aten\.index\.Tensor` gives a size that only values tell"):
        fast = weft.compile(chosen, (x,))
    for _ in range(2):  # the first call is eager
        torch.testing.assert_close(fast(x), chosen(x))
    assert "kernel" in weft.explain(fast)
