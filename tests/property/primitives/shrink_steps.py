"""A fault with fewer steps, smaller sizes, known sizes, strict numerics: as long as it stays one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from primitive_case import Setting, make_case
from primitive_judge import Found, judge, judge_compiled, where
from primitive_walk import Fault

import weft
from weft.ir.errors import ScheduleError
from weft.schedules.trace import Step, Trace, parse_trace


def replay(setting: Setting, steps: Sequence[Step]) -> Found | None:
    """What is wrong after ``steps``, if they are legal."""
    try:
        case = make_case(setting)
    except weft.Error:
        return None
    s, names = case.start.copy(), dict[str, str]()
    s._trying = True
    try:
        for step in steps:
            s._replay(step, names)
    except ScheduleError:
        return None
    except Exception as error:
        return Found("internal", where(error))
    return judge(case, s) or judge_compiled(case, s)


def shrink(fault: Fault) -> Fault:
    """The smallest fault that is found near it: ``fault`` itself where it does not show again."""
    setting, steps = fault.setting, parse_trace(fault.trace).steps
    again = replay(setting, steps) is not None
    while again:
        again = False
        for smaller, fewer in [*_smaller(setting, steps)]:
            found = replay(smaller, fewer)
            if found is not None:
                setting, steps, again = smaller, fewer, True
                fault = Fault(fewer[-1].name, *found, setting, str(Trace(steps, setting.numerics)))
                break
    return fault


def _smaller(setting: Setting, steps: tuple[Step, ...]) -> Iterator[tuple[Setting, tuple[Step, ...]]]:
    if len(steps) > 1:
        yield from ((setting, (*steps[:n], *steps[n + 1 :])) for n in range(len(steps)))
    if setting.symbolic:
        yield setting._replace(symbolic=False), steps
    for n, (name, size) in enumerate(setting.sizes):
        for less in range(size):
            yield setting._replace(sizes=(*setting.sizes[:n], (name, less), *setting.sizes[n + 1 :])), steps
    if setting.numerics != "strict":
        yield setting._replace(numerics="strict"), tuple(replace(step) for step in steps)


def script(fault: Fault) -> str:
    """A Python program that shows the fault's schedule; ``weft`` is all it needs."""
    setting = fault.setting
    shapes = "" if setting.symbolic else ", **shapes"
    return "\n".join(
        (
            "import weft",
            f"f = weft.define({setting.text!r})",
            *([] if setting.symbolic else [f"shapes = {_shapes(setting)!r}"]),
            f"s = weft.schedule(f, numerics={setting.numerics!r}{shapes})",
            f"s.apply('''{fault.trace}''')",
            "print(s.kernel)",
        )
    )


def _shapes(setting: Setting) -> dict[str, tuple[int, ...]]:
    kernel = make_case(setting).start.kernel
    inputs = [b for b in kernel.buffers if b.name not in kernel.outputs]
    return {b.name: tuple(int(size.value) for size in b.shape) for b in inputs}  # type: ignore[attr-defined]
