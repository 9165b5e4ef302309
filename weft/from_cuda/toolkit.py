"""A folder that looks like a CUDA toolkit to makefiles: `bin/nvcc`, `include`, `lib64`."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path

from weft.from_cuda.nvcc_steps import TOP
from weft.from_cuda.runtime_library import runtime_objects
from weft.from_cuda.toolchain import INCLUDE, archiver, run_tool
from weft.interpreters import python_command

#: Libraries that makefiles name; all that there is, is in the first two.
_LIBRARIES = (
    "cudart",
    "cudart_static",
    "cuda",
    "cudadevrt",
    "cublas",
    "cublasLt",
    "curand",
    "cufft",
    "cusparse",
    "nvrtc",
    "nvToolsExt",
)


def write_toolkit(folder: Path) -> Path:
    """Writes the folder, for `make CUDA_DIR=folder` or `PATH=folder/bin:$PATH make`."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    compiler = folder / "bin" / "nvcc"
    command = python_command("from weft.cli.main import main\nsys.exit(main())", "cuda", "build")
    compiler.write_text(
        f'#!/bin/sh\nexport {TOP}="$(dirname "$(dirname "$(readlink -f "$0")")")"\n'
        f'exec env -u PYTHONPATH {shlex.join(command)} "$@"\n'
    )
    compiler.chmod(0o755)
    (folder / "nvvm" / "libdevice").mkdir(parents=True, exist_ok=True)  # by which build systems know a toolkit
    for headers in INCLUDE:
        shutil.copytree(headers, folder / "include", dirs_exist_ok=True)
    for name in ("lib64", "lib"):
        _write_libraries(folder / name)
    return folder


def _write_libraries(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as text:
        for library in _LIBRARIES:
            objects = map(str, runtime_objects(Path(text))) if library in _LIBRARIES[:2] else ()
            to = folder / f"lib{library}.a"
            to.unlink(missing_ok=True)
            run_tool([*archiver(), "crs", str(to), *objects])
