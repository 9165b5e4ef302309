"""Thresholds of the automatic scheduler at other values, and which of them a schedule asked for.

None of those listed says what is legal: whatever they are, results stay what they are.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import weft.auto
from weft.ir.expr import Const

CPU = {
    "contraction": "NEAR", "contraction_dots": "ENOUGH_ROWS", "contraction_fetch": "STREAM_FROM_AFAR",
    "contraction_pack": "MANY_TESTS MOST_APART MOST_STEPS", "contraction_registers": "OVERLAPPED PASS",
    "contraction_strips": "USABLE APART", "contraction_tiles": "SAME_BOUND TESTED NEAR_BYTES PAGE",
    "distribute": "MOST_MEMORY", "draft": "THREAD_WORK", "estimate": "CALL OVERLAP",
    "estimate_compute": "FOLD LONG_BODY IN_FLIGHT STEPPED SCALAR", "fuse": "CHEAP", "fuse_parts": "EXPENSIVE",
    "fuse_tiles": "MOST_ROWS FEWEST_ROWS MOST_VECTORS", "lookups": "AHEAD MOST_VECTORS",
    "parallel_loops": "IMBALANCE MANY", "pointwise": "VECTORS CHUNKS LONG STREAMED", "pools": "LARGEST",
    "product_axes": "GAIN", "recurrence": "WORTH_FOLDING", "rows": "VECTORS LONG_ROW ROWS LONG_SUM",
    "stages": "UNKNOWN_EXTENT", "to_and_fro": "PIECE WORTH_TURNING GAIN", "windows": "ROWS WRITTEN_OUT RECOMPUTED",
}  # fmt: skip
POLYHEDRAL = {
    "polyhedral_finish": "STRIP", "polyhedral_interleave": "OPERATIONS MOST_ROWS", "polyhedral_streams": "MOST_ROWS",
}  # fmt: skip
GPU = {
    "fuse_parts": "EXPENSIVE", "product_axes": "GAIN", "recurrence": "WORTH_FOLDING",
    "gpu.block_plan": "FACTORS BY_WARPS", "gpu.chained_products": "ALIKE",
    "gpu.columns": "SEGMENT CUT_SEGMENT BYTES_AHEAD AHEAD DEPTH SHALLOW FEW_THREADS BLOCKS UNROLLED",
    "gpu.contraction": "WRITTEN_OUT", "gpu.contraction_product": "FEWEST SHALLOWEST BESIDE_FEW THICK",
    "gpu.contraction_spread": "MOST_STAGES",
    "gpu.contraction_tiles": "SHORTEST MANY_COLUMNS MOST_MADE FETCHED_BYTES GROUP",
    "gpu.dots": "MOST_SUMS WRITTEN_OUT FEWEST_THREADS", "gpu.draft": "LATENCY", "gpu.fuse": "FREE CHEAP PER_THREAD",
    "gpu.narrow_factors": "LEAST_DEPTH", "gpu.online_chain": "FEW_ROWS", "gpu.persistent": "MOST_TURNS",
    "gpu.points": "WRITTEN_OUT LONG", "gpu.row_plan": "PIECES WRITTEN_OUT AHEAD FEW_REGISTERS WORDS_AGAIN",
    "gpu.rows": "SHORT BLOCKS SHIFTED_LANES",
    "gpu.scans": "SHORTEST FEW_CHUNKS FEWEST_STEPS IN_CACHE COLUMN_STEPS ROW_STEPS COLUMN_CHUNKS",
    "gpu.scatters": "UPDATE OFTEN", "gpu.scheduler": "SAME_TIME",
    "gpu.tiles": "OWN_SIDE ALONG_READ ALONG_WRITTEN SIDE", "gpu.unfolded": "DEEP SHALLOW",
    "gpu.windows": "WRITTEN_OUT MOST",
}  # fmt: skip
#: These have to be multiples of something: half or twice as much.
IN_STEPS = {
    "BYTES_AHEAD", "CUT_SEGMENT", "FEWEST_THREADS", "FEW_THREADS", "OWN_SIDE", "PAGE", "PIECE", "SEGMENT", "SIDE",
    "STRIP", "UNROLLED",
}  # fmt: skip
_MODULES = [importlib.import_module(m.name) for m in pkgutil.walk_packages(weft.auto.__path__, "weft.auto.")]


def thresholds(listed: Mapping[str, str]) -> list[str]:
    return [f"{module}.{name}" for module, names in listed.items() for name in names.split()]


def value_of(threshold: str) -> int | float:
    module, _, name = threshold.rpartition(".")
    found: int | float = getattr(sys.modules[f"weft.auto.{module}"], name)
    return found


def draw_value(rng: random.Random, threshold: str) -> int | float:
    usual = value_of(threshold)
    if not isinstance(usual, int):
        return usual * rng.choice((0.001, 0.25, 4, 1000))
    if threshold.rpartition(".")[2] in IN_STEPS:
        return rng.choice((usual, max(1, usual // 2), usual * 2))
    return rng.choice((1, 2, max(1, usual // 8), max(1, usual // 2), usual * 2, usual * 64))


@contextmanager
def forced(values: Mapping[str, int | float], every: Collection[str]) -> Iterator[set[str]]:
    """Thresholds ``every`` at ``values``, or as they are, in all modules that import them; what it gives is filled
    with those that are asked for."""
    asked: set[str] = set()
    undo: list[tuple[Any, str, Any]] = [(Const, "__post_init__", _CHECK)]
    Const.__post_init__ = _plainly  # type: ignore[method-assign]
    undo: list[tuple[Any, str, Any]] = [(Const, "__post_init__", Const.__post_init__)]
    Const.__post_init__ = _plainly  # type: ignore[method-assign]
    for threshold in every:
        name, usual = threshold.rpartition(".")[2], value_of(threshold)
        noted = _noted(values.get(threshold, usual), threshold, asked)
        for module in (m for m in _MODULES if getattr(m, name, None) is usual and _has(m, threshold)):
            undo.append((module, name, usual))
            setattr(module, name, noted)
    try:
        yield asked
    finally:
        for module, name, usual in undo:
            setattr(module, name, usual)


_CHECK = Const.__post_init__


def _plainly(constant: Const) -> None:
    """A threshold that becomes a number of the program is one like any other."""
    kind = next((k for k in (bool, int, float) if isinstance(constant.value, k)), None)
    if kind is not None:
        object.__setattr__(constant, "value", kind(constant.value))
    _CHECK(constant)


def _has(module: Any, threshold: str) -> bool:
    """Whether the threshold is the module's own, or imported from where it is."""
    home, _, name = threshold.rpartition(".")
    if module.__name__ == f"weft.auto.{home}":
        return True
    return any(f"from weft.auto.{home} import" in line and name in line for line in _lines(module.__file__))


@cache
def _lines(file: str) -> list[str]:
    """Lines that import: a parenthesis may go on in the next ones."""
    text = Path(file).read_text(encoding="utf-8")
    return re.sub(r"\(([^()]*)\)", lambda m: m[0].replace("\n", " "), text).splitlines()


_ASKED = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "lt",
    "le", "gt", "ge", "eq", "index", "neg", "hash", "bool", "float", "int",
)  # fmt: skip


def _noted(value: int | float, threshold: str, asked: set[str]) -> int | float:
    """``value`` as a number that writes ``threshold`` down when something is computed or decided with it."""
    kind = type(value)

    def noting(operator: str) -> Any:
        plain = getattr(kind, operator)

        def compute(self: Any, *others: Any) -> Any:
            asked.add(threshold)
            return plain(self, *others)

        return compute

    names = [f"__{name}__" for name in _ASKED if hasattr(kind, f"__{name}__")]
    made: int | float = type(kind.__name__, (kind,), {name: noting(name) for name in names})(value)
    asked.discard(threshold)
    return made
