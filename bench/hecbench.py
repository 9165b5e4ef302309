"""``python -m bench.hecbench CHECKOUT [--seed 31] [--count 100] [--only adam] [--again adam] [--page FILE] [--times]``.

HeCBench's CUDA programs, drawn at random from those that need nothing but their checkout and CUDA's own libraries. Each
is built as its makefile says, by `weft cuda run`'s own steps, and run with the makefile's arguments: repetitions cut to
two, and where that takes too long the other sizes to an eighth and a 64th. What came of it is told by the program's
own check, else by the numbers that its -omp version prints (g++, the same arguments), else by those of its own kernels run
thread by thread. Results are kept in the folder of ``--work``, a file each: what is there is not run again.

``--times`` compares instead the times that both versions print, in turns, on two threads: medians.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hecbench_programs import NOTES, SMALLER

_SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx", ".C")
_COMPILERS = {"nvcc", "g++", "gcc", "clang++", "icpx", "cc", "c++"}
#: Where the words of a program end in a line for a shell.
_SHELL = frozenset({"|", ">", ">>", "2>", "&", "&&", ";", "2>&1"})
#: What no CUDA toolkit brings, by the library's or the header's name: such programs are not drawn.
_FOREIGN = re.compile(
    r"-l(mpi|nccl|gsl|gdal|parmetis|metis|boost\w*|gfortran|cusolver|bz2|z|cudnn|nvshmem)\b|mpicxx|mpic\+\+"
)
_FOREIGN_HEADERS = re.compile(
    r'#\s*include\s*[<"](mpi\.h|nccl|gsl/|boost/|cudnn|cusolver|nvshmem|unicode/|hip/|sycl/|gdal|torch/|cutlass/|cute/|cudf|rmm/|omp-tools)'
)
#: Options of OpenMP compilers for GPUs, which g++ does not know.
_OFFLOADING = re.compile(r"^-(q|fi)openmp|^-fopenmp|^-m?(mp|gpu|tp)=|^--offload|^-Xopenmp|^-x?[hH]ost|^-Minfo")
_PASSED = re.compile(r"\b(pass(ed)?|succe(ss|eded)|successful(ly)?|correct|verified|validated)\b", re.IGNORECASE)
_FAILED = re.compile(r"\b(fail(s|ed|ure|ures)?|mismatch\w*|incorrect\w*|wrong|not (equal|match|correct)|unsuccessful)\b", re.IGNORECASE)
_NONE_FAILED = re.compile(r"\b(no|0|zero)\s+(fail|mismatch|incorrect|wrong|error)|(fail\w*|mismatch\w*|wrong)\D{0,12}\b0\b(?!\.\d*[1-9])", re.IGNORECASE)
_TIMES = re.compile(
    r"time|\d\s*\(?(s|ms|us|ns|sec\w*)\)?\b|\bseconds?\b|[GM]B/s|[GMT]?FLOP|through|bandwidth|speed|fps|perf|elapsed|duration"
    r"|per second|latency|/s\b|0x[0-9a-f]{6}",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan\b|inf\b)")


@dataclass(frozen=True)
class Program:
    """What a makefile says: what is compiled, how, and how it is run."""

    name: str
    folder: Path
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    runs: tuple[tuple[str, ...], ...]


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


# What makefiles say


def read_program(folder: Path) -> Program | None:
    """The program of ``folder``; None where it is none or needs more than its checkout and CUDA."""
    told = _make(folder)
    if told is None or _FOREIGN.search(told):
        return None
    lines = [words for line in told.splitlines() if (words := _words(line))]
    sources, flags = _compiled(lines)
    runs = tuple(tuple(words[1:]) for words in _executed(folder))
    if not sources or not runs or not all((folder / s).is_file() for s in sources):
        return None
    if any(_needs(folder, argument) for run in runs for argument in run) or _lacks_inputs(folder) or _includes_foreign(folder):
        return None
    return Program(folder.name.rpartition("-")[0], folder, tuple(sources), tuple(flags), runs)


def _make(folder: Path, *more: str) -> str | None:
    if not (folder / "Makefile").is_file():
        return None
    with tempfile.TemporaryDirectory() as empty:  # no nvcc that is installed is asked for anything
        environment = {**os.environ, "MAKEFLAGS": "", "PATH": f"{empty}:/usr/bin:/bin"}
        done = subprocess.run(
            ["make", "-n", "-B", "DEVICE=cpu", *more], cwd=folder, capture_output=True, text=True, check=False, env=environment
        )
    return done.stdout.replace("\\\n", " ") if done.returncode == 0 else None


def _compiled(lines: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Sources and options of all of a makefile's compilations."""
    sources: dict[str, None] = {}
    flags: dict[str, None] = {}
    for words in lines:
        if Path(words[0]).name not in _COMPILERS:
            continue
        rest = list(words[1:])
        while rest:
            word = rest.pop(0)
            if word in ("-o", "-MF", "-MT", "-MQ") and rest:
                rest.pop(0)
            elif word.endswith(_SOURCES):
                sources[word] = None
            elif word.startswith("-") and word not in ("-c", "-MD", "-MMD", "-MP"):
                joined = word in ("-Xcompiler", "-I", "-D", "-L", "-include", "-isystem", "-ccbin", "-gencode", "-arch", "-x", "-Xptxas")
                flags[f"{word}\0{rest.pop(0)}" if joined and rest else word] = None
    return list(sources), [part for flag in flags for part in flag.split("\0")]


