"""List, show, export, import or prune records of tuning, or compare strategies on them without measuring.

weft records list
weft records show 12
weft records export > records.jsonl
weft records import records.jsonl
weft records prune                        # all but those that calls use, and of other compilers
weft records replay --trials 32
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from weft.cli.inputs import format_seconds
from weft.ir.errors import ArgumentError
from weft.runtime.records import Measurement, Records, default_records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument("what", nargs="?", help="show: the number of a record; import: a file of JSON lines")
    parser.add_argument("--trials", type=int, default=32, help="replay: measurements of each strategy (default 32)")
    parser.add_argument("--seed", type=int, default=0, help="replay: of the strategies (default 0)")


def main(options: argparse.Namespace) -> int:
    _ACTIONS[options.action](default_records(), options)
    return 0


def _list(records: Records, options: argparse.Namespace) -> None:
    for m in records.all():
        print(_line(m))


def _line(m: Measurement) -> str:
    taken = "" if m.median is None else format_seconds(m.median)
    ratio = "" if m.ratio is None else f"x{1 / m.ratio:.2f}"
    return f"{m.number:6} {m.ended:10} {taken:>9} {ratio:>6}  {m.name}  {m.task.sizes}  {m.task.threads} threads"


def _show(records: Records, options: argparse.Namespace) -> None:
    found = [m for m in records.all() if str(m.number) == options.what]
    if not found:
        raise ArgumentError(f"there is no record {options.what}", help="`weft records list` says which there are")
    (m,) = found
    print(_line(m))
    print("\n".join(f"{name}: {value}" for name, value in m.task._asdict().items()))
    print(f"strategy: {m.strategy}, seed {m.seed}" + (f"\nwhy: {m.why}" if m.why else ""))
    print(f"\n{m.trace}", end="")


def _export(records: Records, options: argparse.Namespace) -> None:
    for line in records.write_lines():
        print(line)


def _import(records: Records, options: argparse.Namespace) -> None:
    if options.what is None:
        raise ArgumentError("import takes a file of JSON lines", help="weft records import records.jsonl")
    try:
        lines = Path(options.what).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"cannot read {options.what}", why=str(error)) from None
    taken, damaged = records.read_lines(lines)
    print(f"{taken} records taken, {len(lines) - taken - damaged} were there, {damaged} are damaged")
    if damaged:
        print("a damaged line is not as it was exported: nothing of it is used", file=sys.stderr)


def _prune(records: Records, options: argparse.Namespace) -> None:
    every = records.all()
    used = {m.task: m.number for m in every if m.ended in ("best", "automatic")}
    print(f"{records.remove(m.number for m in every if used.get(m.task) != m.number)} records removed")


def _replay(records: Records, options: argparse.Namespace) -> None:
    from weft.tune.replay import compare_strategies

    print(compare_strategies(records.all(), options.trials, options.seed))


_ACTIONS: Mapping[str, Callable[[Records, argparse.Namespace], None]] = {
    "list": _list,
    "show": _show,
    "export": _export,
    "import": _import,
    "prune": _prune,
    "replay": _replay,
}
