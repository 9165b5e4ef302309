"""What tells one CUDA compiler from another without loading it: a start from kept code needs no compiler."""

from __future__ import annotations

import functools
import os
import sys


@functools.cache
def toolchain_key() -> str:
    """The NVRTC packages that are installed, by name and version; where none is, the version that NVRTC says."""
    packages = sorted({name for folder in sys.path for name in _packages(folder)})
    if packages:
        return " ".join(packages)
    from weft.target.cuda.nvrtc import nvrtc_version

    return nvrtc_version()


def _packages(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder or ".") if name.startswith("nvidia_cuda_nvrtc") and "-info" in name]
    except OSError:
        return []
