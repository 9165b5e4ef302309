"""Whether a schedule means what its program means: by the verifier, the interpreter, and compiled code."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from primitive_case import Call, Case, differ, fresh_outputs, run

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "target"))
from run_compiled import Fenced, Runner

from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import Call as FunctionCall
from weft.ir.verify import find_problems
from weft.ir.visit import walk
from weft.operators.schedule import OperatorSchedule
from weft.target.cpu.host import host_machine


class Found(NamedTuple):
    """``wrong`` results, an ``error`` of the program, an ``invalid`` one, an ``internal`` error; and what it was."""

    kind: str
    why: str


def judge(case: Case, after: OperatorSchedule) -> Found | None:
    """What is wrong with a schedule of the case, if anything, as the interpreter finds."""
    problems = find_problems(after.kernel)
    if problems:
        return Found("invalid", problems[0].text)
    for call in case.calls:
        try:
            found = run(after.kernel, call.arguments, call.sizes, fresh_outputs(case.start))
        except ProgramError as error:
            return Found("error", told(call, str(error)))
        except Exception as error:
            return Found("internal", told(call, where(error)))
        why = differ(call.expected, found, case.setting.numerics)
        if why is not None:
            return Found("wrong", told(call, why))
    return None


def judge_compiled(case: Case, after: OperatorSchedule) -> Found | None:
    """What is wrong with the machine code of the schedule, which the interpreter found right."""
    functions = any(isinstance(n, FunctionCall) for n in walk(after.kernel))  # differ in the last bits
    numerics = "fast" if functions else case.setting.numerics
    try:
        runner = Runner(after.kernel, host_machine(), fast=case.setting.numerics != "strict")
    except Exception as error:
        return Found("internal", f"compiled: {where(error)}")
    for call in case.calls:
        outputs = {
            p.name: Fenced(a.reshape(-1))
            for p, a in zip(after.kernel.params, call.arguments)
            if p.name in call.expected
        }
        status = runner(*[_argument(p, a, outputs) for p, a in zip(after.kernel.params, call.arguments)])
        if status != 0 or not all(o.is_whole() for o in outputs.values()):
            return Found("compiled", told(call, f"status {status}, or written outside an output"))
        why = differ(call.expected, {name: o.array for name, o in outputs.items()}, numerics)
        if why is not None:
            return Found("compiled", told(call, why))
    return None


def _argument(param: Any, value: Any, outputs: dict[str, Fenced]) -> Any:
    return outputs[param.name].array if isinstance(param, Buffer) and param.name in outputs else value


def told(call: Call, why: str) -> str:
    return f"{call.mood}, {dict(call.sizes)}: {why}"


def where(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error!r:.500} in {Path(at.filename).name}, line {at.lineno}"
