"""The runtime library that programs are linked with: its C++ files and the thread pool, compiled once and kept."""

from __future__ import annotations

import platform
import re
import tempfile
from pathlib import Path

from weft.from_cuda.toolchain import INCLUDE, INCLUDE_FLAGS, NATIVE, clang_command, run_tools
from weft.runtime.memory import MEMORY
from weft.runtime.native import baseline_machine
from weft.runtime.native_module import NativeModule
from weft.runtime.pool import pool_module
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-optimize-sibling-calls",  # a call that fails is named by the stack
    "-g",
    "-Wno-everything",
)


_SET_THREADS = """
define void @weft_set_threads(i64 %n) {
  store atomic i64 %n, ptr @threads seq_cst, align 8
  ret void
}
"""


def library_key() -> str:
    """What tells this library from any other."""
    sources = sorted([*NATIVE.glob("*"), *(p for folder in INCLUDE for p in folder.glob("*.h"))])
    return cache_key("cuda runtime", *clang_command(), *(p.read_text() for p in sources), *_FLAGS)


def runtime_objects(folder: Path) -> list[Path]:
    """The library's object files, written to ``folder``."""
    sources = sorted(NATIVE.glob("*.cpp"))
    key = library_key()
    store = default_store()
    kept = store.get(key)
    if kept is None:
        kept = Artifact({"kind": "cuda runtime"}, _compile(sources))
        store.put(key, kept)
    paths = []
    for name, code in kept.blobs.items():
        paths.append(folder / f"weft_{name}.o")
        paths[-1].write_bytes(code)
    return paths


def _compile(sources: list[Path]) -> dict[str, bytes]:
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    pool = _native(pool_module("aarch64" if is_arm else "x86_64"), _SET_THREADS)
    blobs = {"pool": pool, "temporaries": _native(MEMORY)}
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        made = {source: Path(folder) / f"{source.stem}.o" for source in sources}
        compiler = [*clang_command(), *_FLAGS, f"-I{NATIVE}", *INCLUDE_FLAGS, "-c"]
        run_tools(*([*compiler, str(source), "-o", str(to)] for source, to in made.items()))
        blobs |= {source.stem: to.read_bytes() for source, to in made.items()}
    return blobs


def _native(module: NativeModule, further: str = "") -> bytes:
    """A module of the runtime's own machine code, its names hidden from the program it becomes part of."""
    from weft.target.cpu.llvm import compile_llvm

    text = re.sub(r"^(@[\w.]+ =) global", r"\1 internal global", module.text(), flags=re.MULTILINE)
    text = re.sub(r"^define (\w+ @(?!weft_))", r"define internal \1", text, flags=re.MULTILINE)
    return compile_llvm(text + further, baseline_machine())
