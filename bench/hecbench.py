"""``python -m bench.hecbench CHECKOUT [--seed 31] [--count 100] [--only adam] [--again wrong] [--page FILE]``.

HeCBench's CUDA programs, drawn at random from those that need nothing but their checkout and CUDA's own libraries.
Each is built and run by `weft cuda run` with its makefile's options and arguments: repetitions cut to two, and where
that takes too long the other sizes to a 16th. What came of it is told by the program's own check, else by the numbers
that its -omp version prints (g++, the same arguments), else by those of its own kernels run thread by thread; numbers
that a second run does not repeat are left out. Results are kept in the folder of ``--work``, a file each: what is there
is not run again. ``--times`` compares instead the times that both versions print, in turns, on two threads: medians.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import weft
from bench.hecbench_makefiles import Program, copied, drawn, openmp_program, read_program, smaller
from bench.hecbench_outputs import (
    FAILED,
    close,
    first_line,
    numbers,
    own_check,
    printed_times,
    refused_kernels,
    without_report,
)
from bench.hecbench_programs import NOTES


@dataclass
class Result:
    """What came of a program: one word, what there is to tell, how far sizes were cut, kernels run thread by thread."""

    name: str
    word: str
    told: str = ""
    cut: str = ""
    seconds: float = 0.0
    by_threads: tuple[str, ...] = ()


RIGHT = ("own check", "as OpenMP", "as threads", "ran")


class Stopped(Exception):
    """A run that did not end in time, with what it printed before."""


def run_once(command: Sequence[str], folder: Path, seconds: float, threads: int = 2, **more: str) -> tuple[int, str]:
    """Exit code and all that was printed; ended where a process takes more ``seconds`` of the processor, or ten times
    as long by the clock (others may use the machine)."""
    seconds = int(seconds)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "WEFT_NUM_THREADS": str(threads),
        "PYTHONSAFEPATH": "1",
        **more,
    }
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        running = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            preexec_fn=limit,
        )
        try:
            code = running.wait(10 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            code = None
        output.seek(0)
        printed = output.read(4_000_000)
    if code is None or "was ended by SIGXCPU" in printed or code == -signal.SIGXCPU:
        raise Stopped(printed)
    return code, printed


def _weft(program: Program, arguments: Sequence[str], *switches: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "weft",
        "cuda",
        "run",
        "--report",
        "-w",
        *switches,
        *program.flags,
        *program.sources,
        "--",
        *arguments,
    ]


def try_program(program: Program, openmp: Program | None, seconds: float) -> Result:
    """Builds and runs a program, with ever smaller sizes, and judges what it printed."""
    start = time.perf_counter()
    result = Result(program.name, "too long", f"ran longer than {seconds:.0f} s")
    for cut, runs in smaller(program):
        result.cut = cut
        try:
            printed = [run_once(_weft(program, run), program.folder, seconds) for run in runs]
        except Stopped as stopped:
            judged = own_check(str(stopped))
            if judged == "failed":
                return dataclasses.replace(result, word="wrong", told=first_line(FAILED, str(stopped)))
            result.told = f"ran longer than {seconds:.0f} s" + (", what it checked before was right" if judged else "")
            continue
        result.seconds = time.perf_counter() - start
        result.by_threads = refused_kernels("\n".join(text for _, text in printed))
        return judge(result, program, openmp, runs, printed, seconds)
    return result


def judge(
    result: Result,
    program: Program,
    openmp: Program | None,
    runs: Sequence[Sequence[str]],
    printed: Sequence[tuple[int, str]],
    seconds: float,
) -> Result:
    text = "\n".join(t for _, t in printed)
    if bad := next(((code, t) for code, t in printed if code != 0), None):
        return _broken(result, *bad)
    if judged := own_check(text):
        result.word, result.told = ("wrong", first_line(FAILED, text)) if judged == "failed" else ("own check", "")
        return result
    ours = numbers(without_report(text))
    if not ours:
        return dataclasses.replace(result, word="ran", told="it prints nothing that could be compared")
    differs = ""
    if (
        openmp is not None
        and (theirs := openmp_numbers(openmp, runs, seconds)) is not None
        and len(theirs) == len(ours)
    ):
        if close(ours, theirs):
            return dataclasses.replace(result, word="as OpenMP", told=f"{len(ours)} numbers")
        differs = "its OpenMP version prints others; "
    return _against_threads(result, program, runs, ours, differs, seconds)


def _broken(result: Result, code: int, printed: str) -> Result:
    errors = [line for line in printed.splitlines() if re.match(r"error: ", line)]
    if errors:
        why = first_line(re.compile(r"error: |undefined reference"), printed.partition("why:")[2]) or ""
        return dataclasses.replace(result, word="not built", told=f"{errors[0][7:]} {why}".strip()[:240])
    last = (without_report(printed).strip().splitlines() or [""])[-1]
    return dataclasses.replace(result, word="failed", told=f"exit code {code}: {last.strip()[:160]}")


def _against_threads(
    result: Result, program: Program, runs: Sequence[Sequence[str]], ours: list[float], differs: str, seconds: float
) -> Result:
    try:
        texts = [run_once(_weft(program, run, "--serial"), program.folder, 3 * seconds)[1] for run in runs]
        twice = [run_once(_weft(program, run), program.folder, seconds)[1] for run in runs]
    except Stopped:
        return dataclasses.replace(
            result, word="ran", told=f"{differs}threads one by one took too long to compare with"
        )
    serial = numbers(without_report("\n".join(texts)))
    again = numbers(without_report("\n".join(twice)))
    if len(serial) == len(ours) == len(again):
        kept = [n for n, pair in enumerate(zip(ours, again, strict=True)) if close(pair[:1], pair[1:])]
        if not kept:
            return dataclasses.replace(result, word="ran", told="what it prints is another in each run: times")
        if close([ours[n] for n in kept], [serial[n] for n in kept]):
            return dataclasses.replace(result, word="as threads", told=f"{differs}{len(kept)} numbers".strip())
    return dataclasses.replace(result, word="wrong", told=f"{differs}threads one by one print others")


def build_openmp(program: Program) -> Path | None:
    to = program.folder / "openmp-version"
    command = ["g++", "-O3", "-march=native", "-fopenmp", "-w", *program.flags, *program.sources, "-o", str(to), "-lm"]
    done = subprocess.run(command, cwd=program.folder, capture_output=True, check=False, timeout=300)
    return to if done.returncode == 0 else None


def openmp_numbers(program: Program, runs: Sequence[Sequence[str]], seconds: float) -> list[float] | None:
    try:
        built = build_openmp(program)
        done = [run_once([str(built), *run], program.folder, seconds) for run in runs] if built else []
    except (Stopped, subprocess.TimeoutExpired):
        return None
    return numbers("\n".join(t for _, t in done)) if done and all(code == 0 for code, _ in done) else None


def compare_times(
    program: Program, openmp: Program | None, rounds: int, seconds: float, runs: Sequence[Sequence[str]]
) -> float | None:
    """How many times as fast as the OpenMP version, by what both print of their time: medians, in turns."""
    built = build_openmp(openmp) if openmp is not None else None
    if built is None or openmp is None:
        return None
    for run in runs:  # code is made and kept
        run_once(_weft(program, run), program.folder, 2 * seconds)
    told: list[dict[str, list[float]]] = [{}, {}]
    for _ in range(rounds):
        for which, folder, start in ((0, program.folder, None), (1, openmp.folder, [str(built)])):
            for run in runs:
                command = _weft(program, run) if start is None else [*start, *run]
                for label, value in printed_times(run_once(command, folder, seconds)[1]):
                    told[which].setdefault(label, []).append(value)
    ratios = [
        statistics.median(told[1][k]) / statistics.median(told[0][k])
        for k in told[0].keys() & told[1].keys()
        if min(told[0][k]) > 0
    ]
    return statistics.geometric_mean(ratios) if ratios and min(ratios) > 0 else None


_PAGE = """# HeCBench on a CPU

{count} programs of [HeCBench](https://github.com/zjin-lcf/HeCBench), drawn at random (seed {seed}) from those that need
nothing but their checkout and CUDA's own libraries (no MPI, NCCL, Boost, GSL, cuSOLVER, cuDNN, no inputs that are kept
elsewhere), unmodified, with the options and arguments of their makefiles, {seconds:g} s of the processor for each
process, on two cores of a machine that others used. Made by
`python -m bench.hecbench CHECKOUT --seed {seed} --count {count} --page docs/bench-hecbench.md`.

**{good} of {run} that were run ended with nothing wrong**: {told}.

| word | what it means |
|---|---|
| own check | the program compares its results itself, and says they are right |
| as OpenMP | the numbers it prints are those of its OpenMP version (g++, the same arguments), within 0.2 % |
| as threads | they are those of the same kernels run thread by thread, which shares no pass with the other way |
| ran | it ended with exit code 0 and prints nothing that could be compared |
| wrong, failed, not built, too long | what it says; too long is more seconds of the processor than it was given |

*Cut*: what was made smaller of the makefile's run. *Threads*: kernels that run thread by thread.

| program | came out | cut | threads | |
|---|---|---|---|---|"""


def page(results: Sequence[Result], count: int, seed: int, seconds: float) -> str:
    counts = Counter(r.word for r in results)
    good = sum(counts[word] for word in RIGHT)
    rows = [
        f"| {r.name} | {r.word} | {r.cut} | {len(r.by_threads) or ''} | {_reason(r)} |"
        for r in sorted(results, key=lambda r: r.name)
    ]
    told = ", ".join(f"{n} {w}" for w, n in counts.most_common())
    text = _PAGE.format(count=count, seed=seed, seconds=seconds, good=good, run=len(results), told=told)
    return f"{text}\n" + "\n".join(rows) + "\n"


def _reason(result: Result) -> str:
    told = NOTES.get(result.name, result.told).replace(f"{Path(weft.__file__).parent.parent}/", "")
    return told.replace("|", "/").replace("\n", " ")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hecbench", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor, for each process of a run")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument(
        "--again", nargs="*", default=[], help="programs, or words (wrong, failed ...), to be tried again"
    )
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-hecbench")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--kept", action="store_true", help="only results that are kept: nothing is run")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    names = options.only or drawn(options.checkout, options.seed, options.count)
    if options.times:
        return _all_times(names, options)
    names = [n for n in names if (options.work / f"{n}.json").exists()] if options.kept else names
    results = [_try_or_take(name, options) for name in names]
    if options.page is not None:
        options.page.write_text(page([r for r in results if r], options.count, options.seed, options.seconds))
    return 0


def _versions(name: str, options: argparse.Namespace) -> tuple[Program, Program | None]:
    source = options.checkout.resolve() / "src"
    program = read_program(source / f"{name}-cuda")
    if program is None:
        raise SystemExit(f"`{name}` has no makefile that says how it is run, or needs more than its checkout")
    openmp = openmp_program(source / f"{name}-omp")
    return copied(program, options.work), openmp and copied(openmp, options.work)


def _try_or_take(name: str, options: argparse.Namespace) -> Result | None:
    kept = options.work / f"{name}.json"
    if kept.exists():
        result = Result(**json.loads(kept.read_text()))
        if not {name, result.word} & set(options.again):
            return result
    result = try_program(*_versions(name, options), options.seconds)
    kept.write_text(json.dumps(dataclasses.asdict(result)))
    by_threads = " ".join(result.by_threads)[:300]
    print(f"{name:28} {result.word:10} {result.seconds:6.1f} s {result.cut:14} {result.told} {by_threads}", flush=True)
    return result


def _all_times(names: Sequence[str], options: argparse.Namespace) -> int:
    ratios: dict[str, float] = {}
    for name in names:
        program, openmp = _versions(name, options)
        _, runs = next(smaller(program))
        try:
            ratio = compare_times(program, openmp, options.rounds, options.seconds, runs)
        except Stopped:
            ratio = None
        if ratio is not None:
            ratios[name] = ratio
        print(f"{name:28} {'-' if ratio is None else f'{ratio:.2f}'}", flush=True)
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios.values()):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
