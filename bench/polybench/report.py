"""The page of a PolyBench run."""

from __future__ import annotations

from collections.abc import Sequence

from bench.field.conductor import OURS, Row
from bench.field.run import Run
from bench.field.statistics import geometric_mean

_CLOCK = {"wall": "", "cpu": " Times are those of the processes, not of the wall."}
MODES = {"auto": OURS, "polyhedral": "polyhedral"}
COMPILERS = ("gcc", "numba")
_HEADS = (
    *("program", "as", "threads", "gcc ms", "numba ms", "auto ms", "polyhedral ms"),
    *("auto: faster than gcc by", "polyhedral: than gcc by", "better of both: than numba by"),
)

_INTRODUCTION = """`python -m bench.polybench --write` makes this page. All in double precision; results of both modes
are checked against the C loops before timing. gcc compiles the loops as they stand, for one thread; numba runs loops in
parallel that are so as they stand; programs that update in place start from a copy, for everyone. Those are loop
programs (`bench/polybench/loops`), the others formulas in the whiteboard language. Milliseconds are medians of turns
taken one after another."""


def times(row: Row) -> dict[str, float]:
    """Milliseconds by mode and compiler."""
    found = {name: row.ms[name] for name in (*COMPILERS, "polyhedral") if name in row.ms}
    if row.ours_ms:
        found["auto"] = min(row.ours_ms.values())
    return found


def ratios(rows: Sequence[Row], mode: str, compiler: str) -> list[float]:
    each = [times(row) for row in rows]
    return [t[compiler] / t[mode] for t in each if compiler in t and mode in t]


def best_ratios(rows: Sequence[Row], compiler: str) -> list[float]:
    """With the better of the two modes."""
    each = [times(row) for row in rows]
    return [t[compiler] / min(t[m] for m in MODES if m in t) for t in each if compiler in t and set(MODES) & set(t)]


def describe(row: Row) -> str:
    taken = "  ".join(f"{name} {ms:.2f}" for name, ms in times(row).items())
    wrong = "  ".join(f"{name}: {why}" for name, why in row.missing.items())
    return f"{row.workload:<34} {row.threads} thread{'s' if row.threads > 1 else ' '} ms: {taken}  {wrong}"


def summary(rows: Sequence[Row]) -> list[str]:
    lines = ["| | against gcc | against numba |", "|---|---|---|"]
    for threads in sorted({row.threads for row in rows}):
        some = [row for row in rows if row.threads == threads]
        for mode in MODES:
            means = [f"{geometric_mean(ratios(some, mode, c)):.2f}" for c in COMPILERS]
            lines.append(f'| `schedule="{mode}"`, {threads} thread{"s" * (threads > 1)} | {" | ".join(means)} |')
        means = [f"{geometric_mean(best_ratios(some, c)):.2f}" for c in COMPILERS]
        lines.append(f"| the better of both, {threads} thread{'s' * (threads > 1)} | {' | '.join(means)} |")
    return lines


def page(run: Run, in_place: set[str]) -> str:
    versions = ", ".join(f"{'weft' if n == OURS else n} {v}" for n, v in run.versions.items() if n != "polyhedral")
    lines = [
        "# PolyBench-style programs",
        "",
        _INTRODUCTION,
        "",
        f"Measured on {run.machine}; load average {run.load:.1f} at the start. {versions}.{_CLOCK[run.clock]}",
        "",
        *summary(run.rows),
        "",
        f"| {' | '.join(_HEADS)} |",
        f"|{'---|' * len(_HEADS)}",
        *(_line(row, in_place) for row in run.rows),
    ]
    missing = [f"- {r.workload}, {n}: {why}" for r in run.rows for n, why in r.missing.items() if n not in run.absent]
    missing += [f"- {name}: {why}" for name, why in run.absent.items()]
    if missing:
        lines += ["", "## Not measured", "", *dict.fromkeys(missing)]
    return "\n".join([*lines, ""])


def _line(row: Row, in_place: set[str]) -> str:
    t = times(row)
    ms = [f"{t[n]:.2f}" if n in t else "" for n in (*COMPILERS, *MODES)]
    each = [[*ratios([row], mode, "gcc")] for mode in MODES]
    figures = [f"{r[0]:.2f}" if r else "" for r in (*each, best_ratios([row], "numba"))]
    kind = "loops" if row.workload in in_place else "formula"
    return f"| {' | '.join([row.workload, kind, str(row.threads), *ms, *figures])} |"
