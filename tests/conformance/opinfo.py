"""PyTorch's own samples of its operators (OpInfo) through Weft's machine code.

`python -m tests.conformance.opinfo [--dtype float32,int64,bool,bfloat16] [--samples 2] [--part 0/2] [--list]`

Entries run in other processes, so that a crash or a hang is told and not shared. Results are judged by eager in
float64: ours may be as far from it as eager's, times a little, or by what `torch.testing.assert_close` allows. Library
calls never stand in for our kernels here.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import time
import types
import unittest
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.retrace import retrace
from weft.graph import compile_graph as graph_compiler
from weft.graph.from_torch.model import FxModel

try:
    from tests.conformance.apart import run_all_apart, warm_up
except ImportError:  # run by pytest, which has this folder on the path
    from apart import run_all_apart, warm_up

#: Whose results are whatever memory held, or depend on where they are stored.
UNDEFINED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")


@dataclass
class Outcome:
    name: str
    verdict: str = "right"
    why: str = ""
    samples: int = 0
    fell_back: list[str] = field(default_factory=list)
    seconds: float = 0.0


def entries() -> list[Any]:
    try:
        import expecttest
    except ImportError:  # which torch's own tests want, and these entries do not
        expecttest = types.ModuleType("expecttest")
        expecttest.TestCase = unittest.TestCase
        sys.modules["expecttest"] = expecttest
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if op.name not in UNDEFINED]


def samples_of(op: Any, dtype: Any, number: int) -> list[Any]:
    torch.manual_seed(0)
    return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), number))


def as_function(op: Any, sample: Any) -> tuple[Any, list[Any]]:
    """A function of the tensors of a sample alone, which gives a tuple of tensors; and these tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def fn(*given: Any) -> tuple[Any, ...]:
        whole = list(leaves)
        for place, value in zip(places, given):
            whole[place] = value
        first, args, named = pytree.tree_unflatten(whole, spec)
        made = pytree.tree_leaves(op.op(first, *args, **named))
        return tuple(m for m in made if isinstance(m, torch.Tensor))

    return fn, [leaves[n] for n in places]


def widened(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


def clones(args: list[Any]) -> list[Any]:
    return [a.clone() for a in args]


def check(ours: Any, theirs: Any, exact: Any) -> None:
    """Raises unless each of ``ours`` is about as near to ``exact`` as eager's is."""
    assert len(ours) == len(theirs), f"{len(ours)} results, not {len(theirs)}"
    for n, (a, b, e) in enumerate(zip(ours, theirs, exact)):
        assert a.dtype == b.dtype, f"result {n} is {a.dtype}, not {b.dtype}"
        assert a.shape == b.shape, f"result {n} has shape {tuple(a.shape)}, not {tuple(b.shape)}"
        assert a.layout == b.layout, f"result {n} is {a.layout}, not {b.layout}"
        if b.layout != torch.strided:
            torch.testing.assert_close(a.to_dense(), b.to_dense(), equal_nan=True)
            continue
        same_strides = a.stride() == b.stride() or 1 in b.shape or not b.numel()
        assert same_strides, f"result {n}: strides {a.stride()}, not {b.stride()}"
        if not b.is_floating_point() or e is None or e.shape != b.shape or not e.is_floating_point():
            torch.testing.assert_close(a, b, equal_nan=True)
            continue
        x, y, z = a.double(), b.double(), e.double()
        exact_like = torch.where(y.isfinite() & z.isfinite(), z, y)  # overflow and the like are eager's to say
        own = (y - exact_like).abs()
        same = (x == y) | (x.isnan() & y.isnan())
        near = (x - exact_like).abs() <= 4 * own + _allowed(b.dtype) * (1 + exact_like.abs())
        bad = ~(same | near)
        if bad.any():
            place = tuple(bad.nonzero()[0].tolist())
            raise AssertionError(
                f"result {n}{list(place)}: {a[place].item()}, eager {b[place].item()}, exact {e[place].item()}"
            )


def _allowed(dtype: Any) -> float:
    return {torch.float64: 1e-7, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}[dtype]


def _exactly(fn: Any, args: list[Any], theirs: Any) -> list[Any]:
    try:
        return seeded(fn, [widened(a) for a in args])
    except Exception:  # operators that take one type only have no better judge than themselves
        return [None] * len(theirs)


def seeded(fn: Any, args: list[Any], seed: int = 42) -> list[Any]:
    """Results of a call; entries that draw random numbers set this seed themselves, which tracing does not keep."""
    torch.manual_seed(seed)
    return list(fn(*clones(args)))


def is_random(fn: Any, args: list[Any]) -> bool:
    pairs = zip(seeded(fn, args), seeded(fn, args, 43))
    plain = [(a, b) for a, b in pairs if a.layout == torch.strided and not a.is_complex()]
    return any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in plain)


