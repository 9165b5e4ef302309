"""The front door: text or Python expressions in, operators out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import ArgumentError
from weft.ir.span import Source
from weft.operators.definition import Definition, ProgramDefinition
from weft.operators.dynamic import check_dynamic
from weft.operators.operator import Operator
from weft.operators.reproduce import faults_reproduced
from weft.operators.scheduling import Numerics, choose_scheduling
from weft.operators.warn import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

Checks = Literal["on", "off"]


@told_at_the_call
def define(
    text: str,
    *,
    entry: str | None = None,
    name: str = "<define>",
    checks: Checks = "on",
    schedule: Any = None,
    numerics: Numerics | None = None,
    dynamic: Sequence[str] = (),
    target: str | None = None,
) -> Operator:
    """The operator that ``text``, in the whiteboard language, defines.

    ``entry`` picks one of several definitions (the last otherwise; ``op.defs`` has all). ``name``
    is how error messages call the text. ``checks="off"`` skips the run-time test of lookup indices.
    ``schedule`` is how it is made fast: "auto", as a model of the machine chooses, is what happens without it;
    "naive" runs the loops as written, "polyhedral" as isl chooses; or a trace or schedule of your own.
    ``numerics="strict"`` keeps every sum in the order of the definition, "fast" may add in another, and "tf32" may
    also round float32 that is multiplied to 10 bits of fraction, on hardware that is quicker so. Of the sizes named in
    ``dynamic``, one compilation serves all values. ``target="c"`` makes C that the system's compiler builds, instead of
    machine code; without it, the code is for where the arrays of a call are.

    >>> relu = weft.define("def relu(float(N) X) -> (Y) { Y(i) = max(X(i), 0) }")
    >>> relu(np.float32([-1, 2]))
    array([0., 2.], dtype=float32)
    """
    if not isinstance(text, str):
        raise ArgumentError(
            f"define takes the text of a program, not {_a(text)}",
            help='weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }")',
        )
    if not isinstance(name, str) or not isinstance(entry, (str, type(None))):
        wrong = "name" if not isinstance(name, str) else "entry"
        raise ArgumentError(f"{wrong}= takes a text, not {_a(name if wrong == 'name' else entry)}")
    definition = Definition(Source(name, text), entry, choose_scheduling(schedule, numerics, target))
    op = Operator(definition, checks=_checks(checks))
    with faults_reproduced(definition, None, op._checks):
        interface = definition.interface  # mistakes in the text are told here, not at the first call
    definition.dynamic = check_dynamic(interface, dynamic)
    warn(interface.remarks)
    return op


@told_at_the_call
def load(path: str | os.PathLike[str], **options: Any) -> Operator:
    """The operator that a file in the whiteboard language defines; the options are those of `define`.

    >>> mm = weft.load("mm.weft")
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except TypeError:
        raise ArgumentError(f"load takes the name of a file, not {_a(path)}", help='weft.load("mm.weft")') from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not text in UTF-8"
        raise ArgumentError(f"cannot read `{os.fspath(path)}`: {reason}") from None
    return define(text, **{"name": Path(path).name, **options})


@told_at_the_call
def operator(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    name: str | None = None,
    checks: Checks = "on",
    schedule: Any = None,
    numerics: Numerics | None = None,
) -> Operator:
    """The operator that computes ``outputs`` (made with `compute`) from ``inputs`` (placeholders and scalars).

    The other arguments are those of `define`.
    """
    from weft.tensor.python_api import build_program

    for role, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, (list, tuple)):
            raise ArgumentError(
                f"the {role} of an operator are a list, not {_a(given)}",
                help="weft.operator([A, B], [C])",
            )
    how = choose_scheduling(schedule, numerics)
    return Operator(ProgramDefinition(build_program(inputs, outputs, name=name), how), checks=_checks(checks))


def _a(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _checks(checks: Checks) -> bool:
    if checks not in ("on", "off"):
        raise ArgumentError(f"checks={checks!r} is not known", help='use checks="on" or checks="off"')
    return checks == "on"
