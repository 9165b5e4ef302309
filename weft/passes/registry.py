"""All passes by name, in folders by subject, and how a list of them runs."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from weft.ir.errors import InternalError, UnsupportedError, did_you_mean
from weft.ir.stmt import Kernel
from weft.passes import caches, gpu_to_cpu, guards, plain, registers, to_grid, vectors
from weft.passes.declare import Context, Pass

PASSES: dict[str, Pass] = {
    p.name: p for folder in (plain, to_grid, gpu_to_cpu, guards, vectors, registers, caches) for p in folder.PASSES
}


def register(passes: Iterable[Pass]) -> None:
    """Passes of a target's own folder, which its list names like any others."""
    PASSES.update({p.name: p for p in passes})


@functools.cache
def find_passes(names: Sequence[str]) -> tuple[Pass, ...]:
    """The passes of these names, in order."""
    unknown = next((name for name in names if name not in PASSES), None)
    if unknown is not None:
        raise InternalError(f"there is no pass `{unknown}`", help=did_you_mean(unknown, PASSES))
    return tuple(PASSES[name] for name in names)


def run_passes(names: Sequence[str], kernel: Kernel, context: Context) -> Kernel:
    """``kernel`` after all passes of these names that have something to do."""
    try:
        for each in find_passes(names):
            if each.has_work(kernel, context):
                kernel = each(kernel, context)
    except RecursionError:
        raise too_deep(kernel) from None
    return kernel


class Step(NamedTuple):
    """One pass of a run: the program after it, and the seconds it took; ``skipped`` where it had nothing to do."""

    by: Pass
    kernel: Kernel
    seconds: float
    skipped: bool


def trace_passes(names: Sequence[str], kernel: Kernel, context: Context) -> Iterator[Step]:
    """What `run_passes` does, step by step."""
    for each in find_passes(names):
        start, skipped = time.perf_counter(), not each.has_work(kernel, context)
        kernel = kernel if skipped else each(kernel, context)
        yield Step(each, kernel, time.perf_counter() - start, skipped)


def too_deep(kernel: Kernel) -> UnsupportedError:
    return UnsupportedError(
        f"kernel `{kernel.name}` is nested too deeply to compile",
        span=kernel.span,
        help="name parts of the expression as temporaries",
    )
