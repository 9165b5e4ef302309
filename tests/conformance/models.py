"""Models that nobody tuned Weft on, against eager: `python -m tests.conformance.models [--only bert,gpt2] [--how ...]`.

Needs torchvision and transformers. Each model runs in a process of its own, so that a crash or a hang is told and not
shared. Results are judged by eager in float64: ours may be as far from it as eager's own, times a little.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.apart import run_apart, warm_up

HOWS = ("compile", "dynamo", "onnx", "train")


@dataclass
class Outcome:
    name: str
    verdict: str = "pass"
    why: str = ""
    #: operators that ran as the framework's own because Weft lacks them, and how often
    fell_back: dict[str, int] = field(default_factory=dict)
    kernels: int = 0
    seconds: float = 0.0


def tensors_of(value: Any) -> list[Any]:
    """All tensors in nested results, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict) or hasattr(value, "items"):
        return [t for v in value.values() for t in tensors_of(v)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_of(v)]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return [t for v in vars(value).values() for t in tensors_of(v)] if "Cache" not in type(value).__name__ else []
    return []


def wide(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


def check(ours: list[Any], theirs: list[Any], exact: list[Any]) -> None:
    """Raises unless ``ours`` are about as near to ``exact`` as eager's own results are."""
    import torch

    assert len(ours) == len(theirs), f"{len(ours)} results, not {len(theirs)}"
    for n, (a, b, e) in enumerate(zip(ours, theirs, exact)):
        assert a.dtype == b.dtype, f"result {n} is {a.dtype}, not {b.dtype}"
        assert a.shape == b.shape, f"result {n} has shape {tuple(a.shape)}, not {tuple(b.shape)}"
        if not b.is_floating_point():
            same = (a == b).double().mean().item() if a.numel() else 1.0
            assert same > 0.99, f"result {n}: {same:.1%} equal"
            continue
        x, y, z = a.double(), b.double(), e.double()
        z = torch.where(z.isfinite(), z, y)  # masks by the least float32 may be none in float64
        assert torch.equal(x.isfinite(), y.isfinite()), f"result {n}: other elements are finite"
        off, own = ((v - z)[y.isfinite()].abs().max().item() if y.isfinite().any() else 0.0 for v in (x, y))
        scale = z[z.isfinite()].abs().max().item() if z.isfinite().any() else 0.0
        allowed = max(4 * own, 30 * torch.finfo(b.dtype).eps * scale, 1e-12)
        assert off <= allowed, f"result {n} is off by {off:.3g}, eager by {own:.3g}, largest {scale:.3g}"


def _fallbacks(compileds: list[Any], outcome: Outcome) -> None:
    counts: collections.Counter[str] = collections.Counter(outcome.fell_back)
    for compiled in compileds:
        outcome.kernels += len(compiled.report.groups)
        for call in compiled.report.calls:
            if not call.reason.startswith("the library is faster"):
                counts[f"{call.call.target}: {call.reason}"] += 1
    outcome.fell_back = dict(counts)


def _variants(model: Any) -> list[Any]:
    return list(model.variants.values())


def _run_compile(model: Any, args: Any, outcome: Outcome) -> list[Any]:
    import weft

    fast = weft.compile(model, args)
    made = fast(*args)
    [part] = fast.parts.values()
    if isinstance(part, str):
        outcome.verdict, outcome.why = "eager", part
    else:
        told(part.models if hasattr(part, "models") else [part.model], outcome)
        if hasattr(part, "models"):
            outcome.verdict, outcome.why = "parts", f"{len(part.models)}: {part.reason} {outcome.why}"
    return tensors_of(made)


def _run_dynamo(model: Any, args: Any, outcome: Outcome) -> list[Any]:
    import torch

    from weft.graph.from_torch import backend as torch_backend

    torch_backend.register()
    made = torch.compile(model, backend="weft")(*args)
    told(torch_backend.COMPILED, outcome)
    return tensors_of(made)


def told(models: list[Any], outcome: Outcome) -> None:
    reasons = [m.reason for m in models if m.reason] + [v.reason for m in models for v in _variants(m) if v.reason]
    if reasons:
        outcome.verdict, outcome.why = "eager", str(reasons)
    _fallbacks([v.compiled for m in models for v in _variants(m) if v.compiled], outcome)


def _run_onnx(model: Any, args: Any, outcome: Outcome) -> list[Any]:
    import torch

    import weft

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            torch.onnx.export(model, args, path, dynamo=True, verbose=False)
        except Exception as error:
            outcome.verdict, outcome.why = "not exported", str(error).strip().splitlines()[0][:200]
            return []
        net = weft.load_onnx(path)
        made = net.run(None, {p.name: a.numpy() for p, a in zip(net.inputs, args)})
    return [torch.from_numpy(m) for m in made]


def _gradients(model: Any, call: Any, args: Any) -> list[Any]:
    model.zero_grad()
    made = [t for t in tensors_of(call(*args)) if t.is_floating_point()]
    sum((t.double() ** 2).mean() for t in made).backward()
    return [*(t.detach() for t in made), *(p.grad for p in model.parameters() if p.grad is not None)]


def _train(model: Any, args: Any, outcome: Outcome) -> tuple[list[Any], list[Any], list[Any]]:
    """Results and gradients in training mode, dropout off: ours, eager's, eager's in float64."""
    import torch

    from weft.graph.from_torch import backend as torch_backend

    torch_backend.register()
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and (name == "p" or "drop" in name):
                setattr(module, name, 0.0)
    model.train()
    theirs_of, exact_of = copy.deepcopy(model), copy.deepcopy(model).double()
    ours = _gradients(model, torch.compile(model, backend="weft"), args)
    theirs = _gradients(theirs_of, theirs_of, args)
    return ours, theirs, _exactly(lambda *wider: _gradients(exact_of, exact_of, wider), args, theirs)


def _exactly(call: Any, args: Any, theirs: list[Any]) -> list[Any]:
    """What ``call`` gives in float64, for which torch lacks some operators: then eager's own."""
    try:
        return tensors_of(call(*[wide(a).clone() for a in args]))
    except RuntimeError:
        return theirs


def try_model(name: str, how: str, dtype: str) -> Outcome:
    import torch

    from tests.conformance.model_zoo import MODELS

    outcome = Outcome(f"{name} {how} {dtype}")
    start = time.time()
    torch.manual_seed(0)
    try:
        model, args = MODELS[name]()
    except Exception as error:  # of another version of the package
        return Outcome(outcome.name, "not made", f"{type(error).__name__}: {str(error).strip()[:300]}")
    model = model.eval()
    exact_model = copy.deepcopy(model).to(getattr(torch, dtype)).double()
    model = model.to(getattr(torch, dtype))
    args = tuple(a.to(getattr(torch, dtype)) if a.is_floating_point() else a for a in args)
    try:
        if how == "train":
            check(*_train(model, args, outcome))
        else:
            with torch.no_grad():
                try:
                    theirs = tensors_of(copy.deepcopy(model)(*copy.deepcopy(args)))  # a model may write to both
                except Exception as error:  # which has no operator of this type, say
                    return Outcome(outcome.name, "not in eager", f"{type(error).__name__}: {str(error).strip()[:300]}")
                exact = _exactly(exact_model, args, theirs)
                ours = globals()[f"_run_{how}"](model, args, outcome)
                if outcome.verdict != "not exported":
                    check(ours, theirs, exact)
    except Exception as error:
        refused = type(error).__name__ in ("UnsupportedError",)
        outcome.verdict = "refused" if refused else "wrong"
        outcome.why = f"{type(error).__name__}: {str(error).strip()[:1500]}"
        if not isinstance(error, AssertionError) and not refused:
            outcome.why += "\n" + "".join(traceback.format_tb(error.__traceback__)[-3:])
    outcome.seconds = time.time() - start
    return outcome


def run_model(name: str, how: str, dtype: str, limit: float) -> Outcome:
    verdict, found = run_apart(try_model, name, how, dtype, limit=limit)
    return found if verdict == "done" else Outcome(f"{name} {how} {dtype}", verdict, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of models, with commas")
    parser.add_argument("--skip", type=int, default=0, help="so many of the first models")
    parser.add_argument("--how", default="compile", help=f"of {','.join(HOWS)}, with commas")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16, with commas")
    parser.add_argument("--limit", type=float, default=300, help="seconds of its own time for each")
    parser.add_argument("--list", action="store_true", help="tell what fell back for each model")
    options = parser.parse_args()
    import transformers  # noqa: F401  before processes are forked, so that each need not

    from tests.conformance.model_zoo import MODELS, torchvision

    torchvision()
    for more in ("wider", "newer", "handwritten"):
        importlib.import_module(f"tests.conformance.model_zoo_{more}")
    warm_up()
    names = [n for n in options.only.split(",") if n] or list(MODELS)[options.skip :]
    outcomes = []
    for name in names:
        for how in options.how.split(","):
            for dtype in options.dtype.split(","):
                outcomes.append(run_model(name, how, dtype, options.limit))
                _print(outcomes[-1], options.list)
    counts = collections.Counter(o.verdict for o in outcomes)
    print(f"{len(outcomes)} runs: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))
    fell = collections.Counter(key for o in outcomes for key in o.fell_back)
    for key, n in fell.most_common(60):
        print(f"fell back in {n} models: {key}")
    return 1 if counts["wrong"] + counts["crash"] + counts["hang"] else 0


def _print(o: Outcome, lists: bool) -> None:
    print(f"{o.verdict:8} {o.name} ({o.kernels} kernels, {sum(o.fell_back.values())} fallbacks, {o.seconds:.0f} s) "
          f"{o.why}", flush=True)  # fmt: skip
    for key, n in o.fell_back.items() if lists else ():
        print(f"    {n} x {key}")


if __name__ == "__main__":
    sys.exit(main())
