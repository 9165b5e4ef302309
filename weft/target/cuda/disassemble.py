"""Machine code as text, by NVIDIA's disassembler where the machine has one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.ir.errors import TargetError

#: Programs that print machine code, and how each is asked to.
_TOOLS = {"nvdisasm": ("--print-code",), "cuobjdump": ("--dump-sass",)}
_SECONDS = 60


def disassemble(cubin: bytes) -> str:
    """The instructions of ``cubin``."""
    tool = _find_tool()
    if tool is None:
        raise TargetError(
            "there is no disassembler for GPU code",
            why=f"neither {' nor '.join(_TOOLS)} was found on the PATH, in CUDA_HOME, or with Triton",
            help="install the CUDA toolkit, or the package `triton`; .show('ptx') needs neither",
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [str(tool), *_TOOLS[tool.name], str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise TargetError(f"{tool.name} did not run", why=str(problem)) from None
    if done.returncode != 0:
        raise TargetError(f"{tool.name} failed", why=done.stderr.strip()[:2000] or f"status {done.returncode}")
    return done.stdout


def _find_tool() -> Path | None:
    for name in _TOOLS:
        path_found = shutil.which(name)
        candidates = [Path(path_found)] if path_found else []
        candidates += [folder / name for folder in _folders()]
        for path in candidates:
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None


def _folders() -> list[Path]:
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [Path(home) / "bin" for home in (*homes, "/usr/local/cuda") if home]
    triton = importlib.util.find_spec("triton")
    for place in (triton.submodule_search_locations or ()) if triton is not None else ():
        folders.append(Path(place) / "backends" / "nvidia" / "bin")
    return folders
