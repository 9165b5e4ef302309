"""Runs a list of passes and checks what each declares of itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.passes.declare import Context, Pass
from weft.passes.forms import FORMS

#: Conditions of passes that are not about the program: without them a pass would find work that it must not do.
NOT_OF_PROGRAMS = {"fast numerics"}


class FormError(AssertionError):
    """A pass is not what it says of itself."""


def check_forms(kernel: Kernel, passes: Sequence[Pass], context: Context, needs: Collection[str]) -> Kernel:
    """``kernel`` after ``passes``: before each what it needs is there, after each what was given so far."""
    held: set[str] = set()
    for each in passes:
        missing = set(each.needs) - held
        if missing:
            raise FormError(f"{each.name} needs what nothing before it gives: {sorted(missing)}")
        kernel = checked_step(kernel, each, context)
        held = (held - set(each.takes)) | set(each.gives)
        for form in held:
            against = FORMS[form](kernel)
            if against is not None:
                raise FormError(f"after {each.name} the program has not `{form}`: {against}")
        verify(kernel)
    if missing := set(needs) - held:
        raise FormError(f"the target needs what no pass gives: {sorted(missing)}")
    return kernel


def checked_step(kernel: Kernel, each: Pass, context: Context) -> Kernel:
    """``kernel`` after one pass; where that is skipped, it would not have changed anything."""
    if each.has_work(kernel, context):
        return each(kernel, context)
    if not NOT_OF_PROGRAMS & set(each.only_if) and each(kernel, context) != kernel:
        raise FormError(f"{each.name} is skipped although it has something to do: {each.only_if}")
    return kernel
