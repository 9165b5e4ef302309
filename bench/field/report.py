"""What a run came to, in words and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from bench.field.conductor import OURS, Row
from bench.field.peers import PEERS
from bench.field.run import Run
from bench.field.statistics import geometric_mean, median

UNHEARD = "operators no library has"
_CHALLENGERS = ("halide", "numba", "torch.compile")


def best_ratios(rows: Iterable[Row]) -> list[float]:
    return [row.ratios[row.best].value for row in rows if row.best is not None]


def ratios_against(rows: Iterable[Row], peers: Sequence[str]) -> list[float]:
    """The least ratio against any of ``peers``, of each row that has one."""
    found = ([row.ratios[p].value for p in peers if p in row.ratios] for row in rows)
    return [min(ratios) for ratios in found if ratios]


def summary(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """The figures that have a bar: what, the bar, what came out."""
    cold = [row.cold_ms[OURS] for row in rows if OURS in row.cold_ms]
    schedule = [row.schedule_ms for row in rows if row.schedule_ms is not None]
    best = best_ratios(rows)
    unheard = ratios_against((r for r in rows if r.group == UNHEARD), _CHALLENGERS)
    return [
        ("geometric mean against the best peer of each workload", "1.1", _number(geometric_mean(best))),
        ("worst workload against its best peer", "0.75", _number(min(best, default=math.nan))),
        (
            "geometric mean against torch.compile",
            "1.6",
            _number(geometric_mean(ratios_against(rows, ["torch.compile"]))),
        ),
        (f"{UNHEARD}, against the best of {', '.join(_CHALLENGERS)}", "1.2", _number(geometric_mean(unheard))),
        ("cold compile, definition to first result, median", "120 ms", _ms(cold, median)),
        ("cold compile, worst", "400 ms", _ms(cold, max)),
        ("choosing a schedule, median", "15 ms", _ms(schedule, median)),
    ]


def page(run: Run, plot: str) -> str:
    """The Markdown page of a run; ``plot`` is the name of its picture."""
    title = "Weft against the field" + ("" if run.random_seed is None else ", at sizes drawn at random")
    parts = [f"# {title}", "", _introduction(run), "", *_summary_table(run.rows), "", f"![ratios]({plot})", ""]
    parts += ["## Worst cases", "", *_worst(run.rows), "", *_peer_means(run.rows), ""]
    for group in dict.fromkeys(row.group for row in run.rows):
        parts += [f"## {group[0].upper()}{group[1:]}", "", *_table([r for r in run.rows if r.group == group]), ""]
    return "\n".join([*parts, *_missing(run), ""])


def _introduction(run: Run) -> str:
    seed, peers = run.random_seed, " ".join(name for name in run.versions if name != "weft")
    quick = f" --quick --peers {peers}" if run.quick else ""
    command = "make bench" if seed is None else f"weft bench --random-shapes {seed}{quick} --write"
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    text = f"""`{command}` makes this page. Everyone computes the same results from the same inputs, checked against
float64; each in a process of its own, in turns of a few hundredths of a second, the others standing still. Numbers are
medians; a ratio is the peer's time over Weft's, so more than 1 means that Weft is faster, with the 95 % interval of a
bootstrap over turns. Weft is called through Python like everyone else, by the text of the definition alone. Peers that
return new arrays are compared with calls of Weft that do, peers that fill given arrays with calls that fill.

Measured on {run.machine}; load average {run.load:.1f} at the start; {run.minutes:.0f} minutes. {versions}."""
    if run.absent:
        gone = ", ".join(f"{name} ({why})" for name, why in run.absent.items())
        text += f" Missing: {gone}."
    if left_out := [name for name in PEERS if name not in run.versions and name not in run.absent]:
        text += f" Left out: {', '.join(left_out)}."
    if run.clock == "cpu":
        text += " Times are those of the processes, not of the wall."
    elif run.load > 0.8:
        text += "\n\n**The machine was busy with other work**: rows with more than one thread say little."
    return text


def _summary_table(rows: Sequence[Row]) -> list[str]:
    threads = sorted({row.threads for row in rows})
    heads = ["all", *(f"{t} thread{'s' * (t > 1)}" for t in threads)]
    columns = [summary(rows), *(summary([r for r in rows if r.threads == t]) for t in threads)]
    lines = [f"| | bar | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
    for several in zip(*columns):
        what, bar, _ = several[0]
        lines.append(f"| {what} | {bar} | {' | '.join(value for _, _, value in several)} |")
    return lines


def _worst(rows: Sequence[Row], count: int = 10) -> list[str]:
    placed = [(r.ratios[r.best].value, r) for r in rows if r.best is not None]
    placed.sort(key=lambda pair: pair[0])
    return [
        f"- {row.workload}, {row.threads} thread{'s' * (row.threads > 1)}: {ratio:.2f} of {row.best}"
        for ratio, row in placed[:count]
    ]


def _peer_means(rows: Sequence[Row]) -> list[str]:
    peers = sorted({peer for row in rows for peer in row.ratios})
    lines = [
        "## Peer by peer",
        "",
        "| peer | workloads | Weft is faster by | at least | is the best peer in | median time to a first result |",
        "|---|---|---|---|---|---|",
    ]
    for peer in peers:
        ratios = ratios_against(rows, [peer])
        wins = sum(row.best == peer for row in rows)
        mean, cold = geometric_mean(ratios), _ms([r.cold_ms[peer] for r in rows if peer in r.cold_ms], median)
        lines.append(f"| {peer} | {len(ratios)} | {mean:.2f} | {min(ratios):.2f} | {wins} | {cold} |")
    return lines


def _table(rows: Sequence[Row]) -> list[str]:
    peers = sorted({peer for row in rows for peer in row.ratios})
    heads = ["work", "threads", "weft ms", "best peer", "its ms", "faster by", *peers]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        each = [f"{row.ratios[p].value:.2f}" if p in row.ratios else "" for p in peers]
        lines.append(f"| {' | '.join([row.workload, str(row.threads), *_best_cells(row), *each])} |")
    means = (_number(geometric_mean(ratios_against(rows, [p]))) for p in peers)
    best = _number(geometric_mean(best_ratios(rows)))
    return [*lines, f"| geometric mean | | | | | **{best}** | {' | '.join(means)} |"]


def _best_cells(row: Row) -> list[str]:
    if row.best is None:
        ours = min(row.ours_ms.values(), default=math.nan)
        return [f"{ours:.3f}" if row.ours_ms else row.missing.get(OURS, ""), "", "", ""]
    ratio, theirs = row.ratios[row.best], row.ms[row.best]
    ours = theirs / ratio.value
    return [f"{ours:.3f}", row.best, f"{theirs:.3f}", f"**{ratio.value:.2f}** ({ratio.low:.2f}–{ratio.high:.2f})"]


def _missing(run: Run) -> list[str]:
    """Who did not take part in what, and why: each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in run.rows:
        for peer, why in row.missing.items():
            if peer not in run.absent:
                reasons.setdefault((peer, why), []).append(row.workload)
    if not reasons:
        return []
    lines = ["## Not measured", ""]
    for (peer, why), workloads in reasons.items():
        lines.append(f"- {peer}: {_some(list(dict.fromkeys(workloads)))}: {why.replace('|', '/')}")
    return lines


def _some(names: Sequence[str], most: int = 6) -> str:
    rest = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *rest])


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _ms(values: Sequence[float], pick: Callable[[Sequence[float]], float]) -> str:
    return f"{pick(values):.0f} ms" if values else ""
