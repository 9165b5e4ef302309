"""The table of a run, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log

from bench.gpu.measure import Result

#: What each group is held against, as told under the table.
GROUPS = {
    "stream": "part of copy bandwidth",
    "rows": "part of copy bandwidth; times torch.compile",
    "moves": "times the better of eager and compiled PyTorch",
    "matmul float32": "part of cuBLAS (float32, no TF32)",
    "products": "part of cuBLAS: geomean 1.0, least 0.9",
    "few rows": "part of copy bandwidth: 0.9",
    "scans": "part of copy bandwidth: 0.8",
    "attention": "part of cuDNN: 0.95",
    "score formulas": "times compiled FlexAttention: 1.5",
    "histograms": "times torch.bincount: 2.0",
    "float8": "part of torch._scaled_mm: 0.9",
    "int8": "part of torch._int_mm",
    "int4": "part of copy bandwidth",
    "scatters": "times index_add_: 1.2",
    "convolutions NHWC": "part of cuDNN, both as CUDA graphs: 0.95",
    "convolutions NCHW": "part of cuDNN, both as CUDA graphs: 0.95",
    "other convolutions": "part of cuDNN, both as CUDA graphs",
    "fused convolutions": "times the better of eager and compiled PyTorch, as CUDA graphs: 1.1",
    "fused products": "times the better of eager and compiled PyTorch: 1.1",
}


def table(results: Sequence[Result], bandwidth: float) -> str:
    head = (
        "| work | Weft us | GB/s | of copy | eager us | compiled us | x eager | x compiled | error | first result s |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(_row(r, bandwidth) for r in results)])


def _row(r: Result, bandwidth: float) -> str:
    own = r.times["weft"]
    rate = r.workload.moved / (own * 1e-6)
    eager, compiled = r.times.get("eager"), r.times.get("compiled")
    moved = f"{rate / 1e9:.0f} | {rate / bandwidth:.2f}" if r.workload.moved else f"{_teraflops(r)} | "
    wrong = f" ({r.failures['weft']})" if "weft" in r.failures else ""
    cells = [
        r.workload.name + wrong, f"{own:.1f}", moved, _number(eager), _number(compiled),
        _ratio(eager, own), _ratio(compiled, own), f"{r.error:.1g}", f"{r.first:.2f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _teraflops(r: Result) -> str:
    return f"{r.workload.flops / (r.times['weft'] * 1e-6) / 1e12:.1f} TFLOP/s"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _ratio(theirs: float | None, own: float) -> str:
    return "" if theirs is None else f"{theirs / own:.2f}"


def geomean(values: Iterable[float]) -> float:
    found = list(values)
    return exp(sum(map(log, found)) / len(found)) if found else float("nan")


def summary(results: Sequence[Result], bandwidth: float) -> str:
    """Each group in a line."""
    lines = [f"Copy bandwidth: {bandwidth / 1e9:.0f} GB/s."]
    for odd in (False, True):
        for group in GROUPS:
            own = [r for r in results if r.workload.group == group and r.workload.name.endswith(", odd") == odd]
            if own:
                lines.append(f"- {group}{', odd sizes' if odd else ''}: {_group_text(own, bandwidth)}")
    return "\n".join(lines)


def _group_text(results: Sequence[Result], bandwidth: float) -> str:
    parts = []
    rates = [r.workload.moved / (r.times["weft"] * 1e-6) / bandwidth for r in results if r.workload.moved]
    if rates:
        parts.append(f"of copy bandwidth {geomean(rates):.2f} (least {min(rates):.2f})")
    for name in ("eager", "compiled"):
        ratios = [r.times[name] / r.times["weft"] for r in results if name in r.times]
        if ratios:
            parts.append(f"against {name} {geomean(ratios):.2f} (least {min(ratios):.2f})")
    best = [min(v for n, v in r.times.items() if n != "weft") / r.times["weft"] for r in results if len(r.times) > 1]
    if best:
        parts.append(f"against the better {geomean(best):.2f}")
    return "; ".join(parts)
