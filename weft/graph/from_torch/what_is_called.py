"""What a program is traced from: a module, and torch's choice of types at the time."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from weft.graph.from_torch.edge import torch


def as_module(fn: Any) -> Any:
    """``fn``, or, where it is a plain function, a module of it, which has the modules that it calls as its own."""
    if isinstance(fn, torch().nn.Module):
        return fn

    class Function(torch().nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, module in _modules_of(fn).items():
                self.add_module(name, module)

        def forward(self, *args: Any, **named: Any) -> Any:
            return fn(*args, **named)

    return Function()


def _modules_of(fn: Any) -> dict[str, Any]:
    """What a function can call by a name of its own: the object of a method, what `functools.partial` holds, variables
    around a function, and globals that it names."""
    if isinstance(fn, functools.partial):
        reached = {**{f"argument_{n}": a for n, a in enumerate(fn.args)}, **fn.keywords, **_modules_of(fn.func)}
        reached.setdefault("function", fn.func)
    else:
        plain = getattr(fn, "__func__", fn)
        code, known = getattr(plain, "__code__", None), getattr(plain, "__globals__", {})
        reached = {name: known.get(name) for name in getattr(code, "co_names", ())}
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            free = getattr(code, "co_freevars", ())
            reached |= {name: cell.cell_contents for name, cell in zip(free, getattr(plain, "__closure__", None) or ())}
        reached["owner"] = getattr(fn, "__self__", None)
    modules = {name: value for name, value in reached.items() if isinstance(value, torch().nn.Module)}
    return {name if name.isidentifier() else "module": module for name, module in modules.items()}


@functools.cache
def autocast_enabled() -> Any:
    """A function that says whether torch chooses types automatically, on any device; None where it has no such one."""
    return getattr(torch()._C, "_is_any_autocast_enabled", None)


def autocast_types() -> tuple[Any, ...]:
    """What torch chooses automatically now, by device; nothing where it does not."""
    ask = autocast_enabled()
    if ask is not None and not ask():
        return ()
    devices = [device for device in ("cpu", "cuda") if torch().is_autocast_enabled(device)]
    return tuple((device, torch().get_autocast_dtype(device)) for device in devices)
