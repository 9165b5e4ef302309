"""Measure Weft against torch, onnxruntime, halide and others on this machine; takes a checkout of the project.

weft bench --quick                        # every workload, the peers that prepare quickly
weft bench --only matmul softmax --threads 2
weft bench --random-shapes 7 --write      # other sizes, drawn by a seed
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import weft
from weft.ir.errors import UnsupportedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="workloads whose name has one of these, or groups that start so",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=None, metavar="N", help="numbers of threads (1 2)")
    parser.add_argument(
        "--peers", nargs="+", default=None, metavar="PEER", help="against whom (all that are installed)"
    )
    parser.add_argument("--quick", action="store_true", help="short turns, and only peers that prepare quickly")
    parser.add_argument("--random-shapes", type=int, metavar="SEED", help="the same operators at other sizes")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for 1 thread on a busy machine")
    parser.add_argument("--install", action="store_true", help="first install peers that are missing, under .bench")
    parser.add_argument("--write", action="store_true", help="keep the result as a page in docs/")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="JSON", help="report on an earlier run")


def main(options: argparse.Namespace) -> int:
    root = Path(weft.__file__).resolve().parent.parent
    if not (root / "bench" / "field" / "command.py").exists():
        raise UnsupportedError(
            "the bench is not part of an installed Weft",
            why=f"there is no folder `bench` beside the package in {root}",
            help="run it in a checkout of the project: make bench",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return int(importlib.import_module("bench.field.command").run_bench(options))
