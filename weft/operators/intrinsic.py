"""`weft.intrinsic`: hardware instructions declared by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.errors import ArgumentError
from weft.ir.hardware import Emit, Hardware, declare
from weft.ir.printer import print_kernel
from weft.operators.operator import Operator
from weft.passes.lower_blocks import lower_blocks
from weft.target.cpu.intrinsics import TARGETS
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize


def intrinsic(
    name: str,
    meaning: str | Operator,
    emit: Mapping[str, Emit],
    *,
    needs: Sequence[str] = (),
    exact: bool = True,
) -> Hardware:
    """Declares an instruction that schedules can `tensorize` loops to.

    ``meaning`` is a loop program (``kernel name(...) { ... }``), a tensor definition
    (``def name(...) -> (...) { ... }``) or an operator; ``emit["cpu"]`` a function of a builder and
    the operands by name, or LLVM text with ``%name`` for each. ``needs`` are features of the machine
    (LLVM's names); without them the loops run. ``exact=False`` says the bits may differ from the
    meaning's, which only ``numerics="fast"`` allows.
    """
    if not name.isidentifier():
        raise ArgumentError(f"`{name}` cannot be the name of an intrinsic", help="use a plain identifier")
    unknown = [target for target in emit if target not in TARGETS]
    if unknown:
        raise ArgumentError(f"there is no target `{unknown[0]}`", help=f"use one of: {', '.join(TARGETS)}")
    hardware = Hardware(name, _meaning_text(name, meaning), dict(emit), tuple(needs), exact)
    _ = hardware.meaning  # so that what is wrong with it is told here
    return declare(hardware)


def _meaning_text(name: str, meaning: str | Operator) -> str:
    if isinstance(meaning, str) and not meaning.lstrip().startswith("def"):
        return meaning
    if isinstance(meaning, str):
        from weft.operators.define import define

        meaning = define(meaning, name=f"intrinsic {name}")
    return print_kernel(lower_blocks(lower(normalize(meaning.program), checks=False)))
