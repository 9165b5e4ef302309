"""`weft.explain`: what became of a model, group by group, what runs as the framework's own, and why."""

from __future__ import annotations

from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.graph import Opaque
from weft.graph.groups.compile_group import Kernel
from weft.graph.report import Report
from weft.ir.errors import ArgumentError
from weft.ir.shown import Shown


def explain(model: Any = None) -> str:
    """What was compiled of a model from `weft.compile` or `weft.load_onnx`, or what torch.compile had last."""
    parts = _parts(model)
    if not parts:
        return "nothing was compiled yet: call the model once"
    return Shown("\n\n".join(parts))


def _parts(model: Any) -> list[str]:
    from weft.graph.from_onnx.model import OnnxModel
    from weft.graph.from_torch.backend import COMPILED, CompiledModel
    from weft.graph.from_torch.exported import ExportedModel
    from weft.graph.from_torch.parts import InParts

    if isinstance(model, Compiled):
        return [explain_compiled(model)]
    if isinstance(model, OnnxModel):
        return model.explain(explain_compiled)
    if isinstance(model, CompiledModel):
        texts = []
        for key, part in model.parts.items():
            sizes = ", ".join(str(list(k[0])) for k in key[1:] if isinstance(k, tuple))
            texts += _variants(part.model) if isinstance(part, ExportedModel) else [f"for inputs {sizes}: {part}"]
        in_parts = next((part for part in model.parts.values() if isinstance(part, InParts)), None)
        return texts + [text for m in (in_parts.models if in_parts else ()) for text in _variants(m)]
    if model is None or hasattr(model, "_torchdynamo_orig_callable") or hasattr(model, "_orig_mod"):
        return [text for m in COMPILED for text in _variants(m)]
    raise ArgumentError(
        f"explain takes a model that weft compiled, not a {type(model).__name__}",
        help="fast = weft.compile(model, inputs); print(weft.explain(fast))",
    )


def _variants(model: Any) -> list[str]:
    if model.reason is not None:
        return [f"{model.name}: eager, because {model.reason}"]
    texts = []
    for variant in model.variants.values():
        if variant.compiled is None:
            texts.append(f"{model.name}: eager, because {variant.reason}")
        else:
            texts.append(explain_compiled(variant.compiled))
    return texts


def explain_compiled(compiled: Compiled) -> str:
    """One graph: totals, then each group with its members, and calls of the framework with the reason for each."""
    graph, report, executable = compiled.executable.graph, compiled.report, compiled.executable
    distinct = len({k.program.program for _, k in report.groups})
    stored = sum(graph.edges[n].nbytes for _, k in report.groups for n in k.program.outputs)
    lines = [
        f"{graph.name}: {len(graph.fragments)} fragments in {len(report.groups)} kernels ({distinct} different), "
        f"{len(report.calls)} calls of the framework",
        f"fusion: {report.operators} operators that compute -> {len(report.groups) + len(report.calls)} steps",
        f"memory: an arena of {_bytes(executable.arena.size)} for {_bytes(stored)} of results of kernels, "
        f"{len(graph.constants)} constants{_taken_over(executable)}{_in_joins(executable)}",
    ]
    if report.spent:
        lines.append("compiling: " + ", ".join(f"{on} {seconds:.2f} s" for on, seconds in report.spent.items()))
    lines += executable.notes()
    for n, (group, kernel) in enumerate(report.groups):
        looks = ", ".join(f"{graph.edges[o]}{_place(executable, o)}" for o in kernel.program.outputs)
        lines.append(f"kernel {n}, {group.kind}{_times(report, kernel)}: {group.name} -> {looks}")
        origins = dict.fromkeys(m.origin for m in group.members if m.origin)
        lines += [f"    of {', '.join(m.name for m in group.members)}"] if len(group.members) > 1 else []
        lines += [f"    from {', '.join(origins)}"] if origins else []
    lines += [_call_line(report, call) for call in report.calls]
    if report.faults:
        lines.append(f"{len(report.faults)} faults of Weft, which another way was found around: please report them")
        lines += [f"    {fault}" for fault in report.faults]
    return "\n".join([*lines, *report.notes])


def _taken_over(executable: Any) -> str:
    count = len(getattr(executable, "taken_over", ()))
    return f", {count} results in place of what they are made of" if count else ""


def _in_joins(executable: Any) -> str:
    count = len(executable.storage.joins.done)
    return f", {count} joined tensors whose parts are written in place" if count else ""


def _place(executable: Any, name: str) -> str:
    found = executable.storage.find(name)
    return f" in place in {found.root}" if found is not None and found.root != name else ""


def _times(report: Report, kernel: Kernel) -> str:
    """What a kernel was expected to take, what takes most of it, and what it took where that was measured."""
    choice = report.choices.get(kernel.program.program)
    found = report.measured.get(id(kernel), choice.ours if choice is not None and choice.how == "measured" else None)
    measured = "" if found is None else f", measured {found * 1e6:.1f}"
    return f", expected {kernel.expected * 1e6:.1f} us ({kernel.bound}){measured}"


def _call_line(report: Report, call: Opaque) -> str:
    found = report.measured.get(id(call))
    cost = "" if found is None else f", {found * 1e6:.1f} us"
    return f"call {call.call.target}{cost}: {call.reason}" + (f" ({call.origin})" if call.origin else "")


def _bytes(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"
