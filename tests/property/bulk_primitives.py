"""Schedule primitives on small programs in bulk: ``python tests/property/bulk_primitives.py``.

    --seed 1 --count 50000 --seconds 3600    cases 1, 2, 3 ... until either limit
    --failures DIR                           one text for each fault: what happened, and all to see it again
    --jobs 2                                 as many processes side by side
    --replay FILE                            the smallest fault of such a text once more

In the end a table says how often each primitive was tried, accepted and wrong. A seed gives the same case as long as
the generators stay as they are; the text of a fault does beyond that.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from bulk_worker import Ended, Run, add_options, say

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "primitives"), str(HERE), str(HERE.parents[1])]

#: Cases a process runs before another takes over, and seconds after which a silent one is hung.
BATCH, PATIENCE = 100, 300
#: Primitives tried on one program, and for how many accepted steps compiled code runs too.
NAMES, COMPILED = 12, 0.03


def main() -> int:
    options = read_options()
    if options.replay:
        return replay_saved(Path(options.replay))
    if options.worker:
        work(options)
        return 0
    failures = Path(options.failures)
    failures.mkdir(parents=True, exist_ok=True)
    run = Run(options, BATCH, [], lambda ended: tell_death(failures, ended))
    print(report(run.total))
    print(run.repeats())
    return 1 if run.faults else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "primitive_failures")
    parser.add_argument("--replay")
    return parser.parse_args()


def tell_death(failures: Path, ended: Ended) -> None:
    text = f"the process ended with status {ended.status}\n{ended.said}\n"
    (failures / f"{ended.seed}_crash.txt").write_text(text, encoding="utf-8")


def work(options: argparse.Namespace) -> None:
    """Runs the cases one by one, saying before each which it is and after each what it counted."""
    start = time.time()
    for seed in range(options.seed, options.seed + options.count):
        if time.time() - start > options.seconds:
            break
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        say({"seed": seed})
        say({"seed": seed, **run_case(seed, Path(options.failures))})
    faulthandler.cancel_dump_traceback_later()


def run_case(seed: int, failures: Path) -> dict[str, int]:
    """Tries primitives on one program; what is worth counting of it."""
    from primitive_case import make_case
    from primitive_walk import Walk, draw_case

    from weft.schedules.rewrite import PRIMITIVES

    walk = Walk(random.Random(seed), compiled=COMPILED)
    make_case.cache_clear()
    case = draw_case(walk.rng)
    if case is None:
        return {"dropped": 1}
    walk.visit(case, walk.rng.sample(sorted(PRIMITIVES), NAMES))
    if walk.faults:
        from shrink_steps import shrink

        told = [tell(shrink(fault)) for fault in walk.faults[:5]]
        (failures / f"{seed}.txt").write_text("\n\n".join(dict.fromkeys(told)), encoding="utf-8")
    counted = {f"{what} {name}": n for name, counts in walk.counts.items() for what, n in counts.items()}
    return {"cases": 1, "faults": len(walk.faults), **counted}


def tell(fault: object) -> str:
    from shrink_steps import script

    setting, trace = fault.setting, fault.trace  # type: ignore[attr-defined]
    said = json.dumps({"setting": setting, "trace": trace})
    return f"{said}\n\n{fault}\n\n{script(fault)}\n"  # type: ignore[arg-type]


def replay_saved(path: Path) -> int:
    """Whether the first fault of a saved text is still there: 1, and what it is; else 0."""
    from primitive_case import Setting
    from shrink_steps import replay

    from weft.schedules.trace import parse_trace

    saved = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    text, numerics, symbolic, sizes = saved["setting"]
    setting = Setting(text, numerics, symbolic, tuple((name, size) for name, size in sizes))
    found = replay(setting, parse_trace(saved["trace"]).steps)
    print(f"{setting}\n{saved['trace']}\n{found}")
    return 0 if found is None else 1


def report(total: Counter[str]) -> str:
    """Of each primitive, how many steps were tried, accepted and wrong."""
    from weft.schedules.schedule import PRIMITIVES

    lines = [f"{total['cases']} programs, {total['dropped']} dropped, {total['faults']} faults"]
    columns = ("tried", "accepted", "wrong")
    lines.append(f"{'':22}" + "".join(f"{column:>10}" for column in columns))
    for name in (*sorted(PRIMITIVES), ""):
        names = sorted(PRIMITIVES) if name == "" else [name]
        counts = [sum(total[f"{column} {n}"] for n in names) for column in columns]
        lines.append(f"{name or 'all':22}" + "".join(f"{count:10}" for count in counts))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
