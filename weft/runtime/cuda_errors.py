"""What the numbers mean that the CUDA driver answers with when something is wrong."""

from __future__ import annotations

from typing import NamedTuple

from weft.ir.errors import TargetError


class _Meaning(NamedTuple):
    what: str
    why: str
    help: str


_LOST = _Meaning(
    "a kernel on the GPU went wrong, and with it this process's work on that GPU",
    "{cause}; {suspect}",
    "start a new process; to find the access, run the kernel with weft.sanitize, or the process with "
    "CUDA_LAUNCH_BLOCKING=1",
)
_CAUSES = {
    700: "it read or wrote memory outside every array (illegal address)",
    702: "it ran longer than the driver allows",
    710: "an assert in a kernel failed",
    714: "hardware stack error",
    715: "it met an illegal instruction",
    716: "it read or wrote a misaligned address",
    717: "it used an address of the wrong memory space",
    718: "it jumped to an invalid address",
    719: "it failed in a way the driver does not tell",
}
_NO_CODE = _Meaning(
    "this GPU does not run the code that was made for it",
    "the driver says {name}",
    "update NVIDIA's driver, or use an older nvidia-cuda-nvrtc",
)
_CAPTURE = _Meaning(
    "this call cannot be captured in a CUDA graph",
    "the driver says {name}",
    "call it once before capturing",
)
_MEANINGS = {
    2: _Meaning(
        "out of memory on the GPU",
        "{function} could not have what it asked for",
        "free arrays (torch.cuda.empty_cache() gives back what torch keeps), or use smaller sizes",
    ),
    34: _Meaning(
        "kernels cannot run on a GPU here",
        "only a stub of the CUDA driver is loaded",
        "install NVIDIA's driver, and leave the toolkit's stubs out of LD_LIBRARY_PATH",
    ),
    100: _Meaning(
        "kernels cannot run on a GPU here",
        "there is a CUDA driver, but no GPU it can use",
        "look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or pass arrays that are on the CPU",
    ),
    101: _Meaning("there is no such GPU", "the driver says {name}", "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"),
    701: _Meaning(
        "a kernel asks for more than the GPU has",
        "its threads need more registers or shared memory than a multiprocessor has; {suspect}",
        "use fewer threads a block or smaller tiles",
    ),
    **dict.fromkeys((200, 209, 218, 222, 223), _NO_CODE),
    **dict.fromkeys((803, 804), _NO_CODE._replace(what="the CUDA driver and the GPU do not fit together")),
    **dict.fromkeys(range(900, 909), _CAPTURE),
    **dict.fromkeys(_CAUSES, _LOST),
}
_OTHER = _Meaning("the CUDA driver refused `{function}`", "it says {name}; {suspect}", "")


def driver_error(function: str, status: int, name: str, launched: str = "") -> TargetError:
    """The error for ``status``, which the driver calls ``name``, an answer to ``function``.

    ``launched`` names the programs that were launched last, newest first.
    """
    meaning = _MEANINGS.get(status, _OTHER)
    suspect = f"launched last, newest first: {launched}" if launched else "Weft launched nothing before"
    cause = _CAUSES.get(status, "")
    parts = (text.format(function=function, name=name, suspect=suspect, cause=cause) for text in meaning)
    what, why, help = parts
    return TargetError(what, why=why, help=help or None)
