"""Kernels that a running program has as text (NVRTC): a library which it loads, and which registers them as its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.from_cuda.nvcc_options import read_options, unit_name
from weft.from_cuda.program import compile_unit
from weft.from_cuda.toolchain import linker_command, run_tool

#: A program finds only its own tables of kernels and variables: a module tells where its are, before all else.
_TABLES = """
#ifndef __CUDA_ARCH__
extern "C" {
extern char __start_weft_kernels[] __attribute__((weak, visibility("hidden")));
extern char __stop_weft_kernels[] __attribute__((weak, visibility("hidden")));
extern char __start_weft_variables[] __attribute__((weak, visibility("hidden")));
extern char __stop_weft_variables[] __attribute__((weak, visibility("hidden")));
void weft_add_tables(void *, void *, void *, void *);
}
__attribute__((constructor(101))) static void weft_tell_tables() {
  weft_add_tables(__start_weft_kernels, __stop_weft_kernels, __start_weft_variables, __stop_weft_variables);
}
#endif
"""


class Module(NamedTuple):
    """A library, and the source and options of the unit that it is made of."""

    library: Path
    unit: str
    source: Path
    flags: Sequence[str]


def build_module(given: Path, to: Path) -> Module:
    """Builds what ``given`` holds: ``source.cu``, ``options`` and ``names`` by lines, ``where`` the program runs, and
    the folder ``include``."""
    to.mkdir(parents=True)
    names = _lines(given / "names")
    source = to / "source.cu"
    source.write_text((given / "source.cu").read_text(errors="surrogateescape") + "\n" + _TABLES + _addresses(names))
    if (given / "include").is_dir():
        shutil.copytree(given / "include", to / "include")
    where = (given / "where").read_text()
    options = read_options([*_lines(given / "options"), f"-I{to / 'include'}", f"-I{where}"])
    flags = ["-fPIC", *(f"-I{os.path.join(where, f[2:])}" if f.startswith("-I") else f for f in options.compile)]
    made = compile_unit(source, flags, to / "source.o", to, ahead=False)
    library = to / "module.so"
    run_tool([*linker_command(), "-shared", str(made), "-o", str(library)])
    return Module(library, unit_name(source, flags), source, flags)


def _addresses(names: Sequence[str]) -> str:
    """Kernels and variables that the program asks for by expressions, which makes what is a template's."""
    values = "".join(f"(void *)({name}), " for name in names)
    return f'extern "C" void *weft_names[] = {{{values}nullptr}};\n'


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(errors="surrogateescape").splitlines() if line.strip()]
