"""`weft.profile`: how long each kernel of a model and each call of the framework really takes.

>>> print(weft.profile(fast, x))
>>> weft.profile(fast, x).save("trace.json")        # for chrome://tracing or ui.perfetto.dev
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.groups.compile_group import Kernel
from weft.graph.run.segments import Step
from weft.ir.errors import ArgumentError
from weft.ir.shown import as_html

#: Calls that are not counted, and those that are, unless said.
_WARM, RUNS = 2, 10


@dataclass(frozen=True)
class Row:
    """A step: its median and what the time model expected, in seconds; when it begins in the last run."""

    name: str
    kind: str
    seconds: float
    expected: float | None
    bound: str
    origin: str
    start: float


@dataclass(frozen=True)
class Profile:
    """The steps of a model in the order in which they run."""

    title: str
    rows: tuple[Row, ...]

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        lines = [f"{self.title}: {_micros(self.seconds)} us in {len(self.rows)} steps"]
        lines.append(f"{'us':>10} {'share':>6} {'expected':>9}  {'bound by':<9} step")
        for row in sorted(self.rows, key=lambda r: -r.seconds):
            share = row.seconds / max(self.seconds, 1e-12)
            expected = "" if row.expected is None else _micros(row.expected)
            origin = f"  ({row.origin})" if row.origin else ""
            lines.append(f"{_micros(row.seconds):>10} {share:>6.1%} {expected:>9}  {row.bound:<9} {row.name}{origin}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def save(self, path: str | Path) -> None:
        """A trace in Chrome's format, which Perfetto reads too."""
        events = [
            {
                "name": row.name, "cat": row.kind, "ph": "X", "pid": 1, "tid": 1, "ts": row.start * 1e6,
                "dur": row.seconds * 1e6,
                "args": {"expected_us": row.expected and row.expected * 1e6, "bound": row.bound, "from": row.origin},
            }
            for row in self.rows
        ]  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))


def profile(model: Any, *inputs: Any, runs: int = RUNS) -> Profile:
    """Times each step of ``model``, from `weft.compile` or `weft.load_onnx`, on ``inputs``."""
    compiled, checked = _find(model, inputs)
    executable = compiled.executable
    taken = [executable.run_timed(checked) for _ in range(_WARM + max(runs, 1))][_WARM:]
    first = taken[-1][0][1] if taken[-1] else 0
    rows = tuple(_row(compiled, steps, first) for steps in zip(*taken))
    compiled.report.measured = {id(step): row.seconds for step, row in zip(executable.steps, rows)}
    return Profile(executable.graph.name, rows)


def _row(compiled: Compiled, spans: Sequence[tuple[Step, int, int]], first: int) -> Row:
    step, begin, _ = spans[-1]
    start, seconds = (begin - first) * 1e-9, median(end - begin for _, begin, end in spans) * 1e-9
    if not isinstance(step, Kernel):
        return Row(step.call.target, "call", seconds, None, "library", step.origin, start)
    group = next(g for g, k in compiled.report.groups if k is step)
    origins = ", ".join(dict.fromkeys(m.origin for m in group.members if m.origin))
    return Row(group.name, group.kind, seconds, step.expected, step.bound, origins, start)


def _find(model: Any, inputs: tuple[Any, ...]) -> tuple[Compiled, list[Any]]:
    """What a call with ``inputs`` runs, and the arrays that it is given."""
    from weft.graph.from_onnx.model import OnnxModel
    from weft.graph.from_torch.backend import CompiledModel

    if isinstance(model, (OnnxModel, CompiledModel)):
        return model.find_compiled(inputs)
    if hasattr(model, "_torchdynamo_orig_callable") or hasattr(model, "_orig_mod"):
        return _called_by_torch(model, inputs)
    raise ArgumentError(
        f"profile takes a model that weft compiled, not a {type(model).__name__}",
        help="fast = weft.compile(model, inputs); print(weft.profile(fast, *inputs))",
    )


def _called_by_torch(model: Any, inputs: tuple[Any, ...]) -> tuple[Compiled, list[Any]]:
    """What torch.compile runs of ours in a call, where that is one part."""
    from weft.graph.from_torch.backend import COMPILED

    with COMPILED.called() as parts:
        model(*inputs)
    if len(parts) != 1:
        raise ArgumentError(
            f"torch.compile made {len(parts)} parts of this model that Weft runs",
            why="times are those of one compiled part; under gradients there is none",
            help="torch.no_grad(), or fast = weft.compile(model, inputs); print(weft.profile(fast, *inputs))",
        )
    return parts[0]


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"
