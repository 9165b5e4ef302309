"""The edge to clang, which reads CUDA C++: a system's own one where it is new enough, else that of the wheel `ziglang`.

Nothing of a CUDA toolkit is needed: the declarations are `include/weft_cuda.h`.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.ir.errors import TargetError, UnsupportedError

INCLUDE = Path(__file__).parent / "include"
#: The first clang whose tree has all that is read here.
_OLDEST = 18
#: The GPU that `__CUDA_ARCH__` tells of.
ARCHITECTURE = "sm_80"
_FLAGS = (
    "-x", "cuda", "--cuda-device-only", f"--cuda-gpu-arch={ARCHITECTURE}", "-nocudainc", "-nocudalib", "-nostdinc",
    "--cuda-path=/nonexistent", "-Wno-unknown-cuda-version", "-Wno-register", "-Wno-c++11-narrowing",
    "-Wno-writable-strings", "-Wno-reserved-user-defined-literal", "-fsyntax-only", "-ferror-limit=0",
    "-fno-caret-diagnostics", "-fno-color-diagnostics", "-w", "-Xclang", "-ast-dump=json",
)  # fmt: skip
_ERROR = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)


#: How clang begins where a kernel launches one.
NESTED_LAUNCH = "kernel launch from __device__"


def nested_launches(places: Sequence[str]) -> UnsupportedError:
    """Kernels that launch kernels, at these places."""
    return UnsupportedError(
        "kernels that launch kernels are not supported",
        why=f"there are launches in code of the device: {', '.join(places)}",
        help="launch it from the host, or call what it does as a __device__ function",
    )


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error of clang's and where it is."""

    file: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What clang made of a source: its tree as JSON text, in which the source is called ``path``; its complaints."""

    tree: str
    path: str
    complaints: tuple[Complaint, ...]
    messages: str


@functools.cache
def find_clang() -> tuple[str, ...]:
    """The command that starts a clang."""
    for name in ("clang", *(f"clang-{version}" for version in range(22, _OLDEST - 1, -1))):
        path = shutil.which(name)
        if path is not None and _version(path) >= _OLDEST:
            return (path,)
    wheel = importlib.util.find_spec("ziglang")
    if wheel is not None and wheel.origin is not None:
        return (str(Path(wheel.origin).parent / "zig"), "clang")
    raise TargetError(
        "no clang was found to read CUDA C++ with",
        why=f"there is neither a `clang` from version {_OLDEST} on in PATH nor the package `ziglang`",
        help='pip install "weft[cuda-source]", or install clang',
    )


def _version(path: str) -> int:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"clang version (\d+)", said)
    return int(found.group(1)) if found else 0


@functools.cache
def host_headers() -> tuple[str, ...]:
    """Headers of ours that only whole programs use, such as Thrust's."""
    folders = [INCLUDE / "program", INCLUDE / "helpers"]
    found = (path.relative_to(folder) for folder in folders for path in folder.rglob("*") if path.is_file())
    return tuple(str(name) for name in found if not (INCLUDE / "device" / name).exists())


def run_clang(
    text: str,
    name: str,
    *,
    include: Sequence[str] = (),
    defines: Sequence[str] = (),
    options: Sequence[str] = (),
    empty: Sequence[str] = (),
) -> Reading:
    """Reads ``text``, the source called ``name``, as the device sees it; the headers ``empty`` have nothing in them."""
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        path, tree = Path(folder) / "source.cu", Path(folder) / "tree.json"
        path.write_text(text)
        command = [
            *find_clang(), *_FLAGS, "-include", str(INCLUDE / "weft_cuda.h"),
            "-isystem", str(INCLUDE / "device"), "-isystem", str(INCLUDE / "both"),
            *(f"-I{folder}" for folder in include), *(f"-D{d}" for d in defines), *options,
            *(("-idirafter", str(_empty_headers(tuple(empty)))) if empty else ()), str(path),
        ]  # fmt: skip
        try:
            with tree.open("wb") as out:  # tens of megabytes: reading a pipe takes longer
                done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
            read = tree.read_bytes().decode(errors="replace")
        except OSError as error:
            raise TargetError(f"clang could not be started: {command[0]}", why=str(error)) from None
    messages = done.stderr.decode(errors="replace").replace(str(path), name)
    found = (m.groupdict() for m in _ERROR.finditer(messages))
    complaints = tuple(Complaint(m["file"], int(m["line"]), int(m["column"]), m["text"]) for m in found)
    return Reading(read, str(path), complaints, messages)


@functools.cache
def _empty_headers(names: tuple[str, ...]) -> Path:
    """A folder of headers of these names with nothing in them, as long as this process runs."""
    folder = Path(tempfile.mkdtemp(prefix="weft-cuda-empty-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder
