"""What the numbers of the CUDA driver become."""

from __future__ import annotations

import pytest

import weft
from weft.ir.errors import TargetError
from weft.runtime.cuda_errors import driver_error

TEXTS = {
    2: "error: out of memory on the GPU\n"
    "  why:   cuMemAlloc could not have what it asked for\n"
    "  help:  free arrays (torch.cuda.empty_cache() gives back what torch keeps), or use smaller sizes",
    100: "error: kernels cannot run on a GPU here\n"
    "  why:   there is a CUDA driver, but no GPU it can use\n"
    "  help:  look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or pass arrays that are on the CPU",
    209: "error: this GPU does not run the code that was made for it\n"
    "  why:   the driver says NAME\n"
    "  help:  update NVIDIA's driver, or use an older nvidia-cuda-nvrtc",
    700: "error: a kernel on the GPU went wrong, and with it this process's work on that GPU\n"
    "  why:   it read or wrote memory outside every array (illegal address); launched last, newest first: f, g\n"
    "  help:  start a new process; to find the access, run the kernel with weft.sanitize, or the process with "
    "CUDA_LAUNCH_BLOCKING=1",
    900: "error: this call cannot be captured in a CUDA graph\n"
    "  why:   the driver says NAME\n"
    "  help:  call it once before capturing",
    999: "error: the CUDA driver refused `cuMemAlloc`\n  why:   it says NAME; launched last, newest first: f, g",
}


@pytest.mark.parametrize("status", TEXTS)
def test_texts(status: int) -> None:
    assert str(driver_error("cuMemAlloc", status, "NAME", "f, g")) == TEXTS[status]


def test_without_a_driver() -> None:
    if weft.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(TargetError) as caught:
        weft.cuda.device_count()
    assert str(caught.value).startswith("error: kernels cannot run on a GPU here\n  why:   ")
    assert "help:  " in str(caught.value)
