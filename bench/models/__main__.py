"""``python -m bench.models [--set unseen] [--only resnet] [--batch 1 8] [--threads 1 2] [--peers eager] [--cold]
[--write]``.

Rows that are measured take the place of those on the page; the others stay.
"""

from __future__ import annotations

import argparse
import sys
import time

from bench.field.environments import ROOT, install, python_for
from bench.field.run import describe_machine
from bench.models.conductor import ModelConductor, ModelPlan
from bench.models.peers import PEERS
from bench.models.report import ModelRun, describe_row, page, summary
from bench.models.workloads import NAMES, SETS, UNSEEN_NAMES, ModelWorkload

PAGE = ROOT / "docs" / "bench-models.md"
KEPT = PAGE.with_suffix(".json")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--set", default="developed", choices=[*SETS], help="which list of models")
    parser.add_argument("--only", nargs="*", default=[], help="models whose names contain one of these")
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="*", default=[p for p in PEERS if p != "weft"], choices=[*PEERS])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--numerics", default="fast", help="what Weft is allowed: fast, strict or winograd")
    parser.add_argument("--cold", action="store_true", help="compile anew, and again in a second process")
    parser.add_argument("--install", action="store_true", help="install peers that are missing, by name")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.install:
        install_environments(options.peers)
    run = measure(options)
    print(*summary(run.rows), sep="\n")
    if options.write:
        write(run)
    return 1 if any("wrong result" in r.missing.get("weft", "") for r in run.rows) else 0


def install_environments(peers: list[str]) -> None:
    for name in ("weft", *peers):
        if python_for(PEERS[name]) is None:
            print(f"installing {name} ...", file=sys.stderr, flush=True)
            install(PEERS[name])


def measure(options: argparse.Namespace) -> ModelRun:
    run = ModelRun(describe_machine())
    chosen = [
        n for n in SETS[options.set] if not options.only or any(part.lower() in n.lower() for part in options.only)
    ]
    workloads = [
        ModelWorkload(n, b, options.device, options.dtype, options.numerics) for n in chosen for b in options.batch
    ]
    plan = ModelPlan(options.peers, options.turns, options.seconds, options.cold)
    saved = ROOT / "bench" / "results" / time.strftime("models-%Y%m%d-%H%M%S.json")
    for threads in options.threads:
        conductor = ModelConductor(plan, threads)
        for row in conductor.run(workloads):
            run.versions |= conductor.versions
            run.put(row)
            run.save(saved)
            print(describe_row(row), flush=True)
    return run


def _is_asked_for(name: str, only: list[str]) -> bool:
    return not only or any(part.lower() in name.lower() for part in only)


def write(run: ModelRun) -> None:
    """The page with these rows, and those of runs before that were not measured again."""
    whole = ModelRun.load_from(KEPT) if KEPT.exists() else ModelRun(run.machine)
    whole.machine, whole.versions = run.machine, {**whole.versions, **run.versions}
    for row in run.rows:
        whole.put(row)
    places = {name: n for n, name in enumerate((*NAMES, *UNSEEN_NAMES))}
    whole.rows.sort(key=lambda r: (r.numerics != "fast", places[r.model], r.batch, r.threads))
    whole.save(KEPT)
    PAGE.write_text(page(whole, PAGE.read_text() if PAGE.exists() else ""))
    print(f"written to {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
