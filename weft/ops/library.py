"""Finds kernels in the ``.weft`` files by name, and fills in their element type."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weft.ir.dtype import parse_dtype
from weft.ir.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from weft.tensor.program import TensorProgram

_FOLDER = Path(__file__).parent
_ALIASES = {
    "tmm": "transposed_matmul",
    "bmm": "batched_matmul",
    "tbmm": "transposed_batched_matmul",
    "fc": "fully_connected",
    "indexed_gather": "gather",
    "triple_hadamard": "hadamard3",
    "concatenate": "concat",
}


@cache
def _index() -> dict[str, tuple[str, str]]:
    """Each kernel's text, with the comment above it, and the name of its file."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(_FOLDER.glob("*.weft")):
        for text in re.split(r"\n{2,}", path.read_text(encoding="utf-8")):
            match = re.search(r"^def (\w+)", text, re.MULTILINE)
            if match:
                found[match[1]] = (text.strip() + "\n", path.name)
    return found


def names() -> list[str]:
    """Every kernel of the library."""
    return sorted(_index())


def aliases() -> dict[str, str]:
    """Other names that kernels are known by."""
    return dict(_ALIASES)


def source(name: str, dtype: str = "float32") -> tuple[str, str]:
    """The text that defines ``name`` for ``dtype``, after the definitions it calls; and the name of its file."""
    element = parse_dtype(dtype)
    if element is None or not element.is_float or element.lanes > 1:
        raise ArgumentError(
            f"`{dtype}` is not an element type of the library", help="use float16, bfloat16, float32 or float64"
        )
    text, file = _text(_ALIASES.get(name, name))
    wide = "float32" if element.is_narrow_float else dtype
    return re.sub(r"\baccumulator\b", wide, re.sub(r"\bfloat\b", dtype, text)), file


def suggest(name: str) -> str:
    """What to try instead of a name the library does not have."""
    return did_you_mean(name, [*_index(), *_ALIASES]) or "see weft.ops.names()"


def _text(name: str) -> tuple[str, str]:
    index = _index()
    if name not in index:
        raise ArgumentError(f"the library has no kernel `{name}`", help=suggest(name))
    text, file = index[name]
    called = [c for c in dict.fromkeys(re.findall(r"^\s*\w+ = (\w+)\(", text, re.MULTILINE)) if c in index]
    return "\n".join([*(_text(c)[0] for c in called), text]), file


def program(name: str, dtype: str = "float32") -> TensorProgram:
    """The tensor program of a kernel, with ``dtype`` for its element type."""
    from weft.lang.parse import parse_programs

    text, file = source(name, dtype)
    return parse_programs(text, file)[_ALIASES.get(name, name)]
