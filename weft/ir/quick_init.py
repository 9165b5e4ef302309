"""A constructor for frozen dataclasses with slots that takes half the time: compiling makes nodes by the thousand.

That of `dataclasses` sets each field by name through ``object.__setattr__``; this one has the slots at hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def quick_init(cls: type[T]) -> type[T]:
    """``cls``, a frozen dataclass with slots of its own, with an ``__init__`` that does the same sooner."""
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    scope: dict[str, Any] = {f"set_{f.name}": cls.__dict__[f.name].__set__ for f in fields}
    scope |= {f"default_{f.name}": f.default for f in fields if f.default is not dataclasses.MISSING}
    params = [_parameter(f) for f in fields if not f.kw_only]
    keywords = [_parameter(f) for f in fields if f.kw_only]
    body = [f"set_{f.name}(self, {f.name})" for f in fields]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(["self", *params, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({head}):\n    " + "\n    ".join(body or ["pass"]), scope)
    made = scope["__init__"]
    made.__qualname__, made.__annotations__ = f"{cls.__qualname__}.__init__", cls.__init__.__annotations__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls


def quick_inits(scope: dict[str, Any]) -> tuple[type, ...]:
    """The same for all dataclasses that the module with the names ``scope`` defines; gives these."""
    kinds = [k for k in scope.values() if dataclasses.is_dataclass(k) and k.__module__ == scope["__name__"]]
    return tuple(quick_init(kind) for kind in kinds if isinstance(kind, type))


class _Replacers(dict[type, Callable[..., Any]]):
    """How to make a dataclass anew with other values of some fields, written as Python text when it is first met."""

    def __missing__(self, cls: Any) -> Callable[..., Any]:
        fields = sorted(dataclasses.fields(cls), key=lambda f: bool(f.kw_only))
        head = ", ".join(f"{f.name}=same" for f in fields)
        values = [f"{f.name}={f.name}" if f.kw_only else f.name for f in fields]
        lines = [f"    if {f.name} is same: {f.name} = node.{f.name}" for f in fields]
        scope: dict[str, Any] = {"same": object(), "cls": cls}
        exec(f"def replaced(node, *, {head}):\n" + "\n".join(lines) + f"\n    return cls({', '.join(values)})", scope)
        made: Callable[..., Any] = scope["replaced"]
        self[cls] = made
        return made


_REPLACERS = _Replacers()


def replace(node: T, **changes: Any) -> T:
    """`dataclasses.replace`, sooner: most of what a rewrite makes are statements with another body."""
    return _REPLACERS[type(node)](node, **changes)  # type: ignore[no-any-return]


def _parameter(f: dataclasses.Field[Any]) -> str:
    return f.name if f.default is dataclasses.MISSING else f"{f.name}=default_{f.name}"
