"""What a run of models came to: tables for a page, and one line for the eye."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.field.conductor import OURS
from bench.field.statistics import geometric_mean
from bench.models.conductor import ModelRow
from bench.models.workloads import PUBLISHED_FUSION, UNSEEN_NAMES


@dataclass
class ModelRun:
    """Rows of one or several commands: a row that is measured again takes the place of the old one."""

    machine: str
    versions: dict[str, str] = field(default_factory=dict)
    rows: list[ModelRow] = field(default_factory=list)

    def put(self, row: ModelRow) -> None:
        same = [n for n, r in enumerate(self.rows) if _what(r) == _what(row)]
        if same:
            old = self.rows[same[0]]  # compiling is measured with --cold alone
            row.cold_s, row.warm_s = row.cold_s or old.cold_s, {**old.warm_s, **row.warm_s}
            self.rows[same[0]] = row
        else:
            self.rows.append(row)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "rows": [r.to_json() for r in self.rows]}
        path.write_text(json.dumps(data, indent=1) + "\n")

    @staticmethod
    def load_from(path: Path) -> ModelRun:
        data = json.loads(path.read_text())
        return ModelRun(**{**data, "rows": [ModelRow.from_json(r) for r in data["rows"]]})


def _what(row: ModelRow) -> tuple[str, int, int, str]:
    """What a row is of: it is measured again where this is the same."""
    return row.model, row.batch, row.threads, row.numerics


def describe_row(row: ModelRow) -> str:
    head = f"{row.model:<16} batch {row.batch} {row.threads} thread{'s' if row.threads > 1 else ' '}"
    ours = f"weft {row.ms[OURS]:.2f}" if OURS in row.ms else f"weft: {row.missing.get(OURS)}"
    each = "  ".join(f"{n} {ms:.2f}" for n, ms in sorted(row.ms.items(), key=lambda p: p[1]) if n != OURS)
    ratio = f"{row.ratios[row.best].value:5.2f} of {row.best:<12}" if row.best else " " * 21
    gone = "".join(f"  [{n}: {why[:60]}]" for n, why in row.missing.items() if n != OURS)
    return f"{head} {ratio} ms: {ours}  {each}  kernels {row.counts.get('kernels', 0):.0f}{gone}"


def summary(rows: Sequence[ModelRow]) -> list[str]:
    """Of rows with ``fast`` numerics, or of all where there are no such rows."""
    rows = [r for r in rows if r.numerics == "fast"] or rows
    below = sorted((r.ratios[r.best].value, f"{r.model} {r.batch}x{r.threads}") for r in rows if r.best is not None)
    best = [value for value, _ in below]
    mean, least = geometric_mean(best), min(best, default=math.nan)
    lines = [f"geometric mean against the best peer: {mean:.2f} (bar 1.1), least {least:.2f} (bar 0.95)"]
    weak = [f"{name} {value:.2f}" for value, name in below if value < 0.95]
    return lines + ([f"below 0.95 (model, batch x threads): {', '.join(weak)}"] if weak else [])


_HEAD = """# Whole models against the field

`python -m bench.models --write` adds to this page, so rows are of different runs and commits.
Inference in float32; everyone runs the same model with the same
random weights in a process of its own, in turns, the others standing still; results are checked against eager. A
figure is the median over turns, in milliseconds; a ratio is the best peer's time over Weft's, with the 95 % interval
of a bootstrap over turns: more than 1 says that Weft is faster. `inductor` has weights frozen, `openvino` computes in
float32.
"""

_ASKED_FOR = """
## With other numerics asked for

As above, with `options={"numerics": "winograd"}`: convolutions of 3x3 windows as products of sums of pixels, which is
never taken unasked (below).
"""

_UNSEEN = """
## Models that nothing was developed on

As above (`python -m bench.models --set unseen`): classes of torchvision and transformers and some written by hand, with
random weights. They were listed before anyone looked at how fast they are; what was mended since is told below.
"""

_COMPILING = """
## Compiling, memory, fusion