def _executed(folder: Path) -> Iterator[list[str]]:
    for line in (_make(folder, "run") or "").splitlines():
        if re.match(r"\s*(\S*/)?\./\S+|\s*\./\S+", line) and not line.strip().endswith(".sh"):
            yield list(itertools.takewhile(lambda word: word not in _SHELL, _words(line)))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quotation that goes on in the next line
        return []


def _needs(folder: Path, argument: str) -> bool:
    """Whether an argument names a file in a folder that is not there."""
    return "/" in argument and bool(re.search(r"[a-zA-Z]", argument)) and not (folder / argument).parent.is_dir() or (
        "/" in argument and "." in Path(argument).name and not (folder / argument).exists() and argument.startswith(("../", "./data", "data"))
    )


def _lacks_inputs(folder: Path) -> bool:
    """Whether inputs are kept elsewhere (DVC), or are pictures that ImageMagick is to read."""
    return any(folder.rglob("*.dvc")) or (folder / "CImg.h").exists()


def _includes_foreign(folder: Path) -> bool:
    files = (p for p in folder.rglob("*") if p.suffix in (*_SOURCES, ".h", ".cuh", ".hpp"))
    return any(_FOREIGN_HEADERS.search(p.read_text(errors="replace")) for p in files)


# Sizes


def smaller(program: Program) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    """The runs of a program, ever smaller, and what was cut."""
    if program.name in SMALLER:
        yield "sizes of ours", tuple(tuple(shlex.split(run)) for run in SMALLER[program.name])
        return
    runs = tuple(_fewer(run) for run in program.runs)
    yield ("repetitions" if runs != program.runs else ""), runs
    for divisor in (8, 64):
        cut = tuple(_divided(run, divisor) for run in runs)
        if cut != runs:
            yield f"sizes / {divisor}", cut


def _fewer(run: tuple[str, ...]) -> tuple[str, ...]:
    """The last whole number of a run is how often it repeats itself."""
    for at in reversed(range(len(run))):
        if run[at].isdigit():
            return (*run[:at], str(min(int(run[at]), 2)), *run[at + 1 :])
    return run


