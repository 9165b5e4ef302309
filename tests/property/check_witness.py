"""Whether a refusal tells the truth: the two iterations it names exist, touch the element, and would change places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from touched_elements import really_conflict, touched_elements

from weft.ir.errors import ScheduleError
from weft.ir.stmt import For, Kernel
from weft.poly.leaves import CONCURRENT
from weft.poly.verdict import Witness
from weft.schedules.find import all_loops
from weft.schedules.rewrite import PRIMITIVES


def check_witness(error: ScheduleError, arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> bool:
    """Fails where a refusal is about two iterations that do not conflict; whether that could be tried.

    ``error`` carries the ``kernel`` it was about and the ``step`` with its ``arguments``.
    """
    witness = error.witness
    assert (witness is not None) == (error.kind == "dependence"), f"{error.kind}: {error}"
    if not isinstance(witness, Witness) or not witness.certain:
        return False
    if any(witness.sizes.get(name, value) != value for name, value in scalars.items()):
        return False  # a witness for other sizes than those at hand
    _check_order(error, witness)
    kernel = _kernel_after(error) if witness.after else error.kernel  # type: ignore[attr-defined]
    touched = touched_elements(kernel, arrays, scalars)
    if touched is not None:
        assert really_conflict(touched, witness.first, witness.second, witness.element), error
    return touched is not None


def _kernel_after(error: ScheduleError) -> Kernel:
    """The program as the refused step would leave it."""
    name = error.step  # type: ignore[attr-defined]
    args, kwargs = error.arguments  # type: ignore[attr-defined]
    rewrite = PRIMITIVES[name].rewrite
    known = {k: v for k, v in kwargs.items() if v is not None}
    readers = {"readers": tuple(known["readers"])} if "readers" in known else {}
    return rewrite(error.kernel, *args, **known | readers).kernel  # type: ignore[attr-defined, no-any-return]


def _check_order(error: ScheduleError, witness: Witness) -> None:
    """Whether the step swaps the two, for steps of which the names of the loops tell it."""
    step, (args, _) = error.step, error.arguments  # type: ignore[attr-defined]
    loops = {f.var.name: f for f in all_loops(error.kernel)}  # type: ignore[attr-defined]
    common = [name for name in witness.first if name in witness.second and name in loops]
    if step in ("parallel", "vectorize", "bind") and args[0] in common:
        outer = common[: common.index(args[0])]
        assert all(witness.first[name] == witness.second[name] for name in outer), error
        assert witness.first[args[0]] != witness.second[args[0]], error
    elif step == "reorder" and set(args) <= set(common):
        _check_swapped(error, witness, common, [loops[name] for name in args])


def _check_swapped(error: ScheduleError, witness: Witness, old: list[str], named: list[For]) -> None:
    names = iter(loop.var.name for loop in named)
    order = {loop.var.name for loop in named}
    new = [next(names) if name in order else name for name in old]
    first = next(name for name in old if witness.first[name] != witness.second[name])
    assert witness.first[first] < witness.second[first], error
    now = next(name for name in new if witness.first[name] != witness.second[name])
    concurrent = any(loop.kind in CONCURRENT for loop in named)
    assert concurrent or witness.first[now] > witness.second[now], error