def try_sample(op: Any, sample: Any, outcome: Outcome) -> None:
    fn, args = as_function(op, sample)
    with torch.no_grad():
        try:
            theirs = seeded(fn, args)
        except Exception:
            return  # not runnable
        outcome.samples += 1
        try:
            gm = retrace(fn, clones(args))
        except Exception as error:  # such operators break the graph: Dynamo runs them as they are
            outcome.fell_back.append(f"not traced: {str(error).splitlines()[0][:120]}")
            return
        # Torch itself draws other numbers for x.exponential_() than for what tracing makes of it.
        drawn = is_random(gm, args)
        theirs = seeded(gm, args) if drawn else theirs
        model = FxModel(gm)
        model.find(clones(args))
        made = seeded(lambda *given: model(list(given)), args)
        check(made, theirs, _exactly(gm if drawn else fn, args, theirs))
    for variant in model.variants.values():
        if variant.compiled is None:
            outcome.fell_back.append(f"eager: {variant.reason}")
        else:
            outcome.fell_back += [f"{c.call.target}: {c.reason}" for c in variant.compiled.report.calls]


def _gradients(fn: Any, args: list[Any]) -> Any:
    floats = [a for a in args if a.requires_grad]
    torch.manual_seed(42)
    made = [m for m in fn(*args) if m.requires_grad]
    total = sum((m.abs() ** 2).sum() for m in made)
    return torch.autograd.grad(total, floats, allow_unused=True) if made and floats else ()


def try_gradients(op: Any, dtype: Any, outcome: Outcome) -> None:
    """Through `torch.compile`, which gives such graphs to eager operators."""
    from weft.graph.from_torch import backend as torch_backend

    torch_backend.register()
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=True), 1):
        fn, args = as_function(op, sample)
        try:
            theirs = _gradients(fn, args)
        except Exception:
            continue  # not runnable
        outcome.samples += 1
        for a, b in zip(_gradients(torch.compile(fn, backend="weft"), args), theirs):
            assert (a is None) == (b is None), "only one of the gradients is there"
            torch.testing.assert_close(a, b, equal_nan=True)
        torch._dynamo.reset()


def try_entry(place: int, dtype_name: str, number: int, gradients: bool = False) -> Outcome:
    graph_compiler._Compilation._choose_libraries = lambda self: None  # type: ignore[method-assign]
    op, dtype = entries()[place], getattr(torch, dtype_name)
    outcome, start = Outcome(f"{op.name}.{op.variant_test_name}".strip(".") + f" {dtype_name}"), time.time()
    try:
        if gradients:
            try_gradients(op, dtype, outcome)
        else:
            for sample in samples_of(op, dtype, number):
                try_sample(op, sample, outcome)
    except Exception as error:
        outcome.verdict, outcome.why = "wrong", f"{type(error).__name__}: {str(error).strip()[:600]}"
    if not outcome.samples:
        outcome.verdict = "not runnable"
    outcome.seconds = time.time() - start
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=2, help="of each entry, the first ones")
    parser.add_argument("--only", default="", help="names of operators, with commas")
    parser.add_argument("--part", default="0/1", help="K/N: each N-th entry from the K-th on")
    parser.add_argument("--limit", type=float, default=120, help="seconds of its own time for each entry")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--list", action="store_true", help="each entry, and what fell back")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first, step = map(int, options.part.split("/"))
    wanted = [n for n in options.only.split(",") if n]
    warm_up(dynamo=options.gradients)
    outcomes: list[Outcome] = []
    for dtype in options.dtype.split(","):
        chosen = []
        for place, op in list(enumerate(entries()))[first::step]:
            takes = op.supported_backward_dtypes("cpu") if options.gradients else op.supported_dtypes("cpu")
            if (not wanted or op.name in wanted) and getattr(torch, dtype) in takes:
                chosen.append((place, dtype, options.samples, options.gradients))
        for item, (how, found) in zip(chosen, run_all_apart(try_entry, chosen, limit=options.limit)):
            made = found if how == "done" else Outcome(f"{entries()[item[0]].name} {dtype}", how, found, 1)
            outcomes.append(made)
            _print(made, options.list)
        _summary(dtype, [o for o in outcomes if o.name.endswith(dtype)])
    return 0 if all(o.verdict in ("right", "not runnable") for o in outcomes) else 1


def _print(made: Outcome, is_long: bool) -> None:
    if is_long or made.verdict not in ("right", "not runnable"):
        told = made.why or "; ".join(sorted(set(made.fell_back)))
        print(f"{made.verdict} {made.name} ({made.seconds:.1f} s) {told}", flush=True)


def _summary(dtype: str, outcomes: list[Outcome]) -> None:
    runnable = [o for o in outcomes if o.verdict != "not runnable"]
    right = [o for o in runnable if o.verdict == "right"]
    whole = [o for o in right if not o.fell_back]
    share = [f"{len(x)} ({len(x) / max(len(runnable), 1):.1%})" for x in (right, whole)]
    print(
        f"{dtype}: {len(runnable)} runnable entries, {share[0]} right, {share[1]} of them without any fallback",
        flush=True,
    )
    counts = collections.Counter(f.partition(":")[0] for o in right for f in set(o.fell_back))
    print("  " + ", ".join(f"{name} {n}" for name, n in counts.most_common(40)))


if __name__ == "__main__":
    sys.exit(main())
