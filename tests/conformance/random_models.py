"""Random PyTorch programs: `python -m tests.conformance.random_models [--count 5000] [--seed 1000] [--how compile]`.

Each is a module of a few operators, views, writes and reductions on inputs of odd layouts, some of whose tensors are
written to or given back as they are; some are called with several sizes. Eager, machine code and the evaluator must
agree in values (the evaluator judges, in float64: ours may be as far from it as eager's, times a little), and eager and
machine code in types, strides, in what shares memory with what, and in what the inputs hold afterwards.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

from weft.graph.run.executable import Executable

try:
    from tests.conformance.apart import run_all_apart, warm_up
except ImportError:  # run by pytest, which has this folder on the path
    from apart import run_all_apart, warm_up

F = torch.nn.functional
#: Elements above which a tensor is not read any more.
MOST = 3000
#: Seeds below this one give small programs, of which many can be compiled in a test.
SMALL = 1000
#: By how much the first axis of the first input is longer than drawn, call by call.
SIZES = ((0,), (0, 2), (0,), (0, 1, 5))
#: How far from the evaluator, in parts of the largest value, programs with bfloat16 may be beyond what eager is: twice
#: the half step of one rounding.
NARROW_STEP = 2.0**-8


class Drawing:
    """One program being drawn: while it runs for the first time, each choice is made and kept."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def of(self, items: Any) -> Any:
        return items[self.integer(0, len(items))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


Step = Callable[[list[Any], Any], Any]


def _float(x: Any) -> Any:
    return x if x.is_floating_point() else x.float()


def unary(d: Drawing, x: Any) -> Step:
    name = d.of(["relu", "tanh", "sigmoid", "neg", "abs", "gelu", "silu", "exp", "sin", "round", "sqrt", "square",
                 "softplus", "clamp", "reciprocal", "erf", "log1p", "hardswish", "elu"])  # fmt: skip
    functions = {
        "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus, "clamp": lambda x: x.clamp(-0.5, 0.75),
        "hardswish": F.hardswish, "elu": F.elu, "exp": lambda x: x.clamp(max=3).exp(), "sqrt": lambda x: x.abs().sqrt(),
        "log1p": lambda x: x.abs().log1p(), "reciprocal": lambda x: (x.abs() + 0.5).reciprocal(),
    }  # fmt: skip
    fn = functions.get(name, getattr(torch, name, None))
    return lambda x, m: fn(_float(x))


def with_number(d: Drawing, x: Any) -> Step:
    c, which = d.of([2, -1, 0.5, 3.0]), d.integer(0, 5)
    forms: list[Step] = [
        lambda x, m: x * c, lambda x, m: c - x, lambda x, m: _float(x) / c, lambda x, m: x + c,
        lambda x, m: _float(x) ** 2,
    ]  # fmt: skip
    return forms[which]


def to_type(d: Drawing, x: Any) -> Step:
    kind = d.of([torch.float32, torch.float32, torch.bfloat16, torch.float64, torch.int64])
    return lambda x, m: (x.clamp(-100, 100) if x.dtype != torch.bool else x).to(kind)


def binary(d: Drawing, x: Any, y: Any) -> Step | None:
    try:
        sizes = torch.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        return None
    if int(np.prod(sizes)) > MOST:
        return None
    name = d.of(["add", "sub", "mul", "maximum", "minimum", "where", "lt", "eq", "atan2", "masked_fill"])
    if name == "where":
        return lambda x, y, m: torch.where(x > 0, x, y)
    if name == "masked_fill":
        return (lambda x, y, m: x.masked_fill(y > 0, -1)) if sizes == x.shape else None
    if name == "atan2":
        return lambda x, y, m: torch.atan2(_float(x), _float(y))
    if name == "sub":
        return lambda x, y, m: x.float() - y.float()
    return lambda x, y, m: getattr(torch, name)(x, y)


def reduce(d: Drawing, x: Any) -> Step | None:
    if not x.dim():
        return None
    dim, keep = d.integer(-x.dim(), x.dim()), d.chance(0.5)
    name = d.of(["sum", "mean", "amax", "amin", "var", "softmax", "log_softmax", "cumsum", "all_sum", "argmax", "prod",
                 "any", "logsumexp", "norm", "layer_norm", "sort", "std_mean"])  # fmt: skip
    if name in ("var", "std_mean") and x.shape[dim] < 2:
        return None
    forms: dict[str, Step] = {
        "softmax": lambda x, m: _float(x).softmax(dim), "log_softmax": lambda x, m: _float(x).log_softmax(dim),
        "cumsum": lambda x, m: x.cumsum(dim), "all_sum": lambda x, m: x.sum(),
        "argmax": lambda x, m: _float(x).argmax(dim, keep), "prod": lambda x, m: x.clamp(-2, 2).prod(dim, keep),
        "any": lambda x, m: (x > 0).any(dim, keep), "logsumexp": lambda x, m: _float(x).logsumexp(dim, keep),
        "norm": lambda x, m: _float(x).norm(dim=dim, keepdim=keep),
        "layer_norm": lambda x, m: F.layer_norm(_float(x), x.shape[-1:]),
        "sort": lambda x, m: x.sort(dim)[0], "var": lambda x, m: _float(x).var(dim, keepdim=keep),
        "std_mean": lambda x, m: torch.std_mean(_float(x), dim, keepdim=keep)[1],
        "mean": lambda x, m: _float(x).mean(dim, keep), "sum": lambda x, m: x.sum(dim, keep),
    }  # fmt: skip
    if x.dtype == torch.bool and name in ("prod", "amax", "amin", "sort"):
        return None
    return forms.get(name, lambda x, m: getattr(x, name)(dim, keep))


def view(d: Drawing, x: Any) -> Step | None:
    rank, n = x.dim(), x.numel()
    name = d.of(["reshape", "permute", "slice", "select", "expand", "unsqueeze", "flip", "roll", "pad",
                 "squeeze", "chunk", "diagonal", "unfold", "flatten", "t", "repeat", "narrow", "tril", "index",
                 "gather"])  # fmt: skip
    if not rank:
        return (lambda x, m: x.reshape(1)) if name == "reshape" else (lambda x, m: x.expand(3))
    dim = d.integer(-rank, rank)
    size = x.shape[dim]
    start, stop, step = d.integer(0, size), d.integer(1, size + 1), d.integer(1, 3)
    order = tuple(int(k) for k in d.rng.permutation(rank))
    first = d.of([k for k in range(1, n + 1) if n % k == 0])
    forms: dict[str, Step | None] = {
        "reshape": lambda x, m: x.reshape(first, -1), "permute": lambda x, m: x.permute(order),
        "slice": (lambda x, m: x.narrow(dim, start, size - start)[..., ::step]),
        "select": lambda x, m: x.select(dim, start), "unsqueeze": lambda x, m: x.unsqueeze(dim),
        "flip": lambda x, m: x.flip(dim), "roll": lambda x, m: x.contiguous().roll(start, dim),
        "pad": lambda x, m: F.pad(x, (1, step), value=1.0), "squeeze": lambda x, m: x.squeeze(),
        "chunk": lambda x, m: x.chunk(2, dim)[-1], "flatten": lambda x, m: x.flatten(),
        "narrow": lambda x, m: x.narrow(dim, 0, stop), "repeat": lambda x, m: x.repeat(*([1] * (rank - 1)), 2),
        "expand": lambda x, m: x.unsqueeze(0).expand(2, *x.shape), "diagonal": None, "tril": None, "t": None,
        "unfold": lambda x, m: x.unfold(dim, max(1, size // 2), 1),
        "index": lambda x, m: x.index_select(dim, torch.tensor([start, 0, stop - 1])),
        "gather": lambda x, m: x.gather(dim, torch.zeros_like(x, dtype=torch.int64) + start),
    }  # fmt: skip
    if rank > 1:
        forms |= {"diagonal": lambda x, m: x.diagonal(0, 0, 1), "tril": lambda x, m: x.tril(), "t": lambda x, m: x.mT}
    return forms[name]


def product(d: Drawing, x: Any) -> Step | None:
    if x.dim() < 2:
        return None
    width, which = d.integer(1, 8), d.integer(0, 4)
    if which == 0 and x.dim() >= 3:
        return lambda x, m: F.conv1d(_float(x).reshape(-1, *x.shape[-2:]).float(), m.weight(width, x.shape[-2], 3),
                                     padding=1)  # fmt: skip
    if which == 1:
        return lambda x, m: F.linear(_float(x).float(), m.weight(width, x.shape[-1]), m.weight(width))
    if which == 2:
        return lambda x, m: _float(x) @ _float(x).mT
    return lambda x, m: F.gelu(_float(x).float() @ m.weight(x.shape[-1], width)) + 1


def write(d: Drawing, x: Any) -> Step:
    """Writes to a tensor, to a part of it, or to a buffer of the module."""
    which = d.integer(0, 5)

    def fn(x: Any, m: Any) -> Any:
        x = x.clone() if which < 2 else x
        if which == 0:
            x.reshape(-1)[:1].fill_(2) if x.is_contiguous() else x.add_(1)
        elif which == 1 and x.dim():
            x[..., : max(1, x.shape[-1] // 2)] *= 2
        elif which == 2:
            m.count.add_(1)
            return x + m.count
        elif which == 3 and x.dim() and not _overlaps(x):
            x[..., 0] = 3
        elif which == 4 and not _overlaps(x):
            x.mul_(2)
        return x

    return fn


def _overlaps(x: Any) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)) or x.dtype == torch.bool or not x.numel()


class Model(torch.nn.Module):
    """Draws a program while it is first called; later calls do the same steps."""

    def __init__(self, seed: int, steps: int, writes: bool) -> None:
        super().__init__()
        self.seed, self.writes = seed, writes
        self.steps: list[tuple[tuple[int, ...], Any]] = []
        self.results: list[int] = []
        self.count: Any
        self.register_buffer("count", torch.zeros(()))
        self.is_narrow = False
        self._wanted = steps

    def weight(self, *sizes: int) -> Any:
        name = "w_" + "_".join(map(str, sizes))
        if name not in dict(self.named_parameters()):
            generator = torch.Generator().manual_seed(sum(sizes))
            self.register_parameter(name, torch.nn.Parameter(torch.randn(*sizes, generator=generator) / 2))
        return getattr(self, name)

    def draw(self, inputs: list[Any]) -> None:
        d = Drawing(self.seed)
        held = list(inputs)
        while len(self.steps) < self._wanted:
            a = len(held) - 1 - min(int(d.rng.geometric(0.5)) - 1, len(held) - 1)
            kinds: list[Any] = [unary, with_number, reduce, view, view, product, to_type, "binary", "binary", "join"]
            kind = d.of([*kinds, *([write] * 2 if self.writes else [])])
            places: tuple[int, ...] = (a,)
            if kind == "binary":
                places = (a, d.integer(0, len(held)))
                fn: Any = binary(d, *(held[p] for p in places))
            elif kind == "join":
                dim = d.integer(0, max(held[a].dim(), 1))
                fn = (lambda x, m, dim=dim: torch.cat([x, x], dim)) if held[a].dim() else None
            else:
                fn = kind(d, held[a])
            if fn is None or any(held[p].numel() == 0 for p in places):
                continue
            try:
                made = fn(*(held[p] for p in places), self)
            except (RuntimeError, IndexError):  # bools that cannot be subtracted and the like
                continue
            if made.numel() > MOST:
                continue
            self.steps.append((places, fn))
            held.append(made)
        self.is_narrow = any(x.dtype == torch.bfloat16 for x in held)
        self.results = [len(held) - 1, *(d.integer(0, len(held)) for _ in range(d.integer(0, 3)))]

    def forward(self, *inputs: Any) -> Any:
        held = list(inputs)
        for places, fn in self.steps:
            held.append(fn(*(held[p] for p in places), self))
        return tuple(held[r] for r in self.results)


def inputs_of(seed: int, grown: int = 0) -> list[Any]:
    """Tensors of odd layouts; the same for the same seed, with the first axis of all longer by ``grown``."""
    d = Drawing(seed + 7_000_000)
    made = []
    for n in range(d.integer(1, 3)):
        sizes = [d.integer(1, 7) for _ in range(d.integer(1, 5))]
        if n == 0:
            sizes[0] += grown
        generator = torch.Generator().manual_seed(seed + n)
        layout, kind = d.integer(0, 5), d.of([torch.float32] * 4 + [torch.bfloat16, torch.int64])
        made.append(_laid_out(sizes, layout, generator).mul(3 if kind == torch.int64 else 1).to(kind))
    return made


def _laid_out(sizes: list[int], layout: int, generator: Any) -> Any:
    if layout == 1 and len(sizes) > 1:
        return torch.randn(sizes[::-1], generator=generator).permute(*range(len(sizes) - 1, -1, -1))
    if layout == 2:
        return torch.randn([2 * n for n in sizes], generator=generator)[tuple(slice(0, 2 * n, 2) for n in sizes)]
    if layout == 3 and len(sizes) == 4:
        return torch.randn(sizes, generator=generator).contiguous(memory_format=torch.channels_last)
    return torch.randn(sizes, generator=generator)


def roots(tensors: list[Any], inputs: list[Any]) -> list[Any]:
    """Whose memory each result is in: that of an input, of an earlier result, or its own."""
    owners: dict[int, str] = {}
    for n, x in enumerate(inputs):
        owners.setdefault(x.untyped_storage().data_ptr(), f"input {n}")
    return [owners.setdefault(t.untyped_storage().data_ptr(), f"result {n}") for n, t in enumerate(tensors)]


def _near(ours: Any, theirs: Any, exact: Any, step: float, what: str) -> None:
    """Raises unless both look the same, and ``ours`` is about as near to ``exact`` as eager's is."""
    assert ours.dtype == theirs.dtype, f"{what} is {ours.dtype}, not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{what} has shape {tuple(ours.shape)}, not {tuple(theirs.shape)}"
    strides = [(a, b) for a, b, n in zip(ours.stride(), theirs.stride(), theirs.shape) if n > 1]
    assert all(a == b for a, b in strides), f"{what} has strides {ours.stride()}, not {theirs.stride()}"
    a, b = ours.double(), theirs.double()
    e = b if exact is None else torch.where(b.isfinite() & exact.isfinite(), exact, b)  # overflow is eager's to say
    known = e.isfinite()
    scale = max(1.0, e[known].abs().max().item() if known.any() else 1.0)
    own = (b - e)[known].abs().max().item() if known.any() else 0.0
    off = (a - e).abs()
    bad = ~((a == b) | (a.isnan() & b.isnan()) | (off <= 4 * own + step * scale))
    worst = off[bad].max().item() if bad.any() else 0
    assert not bad.any(), f"{what} is off by {worst:.3g}, eager's by {own:.3g}, its largest value is {scale:.3g}"


@mock.patch.object(Executable, "keeps_constants", True)
def try_seed(seed: int, how: str = "trace") -> tuple[str, str]:
    """``("right" or "eager" or "wrong", why)``."""
    warnings.simplefilter("ignore")
    with torch.no_grad():
        model = Model(seed, 1 + seed // 4 % 4 if seed < SMALL else 3 + seed % 8, writes=seed % 4 == 0)
        model.draw(inputs_of(seed))
        try:
            return _compare(model, seed, how)
        except AssertionError as error:
            return "wrong", str(error)
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"


@dataclass
class Called:
    """What a call gave, and what it left its inputs and the module's buffer with."""

    made: list[Any]
    inputs: list[Any]
    count: Any


def _call(model: Any, fn: Any, inputs: list[Any]) -> Called:
    model.count.zero_()
    return Called([*fn(*inputs)], inputs, model.count.clone())


class Traced:
    """A program that writes to nothing, traced without `torch.export`, which would take most of the time."""

    def __init__(self, model: Any) -> None:
        from weft.graph.groups.open_sizes import OpenSizes

        self.model, self.sizes = model, OpenSizes()
        self.models: dict[Any, Any] = {}

    def find(self, inputs: Any) -> Any:
        from tests.retrace import retrace
        from weft.graph.from_torch.model import FxModel

        key = tuple(x.shape for x in inputs)
        if key not in self.models:
            names, weights = self.named()
            static = frozenset(range(len(names)))

            def run(*given: Any) -> Any:
                weights = dict(zip(names, given))
                return torch.func.functional_call(self.model, weights, given[len(names) :])

            self.models[key] = FxModel(retrace(run, [*weights, *inputs]), static, sizes=self.sizes)
        return self.models[key]

    def named(self) -> tuple[list[str], list[Any]]:
        weights = {name: w.detach() for name, w in self.model.named_parameters()}
        return list(weights), list(weights.values())

    def __call__(self, *inputs: Any) -> Any:
        return self.find(inputs)([*self.named()[1], *inputs])

    def find_compiled(self, inputs: Any) -> Any:
        from weft.ir.errors import ArgumentError

        given = [*self.named()[1], *inputs]
        variant = self.find(inputs).find(given)
        if variant.compiled is None:
            raise ArgumentError(f"it runs as eager: {variant.reason}")
        return variant.compiled, [given[n] for n in variant.places]


def _compare(model: Model, seed: int, how: str) -> tuple[str, str]:
    import weft
    from weft.graph.from_torch import backend as torch_backend

    if how == "dynamo":
        torch_backend.register()
        torch_backend.COMPILED.clear()
        fast = torch.compile(model, backend="weft")
    elif how == "trace" and not model.writes:
        fast = Traced(model)
    else:
        fast = weft.compile(model, tuple(inputs_of(seed)))
    for grown in SIZES[seed % len(SIZES)]:
        try:
            theirs = _call(model, model, inputs_of(seed, grown))
        except (RuntimeError, IndexError):  # the program is for other sizes alone
            continue
        _compare_calls(_call(model, fast, inputs_of(seed, grown)), theirs, model, fast, inputs_of(seed, grown))
    reasons = [v.reason for m in _models(fast) for v in m.variants.values() if v.reason]
    reasons += [m.reason for m in _models(fast) if m.reason]
    return ("eager", str(reasons)) if reasons else ("right", "")


def _compare_calls(ours: Called, theirs: Called, model: Model, fast: Any, before: list[Any]) -> None:
    exact = _meant(fast, model, before)
    # Eager rounds narrow floats after every operator; where the evaluator has no say, it alone judges.
    step = (NARROW_STEP if exact else 4 * NARROW_STEP) if model.is_narrow else 2e-5 if exact else 1e-4
    for n, (a, b) in enumerate(zip(ours.made, theirs.made, strict=True)):
        _near(a, b, exact[n] if exact else None, step, f"result {n}")
    for n, (a, b) in enumerate(zip(ours.inputs, theirs.inputs)):
        _near(a, b, None, step, f"input {n} afterwards")
    assert torch.equal(ours.count, theirs.count), "the buffer afterwards"
    _check_memory(ours, theirs, before)


def _meant(fast: Any, model: Model, inputs: list[Any]) -> list[Any] | None:
    """The results by the evaluator, every float in float64; None where a step is torch's own, or Dynamo's guards hide
    which graph ran."""
    from weft.graph.evaluate import evaluate
    from weft.ir.errors import Error

    if not hasattr(fast, "find_compiled"):
        return None
    model.count.zero_()
    try:
        compiled, given = fast.find_compiled(tuple(inputs))
        made = evaluate(compiled.executable.graph, given, wide=True)
    except Error:
        return None
    return [torch.from_numpy(np.ascontiguousarray(m.astype(np.float64))).reshape(m.shape) for m in made]


def _check_memory(ours: Called, theirs: Called, before: list[Any]) -> None:
    """Results share memory as eager's do; but what shows an input of another layout than row by row that the program
    wrote to may be a copy."""
    mine, eagers = roots(ours.made, ours.inputs), roots(theirs.made, theirs.inputs)
    written = {
        f"input {n}"
        for n, (a, b) in enumerate(zip(theirs.inputs, before))
        if not torch.equal(a, b) and not a.is_contiguous()
    }
    if written & {*eagers}:
        mine = [m for m, e in zip(mine, eagers) if e not in written]
        eagers = [e for e in eagers if e not in written]
    assert mine == eagers, f"memory of {mine}, eager's of {eagers}"


def _models(fast: Any) -> list[Any]:
    from weft.graph.from_torch import backend as torch_backend

    if isinstance(fast, Traced):
        return list(fast.models.values())
    if not hasattr(fast, "parts"):
        return list(torch_backend.COMPILED)
    return [m for p in fast.parts.values() for m in ([p.model] if hasattr(p, "model") else p.models)]


def try_apart(seed: int, how: str) -> tuple[str, str]:
    """Leaves nothing of Dynamo's to the next program."""
    made = try_seed(seed, how)
    if how == "dynamo":
        torch._dynamo.reset()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=SMALL, help="the first one")
    parser.add_argument("--how", default="trace", help="trace (no export where nothing is written), compile or dynamo")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    start = time.time()
    items = [(seed, options.how) for seed in range(options.seed, options.seed + options.count)]
    warm_up()
    for (seed, _), (how, found) in zip(items, run_all_apart(try_apart, items, limit=120)):
        verdict, why = found if how == "done" else (how, str(found))
        counts[verdict] += 1
        if verdict == "eager":
            reasons[why[:100]] += 1
        elif verdict != "right":
            print(f"{verdict} --seed {seed}: {why[:700]}", flush=True)
        if seed % 100 == 99:
            print(f"up to seed {seed}: {dict(counts)}", flush=True)
        if time.time() - start > options.seconds:
            break
    print(f"{sum(counts.values())} programs: " + ", ".join(f"{n} {v}" for v, n in counts.most_common()))
    for why, n in reasons.most_common(8):
        print(f"eager {n}: {why}")
    return 1 if set(counts) - {"right", "eager"} else 0


if __name__ == "__main__":
    sys.exit(main())
