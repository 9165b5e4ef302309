"""What nvcc tells of itself and of its steps, as build systems read it: ``--version``, ``-v``, ``-dryrun``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from weft.from_cuda.clang import ARCHITECTURE
from weft.from_cuda.nvcc_options import BuildOptions
from weft.from_cuda.toolchain import linker_command

#: The release whose headers ours stand in for: `CUDART_VERSION`.
_RELEASE, _VERSION = "12.3", "12.3.107"
#: How a folder that looks like a toolkit tells its compiler where it is.
TOP = "WEFT_CUDA_TOP"


def version_text() -> str:
    """What ``nvcc --version`` prints; the first line is how build systems know nvcc."""
    return (
        "nvcc: NVIDIA (R) Cuda compiler driver\n"
        "(played by Weft, which compiles for this processor)\n"
        f"Cuda compilation tools, release {_RELEASE}, V{_VERSION}\n"
    )


def tell_steps(options: BuildOptions) -> None:
    """Writes what ``-v`` shows to stderr: where the toolkit is, what is compiled, and the line that links."""
    top = os.environ.get(TOP)
    libraries = f'"-L{top}/lib64"' if top else ""
    lines = [
        f"TOP={top}",
        f"NVVMIR_LIBRARY_DIR={top}/nvvm/libdevice",
        f"PATH={top}/bin:{os.environ.get('PATH', '')}",
        f'INCLUDES="-I{top}/include"',
        f"LIBRARIES=  {libraries}",
    ]
    for line in [*(lines if top else ()), *_steps(options, libraries)]:
        print(f"#$ {line}", file=sys.stderr)


def _steps(options: BuildOptions, libraries: str) -> list[str]:
    objects = [f if f.suffix in (".o", ".a", ".so") else Path(f.with_suffix(".o").name) for f in options.files]
    compiled = [
        _command([*_compiler(options.is_cuda(f), options), *options.compile, "-c", str(f), "-o", str(to)])
        for f, to in zip(options.files, objects, strict=True)
        if f != to
    ]
    if options.compile_only or not options.files:
        return compiled
    named = " ".join(f'"{one}"' for one in objects)
    return [
        *compiled,
        f'{_command(linker_command())} -o "{options.output or "a.out"}" -Wl,--start-group {named} {libraries} '
        f"{_command(options.link)} -lcudadevrt -lcudart_static -lrt -lpthread -ldl -Wl,--end-group",
    ]


def _compiler(is_cuda: bool, options: BuildOptions) -> list[str]:
    """What compiles a file; build systems look for the GPUs that nvcc would compile for."""
    names = options.architectures or [ARCHITECTURE.removeprefix("sm_")]
    wanted = [word for name in names for word in ("-arch", f"compute_{name}")]
    return ["clang", "-x", "cuda", *wanted] if is_cuda else ["clang", "-x", "c++"]


def _command(words: Sequence[str]) -> str:
    return shlex.join(words)
