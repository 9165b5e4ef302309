"""``python -m bench.spellings [cpu|cuda] [--kind NAME] [--drawn N] [--minutes M]``: a table of kinds and spellings.

The last column of a kind is its slowest spelling's time by its quickest's; 1.15 is what is promised.
"""

from __future__ import annotations

import argparse
import sys
import time

import weft
from bench.spellings.kinds import KINDS
from bench.spellings.measure import Found, measure

PROMISED = 1.15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spellings", description=__doc__)
    parser.add_argument("device", nargs="?", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (may be repeated)")
    parser.add_argument("--drawn", type=int, help="spellings drawn by chance beside those by hand")
    parser.add_argument("--minutes", type=float, default=7.0, help="when to stop compiling")
    options = parser.parse_args()
    if options.device == "cpu":
        weft.set_num_threads(1)
    names = options.kind or list(KINDS)
    start = time.perf_counter()
    print(
        f"| kind ({options.device}) | spellings | programs | quickest, us | slowest by quickest |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    found = []
    for n, name in enumerate(names):
        share = start + 60 * options.minutes * (n + 1) / len(names)
        found.append(measure(name, KINDS[name], options.device, options.drawn, share))
        print(_line(found[-1]), flush=True)
    print()
    for kind in found:
        print("\n".join(_details(kind)))
    slow = [k for k in found if not k.worst <= PROMISED]
    wrong = [r for k in found for r in k.rows if r.problem]
    print(f"{len(slow)} of {len(found)} kinds beyond {PROMISED}; {len(wrong)} spellings without a time; "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    return 1 if slow or wrong else 0


def _line(found: Found) -> str:
    quickest = min((r.seconds for r in found.timed), default=float("nan")) * 1e6
    programs = len({r.code for r in found.timed})
    return f"| {found.kind} | {len(found.rows)} | {programs} | {quickest:.1f} | {found.worst:.2f} |"


def _details(found: Found) -> list[str]:
    """Spellings slower than promised or without a time, with their text."""
    quickest = min((r.seconds for r in found.timed), default=float("nan"))
    lines = []
    for row in found.rows:
        if row.problem or row.seconds > PROMISED * quickest:
            what = row.problem or f"{row.seconds * 1e6:.1f} us, {row.seconds / quickest:.2f} of the quickest"
            lines += [f"{found.kind}, {row.spelling.name}: {what}", row.spelling.text, ""]
    return lines


if __name__ == "__main__":
    sys.exit(main())
