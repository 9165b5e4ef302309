"""Names that device code of one unit shares with others', where it is to be linked (`-rdc=true`).

Without, every unit has what it defines to itself, as with nvcc. Functions get names of their own, since host code may
have the same ones; variables lose the name of their unit.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

_DEFINED = re.compile(r"^define (?!internal|private|linkonce|weak)(?![^@\n]*\bptx_kernel\b)[^@\n]*@([\w.$]+)\(", re.M)
#: Names with `__` are the implementation's, as `__cxa_pure_virtual`.
_DECLARED = re.compile(r"^declare [^@\n]*@(?!llvm\.|weft_|__|cuda[A-Z])([\w.$]+)\(", re.M)
_VARIABLE = re.compile(r"^@([\w.$]+) = (?!internal|private|appending)[^\n]*\baddrspace\([14]\)", re.M)


def linked_functions(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Functions that ``text``, clang's for the device, defines for all units, and those that it has from others."""
    declared = frozenset(name for name in _DECLARED.findall(text) if not _is_of_the_c_library(name))
    return frozenset(_DEFINED.findall(text)), declared


@cache
def _is_of_the_c_library(name: str) -> bool:
    """Device code has these from the host, as the functions of mathematics."""
    return any(hasattr(ctypes.CDLL(library), name) for library in ("libm.so.6", "libc.so.6"))


def linked_variables(text: str) -> frozenset[str]:
    """Variables that all units share: not those that are a thread's own."""
    return frozenset(_VARIABLE.findall(text)) - {"threadIdx", "blockIdx", "blockDim", "gridDim"}


def show_functions(text: str, names: frozenset[str]) -> str:
    """``text`` in which functions ``names`` are called as no other is, and seen by other objects."""
    if not names:
        return text
    found = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    text = re.sub(rf"@(?:{found})(?![\w.$])", lambda m: f"@weft_device.{m.group()[1:]}", text)
    return re.sub(r"^define internal ([^@\n]*@weft_device\.)", r"define \1", text, flags=re.M)
