"""Names as the source has them, from those that a linker knows."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from functools import cache


@cache
def demangle(name: str) -> str | None:
    """``k(float*)::s`` for ``_ZZ1kPfE1s``; None for what is no mangled name."""
    library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    return ctypes.string_at(text).decode() if status.value == 0 else None


#: Floats of 16 bits are records in a program, and numbers of the compiler's own where kernels are read. Demanglers
#: older than these numbers know others that nobody has, which stand in for them: how they are mangled and shown.
_SMALL_FLOATS = (("DF16_", "Dh", "half", "__half"), ("DF16b", "Df", "decimal32", "__nv_bfloat16"))


@cache
def programs_name(name: str) -> str | None:
    """What a mangled name of a kernel that was read stands for, as the program calls its types."""
    for mangled, stand_in, _, _ in _SMALL_FLOATS:
        name = name.replace(mangled, stand_in)
    text = demangle(name)
    for _, _, shown, called in _SMALL_FLOATS:
        text = text and re.sub(rf"\b{shown}\b", called, text)
    return text


def source_name(name: str) -> str:
    """``scale<float>`` for ``_Z5scaleIfEvPT_``: what a mangled name stands for, without parameters and type."""
    text = (programs_name(name) or name).replace("(anonymous namespace)::", "")
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0 and at:
            text = text[:at]
            break
    return text.removeprefix("void ") or name


def short_name(name: str) -> str:
    """The last part of what a mangled name stands for."""
    return last_part(demangle(name) or name)


def last_part(name: str) -> str:
    """A name without what it is in, its parameters, template arguments and type."""
    kept, depth = "", 0
    for letter in name.replace("(anonymous namespace)::", ""):
        depth += letter in "<("
        if depth == 0:
            kept += letter
        depth -= letter in ">)"
    return kept.rpartition("::")[2].split(" ")[-1] or name
