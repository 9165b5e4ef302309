"""The programs that compile and link: clang for CUDA, and the system's compiler (or the wheel's) to link with."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft.from_cuda.clang import NESTED_LAUNCH, find_clang, nested_launches
from weft.ir.errors import LanguageError, TargetError, UnsupportedError

#: Headers of ours for whole programs, and those that kernels are read with as well.
INCLUDE = tuple(Path(__file__).parent / "include" / name for name in ("program", "both"))
#: The CUDA samples' helper headers come last: a program that brings NVIDIA's own is compiled with those.
INCLUDE_FLAGS = (*(f"-I{folder}" for folder in INCLUDE), "-idirafter", str(INCLUDE[0].parent / "helpers"))
NATIVE = Path(__file__).parent / "native"


@functools.cache
def clang_command() -> tuple[str, ...]:
    """How clang is called to compile; the wheel's does not find its own headers by itself."""
    command = find_clang()
    return command if command[1:] != ("clang",) else (*command, "-resource-dir", str(Path(command[0]).parent / "lib"))


@functools.cache
def linker_command() -> tuple[str, ...]:
    """How programs are linked: by the system's C++ compiler, whose library the host code is compiled against, or by the
    wheel's, which brings its own and builds it at its first use."""
    for name in ("g++", "c++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return (path,)
    if find_clang()[1:] == ("clang",):
        return (find_clang()[0], "c++")
    raise TargetError(
        "no C++ compiler was found to link programs with",
        why="there is no `g++`, `c++` or `clang++` in PATH",
        help='pip install "weft[cuda-source]", which brings one, or install g++',
    )


@functools.cache
def host_compiler(language: str) -> tuple[str, ...]:
    """What compiles plain host files: the system's compiler, or the wheel's where there is none."""
    path = shutil.which({"c": "gcc", "c++": "g++"}[language])
    if path is None and find_clang()[1:] == ("clang",):
        return (find_clang()[0], {"c": "cc", "c++": "c++"}[language], "-x", language)
    return (path, "-x", language) if path is not None else (*clang_command(), "-x", language)


def archiver() -> tuple[str, ...]:
    """What puts objects into static libraries; the wheel's compiler does too."""
    path = shutil.which("ar")
    return (path,) if path is not None else (find_clang()[0], "ar")


@functools.cache
def further_headers() -> tuple[str, ...]:
    """Where the system's compiler keeps headers of its own that clang may lack (omp.h), to be looked for last; where
    the wheel's is the compiler, all that it would include."""
    path = shutil.which("g++")
    if path is None:
        return _wheel_headers() if linker_command()[1:] == ("c++",) else ()
    folder = subprocess.run([path, "-print-file-name=include"], capture_output=True, text=True, check=False).stdout
    return ("-idirafter", folder.strip())


def _wheel_headers() -> tuple[str, ...]:
    """The folders and macros that the wheel's compiler calls clang with: it says so when asked to."""
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        source = Path(folder) / "empty.cpp"
        source.touch()
        command = [*linker_command(), "-v", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    words = next((shlex.split(line) for line in told.splitlines() if " -cc1 " in line), [])
    pairs = [(word, value) for word, value in itertools.pairwise(words) if word in ("-isystem", "-D")]
    return ("-nostdinc", *(word for pair in pairs for word in pair))


def run_tool(command: Sequence[str], *, echo: bool = True) -> str:
    """Runs a compiler; its errors, which name file and line, become ours. Its warnings go where ours go."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    except OSError as error:
        raise TargetError(f"`{command[0]}` could not be started", why=str(error)) from None
    if done.returncode == 0:
        if echo and done.stderr:
            print(done.stderr, end="")
        return done.stdout
    _refuse_libraries(done.stderr)
    _refuse_launches(done.stderr)
    if missing := _undefined(done.stderr):
        raise UndefinedNames(missing)
    if re.search(r"\berror: ", done.stderr):
        raise LanguageError(_first_error(done.stderr), why=done.stderr.strip())
    raise TargetError(f"`{Path(command[0]).name}` failed", why=done.stderr.strip() or f"exit code {done.returncode}")


#: Libraries of NVIDIA's that there is nothing of, by how their headers begin.
_ABSENT = {
    "cudnn": "cuDNN", "cusolver": "cuSOLVER", "cutensor": "cuTENSOR", "npp": "NPP", "nvjpeg": "nvJPEG", "nccl": "NCCL",
    "nvJitLink": "nvJitLink", "nvml": "NVML", "cusparseLt": "cuSPARSELt", "cublasXt": "cuBLASXt",
    "cutlass/": "CUTLASS", "cute/": "CuTe", "nvscibuf": "NvSci", "optix": "OptiX",
}  # fmt: skip
_NO_HEADER = re.compile(
    r"^(.*?):(\d+):.*error: '?([\w./-]+?)'?(?: file not found|: No such file or directory)$", re.MULTILINE
)


def _refuse_libraries(messages: str) -> None:
    """Raises where a compiler did not find a header of a library that is known and not there."""
    for file, line, header in _NO_HEADER.findall(messages):
        library = next((name for begin, name in _ABSENT.items() if header.startswith(begin)), None)
        if library is not None:
            raise UnsupportedError(
                f"{library} is not there",
                why=f"{file}:{line} includes `{header}`",
                help="of NVIDIA's libraries there are cuBLAS, cuFFT, cuRAND, cuSPARSE, Thrust and CUB, as far as "
                "docs/cuda.md tells",
            )


def _refuse_launches(messages: str) -> None:
    """Raises where clang, which has no device-side launches, found some: it names an option that does not help."""
    if places := re.findall(rf"^(.*?:\d+):\d+: error: {NESTED_LAUNCH}", messages, re.MULTILINE):
        raise nested_launches(places)


def run_tools(*commands: Sequence[str]) -> None:
    """Runs compilers at the same time; the first error is raised."""
    with ThreadPoolExecutor(min(len(commands), 2 + (os.cpu_count() or 1))) as pool:
        for done in [pool.submit(run_tool, command) for command in commands]:
            done.result()


def _first_error(messages: str) -> str:
    return next(line.split("error: ", 1)[1] for line in messages.splitlines() if "error: " in line)


def _undefined(messages: str) -> dict[str, str]:
    """The names that a linker found no definition of, all of them, each with who asks for it first."""
    missing: dict[str, str] = {}
    user = ""
    for line in messages.splitlines():
        user = found.group(1) if (found := re.search(r"in function `([^']+)'", line)) else user
        if found := re.search(r"undefined reference to `([^']+)'", line):
            missing.setdefault(found.group(1), user)
    return missing


class UndefinedNames(LanguageError):
    """Names that nothing defines where a program is linked."""

    def __init__(self, names: Mapping[str, str], help: str | None = None) -> None:
        self.names = names
        shown = list(names)[:8]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        known = {name: user for name, user in names.items() if name in shown and user not in ("", "_start")}
        users = [f"`{name}` is used in `{user}`" for name, user in known.items()]
        super().__init__(
            f"nothing defines {', '.join(shown)}{more}",
            why="; ".join(users) or "no file that is linked has it",
            help=help,
        )

    def helped(self, help: str | None) -> UndefinedNames:
        """The same with what would help."""
        return UndefinedNames(self.names, help)
