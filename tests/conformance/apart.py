"""Runs a test in a process of its own, which may crash or hang without taking the others with it."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any


def warm_up(dynamo: bool = False) -> None:
    """Loads and runs here, on one thread, what else every forked process would load again: 3 s each."""
    import torch

    import weft
    from weft.graph.from_torch import backend

    torch.set_num_threads(1)
    weft.set_num_threads(1)
    x = torch.randn(3, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weft.compile(_warm, (x,))(x)
        if dynamo:
            backend.register()
            torch.compile(_warm, backend="weft")(x)
            torch._dynamo.reset()


def _warm(x: Any) -> Any:
    return (x @ x.mT).softmax(-1) + 1


def _child(fn: Callable[..., Any], args: tuple[Any, ...], pipe: Any) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pipe.send(fn(*args))


def run_apart(fn: Callable[..., Any], *args: Any, limit: float) -> tuple[str, Any]:
    """``("done", result)``, or ``hang`` or ``crash`` and why, of a call in a forked process.

    What does not end is tried once more: on a busy machine it may only have waited.
    """
    found = _run_once(fn, *args, limit=limit)
    return _run_once(fn, *args, limit=limit) if found[0] == "hang" else found


def _run_once(fn: Callable[..., Any], *args: Any, limit: float) -> tuple[str, Any]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(fn, args, theirs))
    process.start()
    theirs.close()
    try:
        found = ("done", ours.recv()) if ours.poll(limit) else ("hang", f"no end after {limit:.0f} s")
    except EOFError:
        process.join(5)
        found = ("crash", f"exit code {process.exitcode}")
    process.kill()
    process.join()
    return found
