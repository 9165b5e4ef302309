"""A kernel of a CUDA source thread by thread: what cannot be read as a whole grid (recursion, virtual functions, calls
through pointers, `printf`) runs as clang compiles it, in a library of its own; and with every access watched."""

from __future__ import annotations

import ctypes
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.from_cuda.check_program import read_findings, watching
from weft.from_cuda.launch import Dim3
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.runtime_library import library_key
from weft.ir.errors import TargetError
from weft.ir.span import Source
from weft.runtime.argument import ArgumentInfo
from weft.runtime.store import Artifact, default_store
from weft.sanitizer.findings import Report
from weft.version import cache_key

_LAUNCH = """
extern "C" int weft_launch_here(const unsigned *grid, const unsigned *block, void **arguments, size_t shared) {{
  auto *kernel = &{name};
  return (int)cudaLaunchKernel((const void *)kernel, dim3(grid[0], grid[1], grid[2]),
                               dim3(block[0], block[1], block[2]), arguments, shared, 0);
}}
"""


class ThreadKernel:
    """The library of a kernel, built when it is first launched and kept."""

    def __init__(self, source: Source, name: str, options: Sequence[str]) -> None:
        self.source, self.name, self.options = source, name, tuple(options)
        self._library: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="weft-cuda-")

    def build(self) -> Any:
        """The library, loaded."""
        if self._library is None:
            self._library = _load(self._build(watched=False), Path(self._folder.name) / "kernel.so")
        return self._library

    def launch(self, raw: Sequence[bytes], grid: Dim3, block: Dim3, shared: int, symbols: dict[str, Any]) -> None:
        """One launch, done when it returns; ``symbols`` are values of variables, by name, before and after."""
        _launch(self.build(), self.name, raw, grid, block, shared, symbols)

    def check(
        self, raw: Sequence[bytes], arrays: Sequence[ArgumentInfo], grid: Dim3, block: Dim3, shared: int,
        symbols: dict[str, Any],
    ) -> Report:  # fmt: skip
        """What is found in one launch; arrays are afterwards as they were."""
        extents = [a.extent for a in arrays]
        before = [ctypes.string_at(low, high - low) for low, high in extents]
        with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
            program, found = Path(folder) / "kernel.so", Path(folder) / "findings"
            with _environment(watching(found)):
                library = _load(self._build(watched=True), program)
            for low, high in extents:
                library.cudaHostRegister(ctypes.c_void_p(low), ctypes.c_size_t(high - low), 0)
            _launch(library, self.name, raw, grid, block, shared, {k: v.copy() for k, v in symbols.items()})
            for (low, _), values in zip(extents, before):
                ctypes.memmove(low, values, len(values))
            findings = read_findings(found, program, {f"{Path(self.source.name).stem}.cu": self.source})
        return Report(self.name, math.prod(grid) * math.prod(block), findings)

    def _build(self, *, watched: bool) -> bytes:
        how = "watched" if watched else "plain"
        key = cache_key("cuda threads", self.source.text, self.name, *self.options, library_key(), how)
        kept = default_store().get(key)
        if kept is None or "library" not in kept.blobs:
            kept = Artifact({"kind": "cuda threads"}, {"library": self._compiled(watched)})
            default_store().put(key, kept)
        return kept.blobs["library"]

    def _compiled(self, watched: bool) -> bytes:
        with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
            file, to = Path(folder) / f"{Path(self.source.name).stem}.cu", Path(folder) / "kernel.so"
            file.write_text(self.source.text + _LAUNCH.format(name=self.name))
            # Its calls are to its own runtime library, also where NVIDIA's is loaded.
            alone = ["-fPIC", "-shared", "-Xlinker", "-Bsymbolic"]
            options = read_options([*self.options, str(file), *alone, "-o", str(to)])
            options.watched = watched
            build_program(options, ahead=False)
            return to.read_bytes()


def _load(code: bytes, path: Path) -> Any:
    path.write_bytes(code)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise TargetError("a kernel's library could not be loaded", why=str(error)) from None


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """What a library reads of the environment when it is loaded."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _launch(
    library: Any, name: str, raw: Sequence[bytes], grid: Dim3, block: Dim3, shared: int, symbols: dict[str, Any]
) -> None:
    held = [ctypes.create_string_buffer(value, len(value)) for value in raw]
    places = (ctypes.c_void_p * max(len(held), 1))(*map(ctypes.addressof, held))
    there = {symbol: _address(library, symbol) for symbol in symbols}
    for symbol, at in there.items():
        ctypes.memmove(at, symbols[symbol].ctypes.data, symbols[symbol].nbytes)
    sizes = [(ctypes.c_uint * 3)(*d) for d in (grid, block)]
    status = library.weft_launch_here(*sizes, places, ctypes.c_size_t(shared))
    library.fflush(None)  # what a kernel prints comes before what is printed next
    if status:
        library.cudaGetErrorString.restype = ctypes.c_char_p
        raise TargetError(f"`{name}` could not be launched", why=library.cudaGetErrorString(status).decode())
    for symbol, at in there.items():
        ctypes.memmove(symbols[symbol].ctypes.data, at, symbols[symbol].nbytes)


def _address(library: Any, symbol: str) -> int:
    """Where a variable of the source is in its library."""
    at = ctypes.c_void_p()
    if library.cudaGetSymbolAddress(ctypes.byref(at), symbol.encode()) or at.value is None:
        raise TargetError(f"the variable `{symbol}` is not in the kernel's library")
    return at.value