Seconds to a first result, tracing by PyTorch included (its share in brackets): with nothing kept, and in a second
process. Memory is the most that the process had while it was called, weights and PyTorch included. Nodes are the
graph's after constants were folded; beside them the layers that DNNFusion (2021) published before and after fusion.
"""

#: What is written by hand begins here, and stays when rows are measured again.
BY_HAND = "## Where the time goes"


def page(run: ModelRun, before: str = "") -> str:
    """The tables of ``run``, and what was written by hand on the page as it was ``before``."""
    peers = [p for p in dict.fromkeys(n for r in run.rows for n in r.ms) if p != OURS]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    listed = [r for r in run.rows if r.model not in UNSEEN_NAMES]
    unseen = [r for r in run.rows if r.model in UNSEEN_NAMES]
    rows, asked = _by_numerics(listed)
    order = sorted(rows, key=lambda r: (bool(r.cold_s), r.threads))
    told = list({(r.model, r.batch): r for r in order}.values())
    heads = ("cold", "second process", "Inductor cold", "second", "MB", "eager MB", "nodes", "kernels (different)")
    parts = [_HEAD, f"Measured on {run.machine}. {versions}.", "", *(f"- {line}" for line in summary(listed)), ""]
    speeds = ["model", "batch", "threads", "ratio", "best peer", OURS, *peers]
    parts += _table(speeds, [_speed(r, peers) for r in rows])
    if asked:
        parts += [_ASKED_FOR, *(f"- {line}" for line in _with_asked(rows, asked)), ""]
        parts += _table(speeds, [_speed(r, peers) for r in asked])
    if unseen:
        parts += [_UNSEEN, *(f"- {line}" for line in summary(unseen)), ""]
        parts += _table(speeds, [_speed(r, peers) for r in unseen])
    parts += [_COMPILING]
    parts += _table(["model", "batch", *heads, "calls", "DNNFusion"], [_compile(r) for r in rows if r in told])
    said = before[before.index(BY_HAND) :] if BY_HAND in before else f"{BY_HAND}\n"
    return "\n".join([*parts, *_missing(run.rows), "", said])


def _by_numerics(rows: Sequence[ModelRow]) -> tuple[list[ModelRow], list[ModelRow]]:
    """Those with the numerics that one has unasked, and the others."""
    return [r for r in rows if r.numerics == "fast"], [r for r in rows if r.numerics != "fast"]


def _with_asked(rows: Sequence[ModelRow], asked: Sequence[ModelRow]) -> list[str]:
    """What all rows come to with these in place of those of the same model."""
    instead = {_what(r)[:3]: r for r in asked}
    taken = [instead.get(_what(r)[:3], r) for r in rows]
    values = [r.ratios[r.best].value for r in taken if r.best is not None]
    return [f"geometric mean of all rows with these in place: {geometric_mean(values):.2f}, least {min(values):.2f}"]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(r)} |" for r in rows)]


def _figure(values: dict[str, float], name: str, digits: int = 1) -> str:
    return f"{values[name]:.{digits}f}" if name in values else "–"


def _speed(row: ModelRow, peers: Sequence[str]) -> list[str]:
    ratio = row.ratios.get(row.best or "")
    said = "–" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"
    each = [_figure(row.ms, name) for name in (OURS, *peers)]
    return [row.model, str(row.batch), str(row.threads), said, row.best or "–", *each]


def _compile(row: ModelRow) -> list[str]:
    traced = "" if row.tracing_s is None else f" ({row.tracing_s:.1f})"
    times = [_figure(row.cold_s, OURS) + traced, _figure(row.warm_s, OURS)]
    times += [_figure(row.cold_s, "inductor"), _figure(row.warm_s, "inductor")]
    memory = [_figure(row.peak_mb, name, 0) for name in (OURS, "eager")]
    nodes, kernels, different, calls = (
        _figure(row.counts, c, 0) for c in ("operators", "kernels", "different", "calls")
    )
    published = " → ".join(map(str, PUBLISHED_FUSION.get(row.model, ())))
    return [row.model, str(row.batch), *times, *memory, nodes, f"{kernels} ({different})", calls, published]


def _missing(rows: Sequence[ModelRow]) -> list[str]:
    gone = dict.fromkeys(f"- {name}, {r.model} batch {r.batch}: {why}" for r in rows for name, why in r.missing.items())
    return ["", "Not measured:", "", *gone] if gone else []
