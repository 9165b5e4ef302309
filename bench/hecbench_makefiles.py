"""What HeCBench's makefiles say of its programs: sources, options, runs; which need nothing else; smaller sizes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hecbench_programs import SMALLER

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


@dataclass(frozen=True)
class Program:
    """What a makefile says: what is compiled, how, and how it is run."""

    name: str
    folder: Path
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    runs: tuple[tuple[str, ...], ...]


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
    if (
        any(_needs(folder, argument) for run in runs for argument in run)
        or _lacks_inputs(folder)
        or _includes_foreign(folder)
    ):
        return None
    return Program(folder.name.rpartition("-")[0], folder, tuple(sources), tuple(flags), runs)


def _make(folder: Path, *more: str) -> str | None:
    if not (folder / "Makefile").is_file():
        return None
    with tempfile.TemporaryDirectory() as empty:  # no nvcc that is installed is asked for anything
        environment = {**os.environ, "MAKEFLAGS": "", "PATH": f"{empty}:/usr/bin:/bin"}
        done = subprocess.run(
            ["make", "-n", "-B", "DEVICE=cpu", *more],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
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
                joined = word in (
                    "-Xcompiler",
                    "-I",
                    "-D",
                    "-L",
                    "-include",
                    "-isystem",
                    "-ccbin",
                    "-gencode",
                    "-arch",
                    "-x",
                    "-Xptxas",
                )
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
    return ("/" in argument and bool(re.search(r"[a-zA-Z]", argument)) and not (folder / argument).parent.is_dir()) or (
        "/" in argument
        and "." in Path(argument).name
        and not (folder / argument).exists()
        and argument.startswith(("../", "./data", "data"))
    )


def _lacks_inputs(folder: Path) -> bool:
    """Whether inputs are kept elsewhere (DVC), or are pictures that ImageMagick is to read."""
    return any(folder.rglob("*.dvc")) or (folder / "CImg.h").exists()


def _includes_foreign(folder: Path) -> bool:
    files = (p for p in folder.rglob("*") if p.suffix in (*_SOURCES, ".h", ".cuh", ".hpp"))
    return any(_FOREIGN_HEADERS.search(p.read_text(errors="replace")) for p in files)


def smaller(program: Program) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    """The runs of a program, ever smaller, and what was cut."""
    if program.name in SMALLER:
        yield "sizes of ours", tuple(tuple(shlex.split(run)) for run in SMALLER[program.name])
        return
    runs = tuple(_fewer(run) for run in program.runs)
    yield ("repetitions" if runs != program.runs else ""), runs
    for divisor in (16,):
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
    return tuple(str(max(int(word) // divisor, 64)) if word.isdigit() and int(word) > 64 else word for word in run)


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


def openmp_program(folder: Path) -> Program | None:
    read = read_program(folder) if folder.is_dir() else None
    return read and dataclasses.replace(read, flags=tuple(f for f in read.flags if not _OFFLOADING.search(f)))


def drawn(checkout: Path, seed: int, count: int) -> list[str]:
    """Names of programs: all in the order that ``seed`` says, as many of these as are needed that need nothing else."""
    folders = sorted((checkout / "src").glob("*-cuda"))
    random.Random(seed).shuffle(folders)
    return [p.name for p in itertools.islice(filter(None, map(read_program, folders)), count)]
