"""The operator library: every kernel written once, in the whiteboard language, in the ``.weft`` files here.

>>> weft.ops.softmax(x)                        # float32
>>> weft.ops.get("softmax", "bfloat16")(x)     # any float type
>>> print(weft.ops.source("softmax")[0])       # the definition

In these files ``float`` stands for the element type a caller picks, and ``accumulator`` for the same
type or float32, whichever is wider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.library import aliases, names, program, source, suggest

#: Makes an operator of a text and the name of its file; the layer that knows operators sets it.
make_operator: Callable[[str, str], Any] | None = None
_made: dict[tuple[str, str], Any] = {}

__all__ = ["aliases", "get", "make_operator", "names", "program", "source"]


def get(name: str, dtype: str = "float32") -> Any:
    """The operator ``name`` for elements of ``dtype``."""
    if (name, dtype) not in _made:
        text, file = source(name, dtype)
        if make_operator is None:
            raise AttributeError("operators are made by the package `weft`: import it first")
        _made[name, dtype] = make_operator(text, file)
    return _made[name, dtype]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or (name not in names() and name not in aliases()):
        raise AttributeError(f"module 'weft.ops' has no kernel {name!r}; {suggest(name)}")
    return get(name)


def __dir__() -> list[str]:
    return [*__all__, *names()]
