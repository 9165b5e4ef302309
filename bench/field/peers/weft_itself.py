"""Weft: the text of a definition in, and whatever schedule it chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import weft
from bench.field.clock import now
from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload

_PROGRAMS = Path(__file__).resolve().parent.parent / "programs.weft"


def version() -> str:
    return str(weft.__version__)


def definition(name: str) -> str:
    """The text of ``name``: of the library, or of this bench."""
    for text in re.split(r"\n{2,}", _PROGRAMS.read_text(encoding="utf-8")):
        if re.search(rf"^def {name}\(", text, re.MULTILINE):
            return text
    return str(weft.ops.source(name)[0])


def define(workload: Workload) -> weft.Operator:
    """The operator as anyone would define it: schedule and numerics are Weft's own choice."""
    return weft.define(definition(workload.family.definition), name=workload.family.definition)


def arguments(workload: Workload, inputs: Mapping[str, Array]) -> list[Any]:
    given = {**inputs, **workload.numbers()}
    return [given[a.name] for a in workload.family.arguments]


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    weft.set_num_threads(threads)
    _load_compiler()
    start = now()
    op, args = bound(define(workload), workload, inputs)
    result = op(*args)
    seconds = {"cold": now() - start, "schedule": _choosing(op, args)}
    out = result if isinstance(result, tuple) else (result,)
    given: Any = out if len(out) > 1 else out[0]
    calls = {"fresh": lambda: op(*args), "filling": lambda: op(*args, out=given)}
    return Prepared(calls, lambda: _filled(op, args, out), seconds)


def bound(op: weft.Operator, workload: Workload, inputs: Mapping[str, Array]) -> tuple[weft.Operator, list[Any]]:
    """The operator with its constants given once, as peers are given theirs; and what is left to pass."""
    constants = {name: inputs[name] for name in workload.family.constants}
    args = arguments(workload, inputs)
    if not constants:
        return op, args
    return op.bind(**constants), [v for a, v in zip(workload.family.arguments, args) if a.name not in constants]


def _choosing(op: weft.Operator, args: list[Any]) -> float:
    """Seconds it takes to choose a schedule: those to get to one, less those to get to the program it is for."""
    taken = []
    for candidate in (op, op.with_schedule("naive")):
        start = now()
        candidate.schedule(*args)
        taken.append(now() - start)
    return max(0.0, taken[0] - taken[1])


def _filled(op: Any, args: list[Any], out: tuple[Array, ...]) -> tuple[Array, ...]:
    for array in out:
        array[...] = 0
    results = op(*args, out=out if len(out) > 1 else out[0])
    return results if isinstance(results, tuple) else (results,)


def _load_compiler() -> None:
    """Parser and code generator are loaded, so that what is timed is compilation."""
    weft.define("def load(float(N) X) -> (Y) { Y(i) = X(i) + 1 }")(np.zeros(8, np.float32))
