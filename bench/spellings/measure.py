"""Spellings of one kind compiled, compared with the plain one's result and timed in turns.

Spellings that come to one program share one time. On a CPU it is the processor's time of one thread that counts, which
other processes disturb less.
"""

from __future__ import annotations

import hashlib
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from bench.spellings.kinds import Kind, Spelling, arguments, spellings

#: Results differ by at most this part of the largest: half a bfloat16's rounding twice over, sums in another order.
TOLERANCE = {"float32": 2e-4, "bfloat16": 2e-2}
ROUNDS, TURN_S = 15, 0.005


@dataclass
class Row:
    """Microseconds of a spelling; ``code`` tells machine codes apart, ``problem`` says why there is no time."""

    spelling: Spelling
    code: str = ""
    seconds: float = 0.0
    first_s: float = 0.0
    problem: str = ""


@dataclass
class Found:
    kind: str
    rows: list[Row] = field(default_factory=list)

    @property
    def timed(self) -> list[Row]:
        return [r for r in self.rows if not r.problem]

    @property
    def worst(self) -> float:
        times = [r.seconds for r in self.timed]
        return max(times) / min(times) if times else float("nan")


def measure(name: str, kind: Kind, device: str, drawn: int | None, until: float) -> Found:
    """Stops compiling at the time ``until``; what was compiled is timed."""
    dtype, shapes = ("float32", kind.cpu) if device == "cpu" else ("bfloat16", kind.gpu)
    place = on_cpu if device == "cpu" else on_gpu
    args, synchronize = place(arguments(kind, shapes), dtype)
    found, calls, plain = Found(name), dict[str, Callable[[], Any]](), None
    for spelling in spellings(kind, shapes, dtype, drawn):
        row = Row(spelling)
        found.rows.append(row)
        if time.perf_counter() > until and plain is not None:
            row.problem = "no time was left to compile it"
            continue
        try:
            op = weft.define(spelling.text)
            row.code = _code(op, device, args)
            if row.code not in calls:
                start = time.perf_counter()
                result = as_numpy(op(*args))
                row.first_s = time.perf_counter() - start
                plain = result if plain is None else plain
                row.problem = _difference(result, plain, dtype)
                if not row.problem:
                    calls[row.code] = _call(op, args)
        except Exception as problem:  # a spelling that cannot be compiled is told, the others are timed
            row.problem = f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"
    times = in_turns(calls, synchronize, time.process_time if device == "cpu" else time.perf_counter)
    for row in found.rows:
        if not row.problem:
            row.seconds = times[row.code]
    return found


def _call(op: Any, args: Sequence[Any]) -> Callable[[], Any]:
    return lambda: op(*args)


def _code(op: Any, device: str, args: Sequence[Any]) -> str:
    """A digest of the program that is handed to the machine's compiler, names aside."""
    names: dict[str, str] = {}
    text = op.show("loops" if device == "cpu" else "cuda", *args)
    text = re.sub(r"\b[A-Za-z_]\w*", lambda m: names.setdefault(m[0], f"n{len(names)}"), text)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _difference(result: np.ndarray[Any, Any], plain: np.ndarray[Any, Any], dtype: str) -> str:
    if result.shape != plain.shape or not np.isfinite(result).all():
        return "another shape than the plain spelling's, or no numbers"
    error = float(np.abs(result - plain).max(initial=0) / max(1e-30, float(np.abs(plain).max(initial=0))))
    return "" if error <= TOLERANCE[dtype] else f"differs from the plain spelling by {error:.1e}"


def on_cpu(arrays: list[np.ndarray[Any, Any]], dtype: str) -> tuple[list[Any], Callable[[], None]]:
    return list(arrays), lambda: None


def on_gpu(arrays: list[np.ndarray[Any, Any]], dtype: str) -> tuple[list[Any], Callable[[], None]]:
    import torch

    return [torch.from_numpy(a).to("cuda", getattr(torch, dtype)) for a in arrays], torch.cuda.synchronize


def as_numpy(result: Any) -> np.ndarray[Any, Any]:
    result = result[0] if isinstance(result, tuple) else result
    if hasattr(result, "detach"):
        result = result.detach().float().cpu().numpy()
    return np.asarray(result, np.float32)


def in_turns(
    calls: dict[str, Callable[[], Any]], synchronize: Callable[[], None], clock: Callable[[], float]
) -> dict[str, float]:
    """Median seconds of each, some calls at a time, one after another."""

    def span(call: Callable[[], Any], count: int) -> float:
        synchronize()
        start = clock()
        for _ in range(count):
            call()
        synchronize()
        return (clock() - start) / count

    counts = {}
    for name, call in calls.items():
        span(call, 2)
        counts[name] = max(1, min(500, round(TURN_S / max(span(call, 3), 1e-6))))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(span(call, counts[name]))
    return {name: statistics.median(found) for name, found in taken.items()}
