"""Random schedules in bulk, each case in a process that may die: ``python tests/property/bulk_schedules.py``.

    --seed 1 --count 50000 --seconds 3600    cases 1, 2, 3 ... until either limit
    --failures DIR                           one text for each fault: what happened, and all to see it again
    --jobs 2                                 as many processes side by side
    --reasons                                also how often steps were refused for which reason
    --replay FILE                            the kernel and the trace of such a text, on other arguments

A seed gives the same case as long as the generators stay as they are; the text does beyond that. In the end a table
says which share of the schedules has each primitive in it, and how often which was refused.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bulk_worker import Ended, Run, add_options, say

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

#: Cases a process runs before another takes over, and seconds after which a silent one is hung.
BATCH, PATIENCE = 200, 300

#: What differs between two refusals for one reason.
REASON = re.compile(r"`[^`]*`|\(\w+=.*?\)|-?\d+")


def main() -> int:
    options = read_options()
    if options.replay:
        replay(Path(options.replay))
        return 0
    if options.worker:
        work(options)
        return 0
    failures = Path(options.failures)
    failures.mkdir(parents=True, exist_ok=True)
    run = Run(options, BATCH, [], lambda ended: tell_death(failures, ended))
    print(report(run.total))
    if options.reasons:
        print(reasons(run.total))
    print(run.repeats())
    return 1 if run.faults else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "schedule_failures")
    parser.add_argument("--replay")
    parser.add_argument("--reasons", action="store_true", help="how often each reason was given")
    return parser.parse_args()


def tell_death(failures: Path, ended: Ended) -> None:
    where = failures / f"{ended.seed}_crash.txt"
    schedule = where.read_text(encoding="utf-8") if where.exists() else ""
    where.write_text(f"the process ended with status {ended.status}\n{ended.said}\n{schedule}", encoding="utf-8")


def work(options: argparse.Namespace) -> None:
    """Runs the cases one by one, saying before each which it is and after each what it counted."""
    import schedule_cases  # noqa: F401 - what it imports may not be imported while drawing
    from hypothesis.control import BuildContext
    from hypothesis.internal.conjecture.data import ConjectureData

    start = time.time()
    for at in range(options.seed, options.seed + options.count):
        if time.time() - start > options.seconds:
            break
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        say({"seed": at})
        data = ConjectureData(random=random.Random(at))
        with BuildContext(data, is_final=False, wrapped_test=run_case):
            say({"seed": at, **run_case(at, data.draw, Path(options.failures))})
    faulthandler.cancel_dump_traceback_later()


def run_case(seed: int, draw: Any, failures: Path) -> dict[str, int]:
    """Checks one case; what is worth counting of it."""
    from hypothesis.errors import StopTest
    from schedule_cases import Case, NoMeaning, check_case, describe, draw_case, take_steps

    case: Case | None = None
    crash = failures / f"{seed}_crash.txt"
    try:
        case = draw_case(draw)
        take_steps(case, draw, 12)
        crash.write_text(as_text(describe(case)), encoding="utf-8")  # stays where the process dies
        check_case(case)
    except (NoMeaning, StopTest):
        crash.unlink(missing_ok=True)
        return {"dropped": 1}
    except Exception as error:
        described = {} if case is None else dict(describe(case))
        said = "".join(traceback.format_exception(error))[-20000:]
        name = failures / f"{seed}.txt"
        name.write_text(as_text({"error": said, **described}), encoding="utf-8")
        crash.unlink(missing_ok=True)
        return {"faults": 1}
    crash.unlink(missing_ok=True)
    return count_case(case)


def count_case(case: Any) -> dict[str, int]:
    """The primitives accepted at least once, those refused, and the witnesses among the refusals."""
    steps = {step.name for step in case.schedule.trace.steps}
    refused = Counter(error.step for error in case.refusals)
    witnesses = sum(error.witness is not None for error in case.refusals)
    counted = {"cases": 1, "refusals": len(case.refusals), "witnesses": witnesses}
    counted |= {f"+{name}": 1 for name in steps} | {f"-{name}": n for name, n in refused.items()}
    return counted | Counter(f"?{error.step}: {REASON.sub('_', error.why)}" for error in case.refusals)


def as_text(parts: Mapping[str, str]) -> str:
    return "".join(f"--- {heading}\n{text}\n" for heading, text in parts.items())


def report(total: Counter[str]) -> str:
    """How many schedules have each primitive, and how often it was refused."""
    cases = max(total["cases"], 1)
    lines = [f"{total['cases']} schedules, {total['faults']} faults, {total['dropped']} dropped"]
    lines.append(f"{total['refusals']} refusals, {total['witnesses']} with a witness")
    from random_schedules import MAKERS

    for name in sorted(MAKERS, key=lambda name: -total[f"+{name}"]):
        share = 100 * total[f"+{name}"] / cases
        rare = "   rare" if share < 2 else ""
        lines.append(f"{name:24}{share:6.1f} % of schedules{total[f'-{name}']:8} times refused{rare}")
    return "\n".join(lines)


def reasons(total: Counter[str]) -> str:
    return "\n".join(f"{count:6} {key[1:]}" for key, count in total.most_common() if key.startswith("?"))


def replay(path: Path) -> None:
    """Checks the kernel and trace of a saved text on arguments made anew."""
    from schedule_cases import Case, check_case

    sys.path.insert(0, str(HERE.parent / "unit" / "target"))
    from run_compiled import make_arguments

    from weft.ir.expr import Call
    from weft.ir.parser import parse_kernel
    from weft.ir.printer import print_kernel
    from weft.ir.visit import walk
    from weft.schedules.schedule import Schedule
    from weft.schedules.trace import parse_trace

    sections = re.split(r"^--- ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    parts = dict(part.split("\n", 1) for part in sections)
    kernel, trace = parse_kernel(parts["kernel"]), parse_trace(parts["trace"])
    s = Schedule(kernel, numerics=trace.numerics)
    s.apply(trace)
    print(print_kernel(s.kernel))
    exact = not any(isinstance(n, Call) for n in walk(kernel))  # functions differ in the last bits
    check_case(Case(parts["kernel"], kernel, make_arguments(kernel), exact, schedule=s))


if __name__ == "__main__":
    sys.exit(main())