def _divided(run: tuple[str, ...], divisor: int) -> tuple[str, ...]:
    return tuple(
        str(max(int(word) // divisor, 64)) if word.isdigit() and int(word) > 64 else word for word in run
    )


# Running


def run_once(command: Sequence[str], folder: Path, seconds: float, threads: int = 2, **more: str) -> tuple[int, str]:
    """Exit code and all that was printed; ended where a process takes more ``seconds`` of the processor, or ten times as
    long by the clock (others may use the machine)."""
    seconds = int(seconds)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "WEFT_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1", **more}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        running = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment,
            start_new_session=True, preexec_fn=limit,
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


def copied(program: Program, work: Path) -> Program:
    """The program in a checkout of its own, as deep, beside all that it shares with others."""
    there = work / "src" / program.folder.name
    if there.is_symlink():  # a program that ran before shares it
        there.unlink()
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(program.folder, there)
    for beside in program.folder.parent.iterdir():
        link = there.parent / beside.name
        if not link.exists():
            link.symlink_to(beside)
    return dataclasses.replace(program, folder=there)


def _weft(program: Program, arguments: Sequence[str], *switches: str) -> list[str]:
    return [sys.executable, "-m", "weft", "cuda", "run", "--report", *switches, *program.flags, *program.sources, "--", *arguments]


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
                return dataclasses.replace(result, word="wrong", told=_line(_FAILED, str(stopped)))
            result.told = f"ran longer than {seconds:.0f} s" + (", what it checked before was right" if judged else "")
            continue
        result.seconds = time.perf_counter() - start
        result.by_threads = _thread_by_thread("\n".join(text for _, text in printed))
        return judge(result, program, openmp, runs, printed, seconds)
    return result


def _thread_by_thread(printed: str) -> tuple[str, ...]:
    return tuple(m.group(1) for m in re.finditer(r"^(\S+?: thread by thread: .*)$", printed, re.MULTILINE))


def without_report(printed: str) -> str:
    """What the program itself printed: the report of `weft cuda run` comes at the end."""
    return printed.partition(": thread by thread: ")[0].rpartition("\n")[0] if ": thread by thread: " in printed else printed


def own_check(printed: str) -> str:
    """What the program says of its results: ``passed``, ``failed`` or nothing."""
    lines = without_report(printed).splitlines()
    if any(_FAILED.search(line) and not _NONE_FAILED.search(line) for line in lines):
        return "failed"
    return "passed" if any(_PASSED.search(line) or _NONE_FAILED.search(line) for line in lines) else ""


def judge(result: Result, program: Program, openmp: Program | None, runs: Sequence[Sequence[str]], printed: Sequence[tuple[int, str]], seconds: float) -> Result:
    text = "\n".join(t for _, t in printed)
    if bad := next(((code, t) for code, t in printed if code != 0), None):
        return _broken(result, *bad)
    if judged := own_check(text):
        result.word, result.told = ("wrong", _line(_FAILED, text)) if judged == "failed" else ("own check", "")
        return result
    ours = numbers(without_report(text))
    if not ours:
        return dataclasses.replace(result, word="ran", told="it prints nothing that could be compared")
    differs = ""
    if openmp is not None and (theirs := openmp_numbers(openmp, runs, seconds)) is not None and len(theirs) == len(ours):
        if close(ours, theirs):
            return dataclasses.replace(result, word="as OpenMP", told=f"{len(ours)} numbers")
        differs = "its OpenMP version prints others; "
    return _against_threads(result, program, runs, ours, differs, seconds)


def _broken(result: Result, code: int, printed: str) -> Result:
    errors = [line for line in printed.splitlines() if re.match(r"error: ", line)]
    if errors:
        why = _line(re.compile(r"error: |undefined reference"), printed.partition("why:")[2]) or ""
        return dataclasses.replace(result, word="not built", told=f"{errors[0][7:]} {why}".strip()[:240])
    last = (without_report(printed).strip().splitlines() or [""])[-1]
    return dataclasses.replace(result, word="failed", told=f"exit code {code}: {last.strip()[:160]}")


def _against_threads(result: Result, program: Program, runs: Sequence[Sequence[str]], ours: list[float], differs: str, seconds: float) -> Result:
    try:
        texts = [run_once(_weft(program, run, "--serial"), program.folder, 3 * seconds)[1] for run in runs]
    except Stopped:
        return dataclasses.replace(result, word="ran", told=f"{differs}threads one by one took too long to compare with")
    serial = numbers(without_report("\n".join(texts)))
    if len(serial) == len(ours) and close(ours, serial):
        return dataclasses.replace(result, word="as threads", told=f"{differs}{len(ours)} numbers".strip())
    return dataclasses.replace(result, word="wrong", told=f"{differs}threads one by one print others")


def openmp_program(folder: Path) -> Program | None:
    read = read_program(folder) if folder.is_dir() else None
    return read and dataclasses.replace(read, flags=tuple(f for f in read.flags if not _OFFLOADING.search(f)))


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


def numbers(printed: str) -> list[float]:
    """The numbers of lines that do not tell times."""
    lines = (line for line in printed.splitlines() if not _TIMES.search(line))
    return [float(n) for line in lines for n in _NUMBER.findall(line)]


def close(some: Sequence[float], others: Sequence[float]) -> bool:
    return all(a == b or abs(a - b) <= 1e-6 + 2e-3 * max(abs(a), abs(b)) or (a != a and b != b) for a, b in zip(some, others, strict=True))


def _line(pattern: re.Pattern[str], text: str) -> str:
    return next((line.strip()[:160] for line in text.splitlines() if pattern.search(line)), "")


# Times


def compare_times(program: Program, openmp: Program | None, rounds: int, seconds: float, runs: Sequence[Sequence[str]]) -> float | None:
    """How many times as fast as the OpenMP version, by what both print of their time: in turns, medians of ``rounds``."""
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
    ratios = [statistics.median(told[1][k]) / statistics.median(told[0][k]) for k in told[0].keys() & told[1].keys() if min(told[0][k]) > 0]
    return statistics.geometric_mean(ratios) if ratios and min(ratios) > 0 else None


def printed_times(printed: str) -> Iterator[tuple[str, float]]:
    """Lines that tell the time of kernels: what they say, and how long."""
    seen: Counter[str] = Counter()
    for line in printed.splitlines():
        found = re.search(r"(.*time.*?[:=]?\s*)([\d.]+(?:e[-+]?\d+)?)\s*\(?(s|ms|us|ns|sec\w*)\b", line, re.IGNORECASE) or re.search(
            r"(.*time.*\((?:s|ms|us|ns|sec\w*)\)\D*)([\d.]+(?:e[-+]?\d+)?)()", line, re.IGNORECASE
        )
        if found and "host" not in line.lower() and "cpu" not in line.lower():
            label = re.sub(r"[\d.]+", "#", found.group(1)).strip().lower() + found.group(3)
            seen[label] += 1
            yield f"{label} {seen[label]}", float(found.group(2))


# All of it


def drawn(checkout: Path, seed: int, count: int) -> list[str]:
    """Names of programs: all in the order that ``seed`` says, as many of these as are needed that need nothing else."""
    folders = sorted((checkout / "src").glob("*-cuda"))
    random.Random(seed).shuffle(folders)
    return [p.name for p in itertools.islice(filter(None, map(read_program, folders)), count)]


def page(results: Sequence[Result], count: int, seed: int) -> str:
    counts = Counter(r.word for r in results)
    good = sum(counts[word] for word in RIGHT)
    rows = [f"| {r.name} | {r.word} | {r.cut} | {len(r.by_threads) or ''} | {_reason(r)} |" for r in sorted(results, key=lambda r: r.name)]
    return "\n".join([
        "# HeCBench on a CPU", "",
        f"{count} programs of [HeCBench](https://github.com/zjin-lcf/HeCBench), drawn at random (seed {seed}) from those that need",
        "nothing but their checkout and CUDA's own libraries (no MPI, NCCL, Boost, GSL, cuSOLVER, cuDNN, no inputs that are",
        "not in the checkout), unmodified, built as their makefiles say and run on two cores of a machine that others used. Made by",
        f"`python -m bench.hecbench CHECKOUT --seed {seed} --count {count} --page docs/bench-hecbench.md`.", "",
        f"**{good} of {len(results)} ran to their end with nothing wrong**: " + ", ".join(f"{n} {w}" for w, n in counts.most_common()) + ".", "",
        "| word | what it means |", "|---|---|",
        "| own check | the program compares its results itself, and says they are right |",
        "| as OpenMP | the numbers it prints are those of its OpenMP version (g++, the same arguments), within 0.2 % |",
        "| as threads | they are those of the same kernels run thread by thread, which shares no pass with the other way |",
        "| ran | it ended with exit code 0 and prints nothing that could be compared |",
        "| wrong, failed, not built, too long | what it says |", "",
        "*Cut*: what was made smaller of the makefile's run. *Threads*: kernels that run thread by thread.", "",
        "| program | came out | cut | threads | |", "|---|---|---|---|---|", *rows, "",
    ])  # fmt: skip


def _reason(result: Result) -> str:
    told = NOTES.get(result.name, result.told)
    return told.replace("|", "/").replace("\n", " ")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hecbench", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor, for each process of a run")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--again", nargs="*", default=[], help="programs, or words (wrong, failed ...), to be tried again")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-hecbench")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    names = options.only or drawn(options.checkout, options.seed, options.count)
    if options.times:
        return _all_times(names, options)
    results = [_try_or_take(name, options) for name in names]
    if options.page is not None:
        options.page.write_text(page([r for r in results if r], options.count, options.seed))
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
    print(f"{name:28} {result.word:10} {result.seconds:6.1f} s {result.cut:14} {result.told} {' '.join(result.by_threads)[:300]}", flush=True)
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
