"""What lowering makes of many programs, before and after a change of the passes.

    python -m bench.replay record /tmp/corpus -m pytest -q tests/unit/passes tests/golden
    python -m bench.replay lower /tmp/corpus /tmp/before         (in the checkout before the change, then in the other)
    python -m bench.replay compare /tmp/before /tmp/after --show 3

The corpus is every program that a Python command lowers, in its own process, as it was before the first pass. What is
compared is loop programs as their target's emitter takes them. A difference is told with what stands in each innermost
loop: operations, tests and accesses.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import pickle
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.ir.errors import Error
from weft.ir.expr import Binary, Call, Compare, Load, Select
from weft.ir.nesting import statements_in
from weft.ir.printer import print_kernel
from weft.ir.stmt import For, If, Kernel, Store
from weft.ir.visit import walk

TARGETS = ("cpu", "c", "cuda")
#: What is counted of an innermost loop.
COUNTED = (Binary, Call, Compare, Load, Select, If, Store)


def record(folder: Path, command: list[str]) -> None:
    """Runs ``command`` (``-m module args`` or ``file args``) and keeps what it lowers."""
    folder.mkdir(parents=True, exist_ok=True)
    for target in TARGETS:
        lower = import_module(f"weft.target.{target}.lower")
        vars(lower)["lower_kernel"] = _kept(lower.lower_kernel, target, folder)
    is_module = command[0] == "-m"
    sys.argv = command[1:] if is_module else command
    (runpy.run_module if is_module else runpy.run_path)(sys.argv[0], run_name="__main__")


def _kept(lower: Callable[..., Kernel], target: str, folder: Path) -> Callable[..., Kernel]:
    @functools.wraps(lower)
    def keep(kernel: Kernel, *args: Any, **options: Any) -> Kernel:
        about = f"{print_kernel(kernel)} {options}"
        name = f"{target}-{kernel.name[:40]}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"
        if not (file := folder / name).exists():
            file.write_bytes(pickle.dumps((target, kernel, args, options)))
        return lower(kernel, *args, **options)

    return keep


def lower_all(corpus: Path, out: Path) -> None:
    """Each program of ``corpus`` as the passes of this checkout make it, as text."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(corpus.iterdir()):
        target, kernel, args, options = pickle.loads(file.read_bytes())
        try:
            text = _shown(import_module(f"weft.target.{target}.lower").lower_kernel(kernel, *args, **options))
        except Error as error:
            text = f"error: {error}"
        (out / file.name).write_text(text)


def _shown(kernel: Kernel) -> str:
    loops = [n for n in statements_in(kernel.body, For) if not statements_in(n.body, For)]
    return "\n".join([print_kernel(kernel), *(f"# {_size(loop)}" for loop in loops), ""])


def _size(loop: For) -> str:
    kinds = Counter(type(n).__name__ for n in walk(loop) if isinstance(n, COUNTED))
    return f"{loop.kind} {loop.var.name}: " + " ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))


def compare(before: Path, after: Path, show: int) -> int:
    """The number of programs that differ; of the first ``show`` of them, how."""
    names = sorted({f.name for folder in (before, after) for f in folder.iterdir()})
    differ = [name for name in names if _text(before / name) != _text(after / name)]
    for name in differ[:show]:
        old, new = (_text(folder / name).splitlines() for folder in (before, after))
        print(name, *difflib.unified_diff(old, new, "before", "after", n=2, lineterm=""), sep="\n", end="\n\n")
    print(f"{len(differ)} of {len(names)} programs differ", *differ, sep="\n  ")
    return len(differ)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for name, folders in (("record", ["corpus"]), ("lower", ["corpus", "out"]), ("compare", ["before", "after"])):
        action = actions.add_parser(name)
        for folder in folders:
            action.add_argument(folder, type=Path)
    actions.choices["record"].add_argument("command", nargs=argparse.REMAINDER)
    actions.choices["compare"].add_argument("--show", type=int, default=0)
    args = parser.parse_args()
    if args.action == "record":
        record(args.corpus, args.command)
    elif args.action == "lower":
        lower_all(args.corpus, args.out)
    else:
        sys.exit(compare(args.before, args.after, args.show) > 0)


if __name__ == "__main__":
    main()
