"""``python -m bench.polybench [--only gemm lu] [--threads 1 2] [--write]``."""

from __future__ import annotations

import argparse
import os
import sys
import time

from bench.field.conductor import OURS, Conductor, Plan
from bench.field.environments import ROOT
from bench.field.peers import Peer
from bench.field.run import Run, describe_machine
from bench.polybench.programs import standard_programs
from bench.polybench.report import describe, page, summary

_REGISTRY = "bench.polybench.programs"


def _peer(name: str, module: str, imports: tuple[str, ...] = (), packages: tuple[str, ...] = ()) -> Peer:
    return Peer(name, f"bench.polybench.{module}", imports, packages, environment=name, registry=_REGISTRY)


PEERS = (
    _peer(OURS, "weft_auto", ("weft",)),
    _peer("polyhedral", "weft_polyhedral", ("weft", "islpy")),
    _peer("gcc", "gcc_loops"),
    _peer("numba", "numba_loops", ("numba",), ("numba",)),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.polybench")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for 1 thread on a busy machine")
    parser.add_argument("--write", action="store_true", help="keep the result in docs/bench-polybench.md")
    options = parser.parse_args()
    programs = [p for p in standard_programs() if not options.only or any(t in p.family.name for t in options.only)]
    run, start = Run(describe_machine(), os.getloadavg()[0], clock=options.clock), time.monotonic()
    for threads in options.threads:
        conductor = Conductor(PEERS, threads, Plan(turns=7, turn_s=0.05, budget_s=5.0, clock=options.clock))
        run.versions |= conductor.versions
        run.absent |= conductor.absent
        for row in conductor.run(programs):
            run.rows.append(row)
            print(describe(row), flush=True)
    run.minutes = (time.monotonic() - start) / 60
    print("\n".join(summary(run.rows)))
    if options.write:
        run.save(ROOT / "docs" / "bench-polybench.json")
        text = page(run, {p.name for p in programs if p.in_place})
        (ROOT / "docs" / "bench-polybench.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
