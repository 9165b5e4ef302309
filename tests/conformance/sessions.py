"""Sessions with models as people have them, against eager: `python -m tests.conformance.sessions [--only ...]`.

A session is a model, called several times: other sizes, other numbers, arguments by name, weights that change between
calls. After each call results, what they share memory with, arguments and buffers are compared with eager's; floats are
judged as in `models`. Each session runs in a process of its own.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import sys
import time
import traceback
from typing import Any

from tests.conformance.apart import run_apart, warm_up
from tests.conformance.models import Outcome, check, told
from tests.conformance.session import SESSIONS, Call, Session

HOWS = ("compile", "dynamo")


def leaves_of(value: Any, path: str = "result") -> list[tuple[str, Any]]:
    """What nested results hold, each with where it is; of containers their types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside: Any = vars(value).items()
    elif hasattr(value, "_asdict"):
        inside = value._asdict().items()
    elif isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, (tuple, list)):
        inside = enumerate(value)
    else:
        return [(path, value)]
    found: list[tuple[str, Any]] = [(f"type of {path}", type(value).__name__)]
    for key, item in inside:
        found += leaves_of(item, f"{path}[{key}]")
    return found


def converted(value: Any, dtype: Any) -> Any:
    """A copy in which floats, also in containers, are of ``dtype``; what shares memory shares it in the copy."""
    import torch

    value = copy.deepcopy(value)

    def change(t: Any) -> Any:
        if isinstance(t, torch.Tensor):
            return t.to(dtype) if t.is_floating_point() and t.dtype == torch.float32 else t
        if isinstance(t, dict):
            return {k: change(v) for k, v in t.items()}
        if isinstance(t, tuple):
            return type(t)(*map(change, t)) if hasattr(t, "_fields") else tuple(map(change, t))
        return [change(v) for v in t] if isinstance(t, list) else t

    return value if dtype == torch.float32 else change(value)


