"""Errors of users' programs, shown where the user called us: our own frames say nothing to them."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from weft.ir.errors import Error, InternalError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
#: This package.
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def told_at_the_call(fn: Callable[_P, _R]) -> Callable[_P, _R]:
    """``fn``, with tracebacks of errors about users' programs ending at the call of it.

    Faults of Weft itself keep theirs, and with ``WEFT_TRACEBACK=full`` in the environment all do.
    """

    @functools.wraps(fn)
    def told(*args: _P.args, **named: _P.kwargs) -> _R:
        __tracebackhide__ = True  # pytest leaves the frame out
        try:
            return fn(*args, **named)
        except Error as e:
            if isinstance(e, InternalError) or os.environ.get("WEFT_TRACEBACK") == "full":
                raise
            error = e
        raise error.with_traceback(None)

    return told


def methods_told_at_the_call(cls: type[_T]) -> type[_T]:
    """Makes of a class's own methods, but for those that Python or only we call, what `told_at_the_call` makes of
    one."""
    for name, fn in list(vars(cls).items()):
        if isinstance(fn, FunctionType) and (name == "__call__" or not name.startswith("_")):
            setattr(cls, name, told_at_the_call(fn))
    return cls


def tell_at_the_call(namespace: dict[str, Any], names: list[str]) -> None:
    """Makes of the functions called ``names`` in a module what `told_at_the_call` makes of one."""
    functions = {n: namespace[n] for n in names if isinstance(namespace[n], FunctionType)}
    namespace.update({n: told_at_the_call(fn) for n, fn in functions.items()})


def lines_for_notebooks(error: BaseException) -> list[str]:
    """The traceback as IPython shows it: the user's frames, then the message."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(_OURS) and f"{os.sep}IPython{os.sep}" not in f.filename]
    if isinstance(error, InternalError):
        theirs = list(frames)
    listed = "".join(traceback.format_list(theirs)).splitlines()
    return [*listed, *str(error).splitlines()]