def wider(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone().double() if value.is_floating_point() else value.clone()
    if isinstance(value, dict):
        return {k: wider(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return type(value)(*map(wider, value)) if hasattr(value, "_fields") else tuple(map(wider, value))
    return [wider(v) for v in value] if isinstance(value, list) else copy.deepcopy(value)


def _tensors(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    import torch

    return [(path, t) for path, t in found if isinstance(t, torch.Tensor)]


def _shared(found: list[tuple[str, Any]], given: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Which results lie in the memory of which argument or earlier result."""
    pairs = []
    for n, (path, t) in enumerate(found):
        for other, u in [*given, *found[:n]]:
            if t.numel() and t.untyped_storage().data_ptr() == u.untyped_storage().data_ptr():
                pairs.append((path, other))
    return pairs


def _same(ours: list[tuple[str, Any]], theirs: list[tuple[str, Any]], exact: list[tuple[str, Any]]) -> None:
    """Raises where ``ours`` is another structure, or no tensor of the same values."""
    import torch

    assert [p for p, _ in ours] == [p for p, _ in theirs], f"{[p for p, _ in ours]}, not {[p for p, _ in theirs]}"
    for (path, a), (_, b) in zip(ours, theirs):
        assert type(a) is type(b), f"{path} is a {type(a).__name__}, not a {type(b).__name__}"
        if isinstance(b, torch.Tensor):
            assert a.numel() < 2 or a.stride() == b.stride(), f"{path} has strides {a.stride()}, not {b.stride()}"
        else:
            assert a == b or (a != a and b != b), f"{path} is {a}, not {b}"
    a, b, e = (_tensors(each) for each in (ours, theirs, exact))
    for (path, one), (_, other), (_, best) in zip(a, b, e):
        _check_one(path, one, other, best)


def _check_one(path: str, a: Any, b: Any, e: Any) -> None:
    import torch

    if b.is_complex():
        assert a.dtype == b.dtype, f"{path} is {a.dtype}, not {b.dtype}"
        a, b, e = (torch.view_as_real(t.resolve_conj()) for t in (a, b, e))
    if not b.is_floating_point():
        assert a.dtype == b.dtype, f"{path} is {a.dtype}, not {b.dtype}"
        assert torch.equal(a, b), f"{path}: {a.flatten()[:9]}, not {b.flatten()[:9]}"
        return
    near = e.to(a.dtype)  # eager's GELU of infinity is NaN in float32, and infinity in float64
    b = torch.where(~b.isfinite() & ((a == near) | (a.isnan() & near.isnan())), a, b)
    assert torch.equal(a.isnan(), b.isnan()), f"{path}: NaN elsewhere: {a.flatten()[:9]}, not {b.flatten()[:9]}"
    infinite = b.isinf()
    assert torch.equal(a[infinite], b[infinite]), f"{path}: other infinities: {a.flatten()[:9]}, {b.flatten()[:9]}"
    try:
        check([a], [b], [e])
    except AssertionError as error:
        raise AssertionError(f"{path}: {error}") from None


def run_session(name: str, how: str, dtype: str) -> Outcome:
    import torch

    outcome = Outcome(f"{name} {how} {dtype}")
    start = time.time()
    torch.manual_seed(0)
    try:
        session = SESSIONS[name]()
    except Exception as error:
        return Outcome(outcome.name, "not made", f"{type(error).__name__}: {str(error)[:300]}")
    kind = getattr(torch, dtype)
    if session.typed and kind != torch.float32:
        return Outcome(outcome.name, "not meant")
    try:
        _run(session, how, kind, outcome)
    except Exception as error:
        outcome.verdict = "wrong" if isinstance(error, AssertionError) else "error"
        outcome.why = f"{outcome.why} {type(error).__name__}: {str(error).strip()[:1500]}"
        if not isinstance(error, AssertionError):
            outcome.why += "\n" + "".join(traceback.format_tb(error.__traceback__)[-4:])
    outcome.seconds = time.time() - start
    return outcome


def _to(model: Any, kind: Any) -> Any:
    import torch

    if kind != torch.float32 and isinstance(model, torch.nn.Module):
        return model.to(kind)
    return model


def _run(session: Session, how: str, kind: Any, outcome: Outcome) -> None:
    import torch

    ours_of = _to(session.model, kind)
    theirs_of = copy.deepcopy(ours_of)
    exact_of = copy.deepcopy(theirs_of).double() if isinstance(theirs_of, torch.nn.Module) else theirs_of
    run, compiled = None, None
    with torch.no_grad():
        for number, step in enumerate(session.steps):
            if not isinstance(step, Call):
                for model in (ours_of, theirs_of, exact_of):
                    step(model)
                if isinstance(exact_of, torch.nn.Module):
                    exact_of.double()
                continue
            if run is None:
                run, compiled = _compiled(session, ours_of, how, step, kind)
            outcome.why = f"step {number}:"
            _compare(step, run, ours_of, theirs_of, exact_of if session.exact else None, kind)
    outcome.why = ""
    _tell(how, compiled, outcome)


def _compiled(session: Session, model: Any, how: str, step: Call, kind: Any) -> tuple[Any, Any]:
    import torch

    import weft
    from weft.graph.from_torch import backend as torch_backend

    if how == "compile":
        before = copy.deepcopy(model.state_dict()) if isinstance(model, torch.nn.Module) else {}
        args, named = converted((step.args, step.named), kind)
        fast = weft.compile(model, args, kwargs=named, options=session.options)
        if isinstance(model, torch.nn.Module):
            for key, value in model.state_dict().items():
                assert torch.equal(value, before[key]), f"weft.compile changed {key}"
        return fast, fast
    torch_backend.register()
    return torch.compile(model, backend="weft", options=session.options), None


def _tell(how: str, fast: Any, outcome: Outcome) -> None:
    from weft.graph.from_torch import backend as torch_backend

    if how == "dynamo":
        told(torch_backend.COMPILED, outcome)
        return
    for part in fast.parts.values():
        if isinstance(part, str):
            outcome.verdict, outcome.why = "eager", part
            continue
        told(part.models if hasattr(part, "models") else [part.model], outcome)
        if hasattr(part, "models"):
            outcome.verdict, outcome.why = "parts", f"{len(part.models)}: {part.reason} {outcome.why}"


def _compare(step: Call, run: Any, ours_of: Any, theirs_of: Any, exact_of: Any, kind: Any) -> None:
    seen = []
    given = (step.args, step.named)
    for model, state_of in ((theirs_of, theirs_of), (run, ours_of)):
        args, named = converted(given, kind)
        seen.append(_seen(model, state_of, args, named))
    exact = seen[0]
    if exact_of is not None:
        args, named = wider(converted(given, kind))
        exact = _seen(exact_of, exact_of, args, named)
    (theirs, error, theirs_shared), (ours, other, ours_shared) = seen
    if isinstance(error, NotImplementedError):  # torch lacks some operators for a type
        return
    assert type(error) is type(other), f"{type(other).__name__}: {other}, eager: {type(error).__name__}: {error}"
    if exact[1] is not None and error is None:
        raise RuntimeError(f"in float64: {exact[1]}") from exact[1]
    _same(ours, theirs, exact[0])
    assert ours_shared == theirs_shared, f"shares {ours_shared}, not {theirs_shared}"


def _seen(call: Any, model: Any, args: Any, named: Any) -> tuple[list[tuple[str, Any]], Any, Any]:
    """Results, arguments and buffers after a call; what it raised; which share memory."""
    import torch

    torch.manual_seed(7)
    made, error = None, None
    try:
        made = call(*args, **named)
    except Exception as raised:
        error = raised
    buffers = dict(model.named_buffers()) if isinstance(model, torch.nn.Module) else {}
    found = leaves_of(made)
    after = [*leaves_of(args, "args"), *leaves_of(named, "named"), *leaves_of(buffers, "buffers")]
    return found + after, error, _shared(_tensors(found), _tensors(after))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="beginnings of names of sessions, with commas")
    parser.add_argument("--how", default=",".join(HOWS), help=f"of {','.join(HOWS)}, with commas")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16, float16, with commas")
    parser.add_argument("--limit", type=float, default=300, help="seconds of its own time for each")
    options = parser.parse_args()
    from tests.conformance import session_zoo

    session_zoo.fill()
    warm_up()
    begins = tuple(options.only.split(",")) if options.only else ("",)
    outcomes = []
    for name in [n for n in SESSIONS if n.startswith(begins)]:
        for how in options.how.split(","):
            for dtype in options.dtype.split(","):
                verdict, found = run_apart(run_session, name, how, dtype, limit=options.limit)
                o = found if verdict == "done" else Outcome(f"{name} {how} {dtype}", verdict, found)
                outcomes.append(o)
                print(f"{o.verdict:8} {o.name} ({o.kernels} kernels, {sum(o.fell_back.values())} fallbacks, "
                      f"{o.seconds:.0f} s) {o.why}", flush=True)  # fmt: skip
                for key, n in o.fell_back.items():
                    print(f"    {n} x {key}")
    counts = collections.Counter(o.verdict for o in outcomes)
    print(f"{len(outcomes)} runs: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))
    return 1 if counts["wrong"] + counts["error"] + counts["crash"] + counts["hang"] else 0


if __name__ == "__main__":
    sys.exit(main())
