"""List the passes: what each needs of a program and gives, when it applies, and what it is for.

weft passes
weft passes --target cuda
weft passes --markdown
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from weft.passes.declare import Pass
from weft.passes.forms import FORMS
from weft.passes.registry import PASSES, find_passes
from weft.target import TARGETS

_COLUMNS = ("pass", "targets", "needs", "gives", "takes", "applies where there are")
_HEAD = ("pass", "needs", "gives", "applies where there are", "targets", "what it does")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", choices=tuple(TARGETS), help="those of one target, in order (default: all)")
    parser.add_argument("--markdown", action="store_true", help="as the table of docs/architecture.md")


def main(options: argparse.Namespace) -> int:
    if options.markdown:
        print("\n".join(markdown_lines()))
    elif options.target is not None:
        print("\n".join(_lines(*find_passes(TARGETS[options.target].pass_names))))
    else:
        print("\n".join(_all_lines()))
    return 0


def _targets(each: Pass) -> str:
    return " ".join(name for name, target in TARGETS.items() if each.name in target.pass_names)


def _folders() -> Iterator[tuple[str, str, list[Pass]]]:
    """Each folder with what it is for and its passes."""
    all(target.pass_names for target in TARGETS.values())  # each registers its own
    for folder in dict.fromkeys(p.folder for p in PASSES.values()):
        purpose = (import_module(folder).__doc__ or "").partition("\n")[0]
        yield folder, purpose, [p for p in PASSES.values() if p.folder == folder]


def _all_lines() -> Iterator[str]:
    for folder, purpose, passes in _folders():
        yield f"{folder.replace('.', '/')}: {purpose}"
        yield from _lines(*passes)
        yield ""
    yield "Forms of a program:"
    yield from (f"  {name:<20}{form.__doc__}" for name, form in FORMS.items())


def _lines(*passes: Pass) -> Iterator[str]:
    """One row a pass, in columns, with what it is for on a line of its own."""
    rows = [_COLUMNS, *((p.name, _targets(p), *map(", ".join, (p.needs, p.gives, p.takes, p.only_if))) for p in passes)]
    used = [n for n in range(len(_COLUMNS)) if any(row[n] for row in rows[1:])]
    widths = {n: max(len(row[n]) for row in rows) for n in used}
    for row, each in zip(rows, (None, *passes)):
        yield ("  " + "  ".join(row[n].ljust(widths[n]) for n in used)).rstrip()
        if each is not None:
            yield f"    {each.purpose}"


def markdown_lines() -> Iterator[str]:
    """A table for each folder, and one of the forms."""
    for folder, purpose, passes in _folders():
        yield from (f"**`{folder.replace('.', '/')}`**: {purpose}", "")
        yield f"| {' | '.join(_HEAD)} |"
        yield "|---" * len(_HEAD) + "|"
        for p in passes:
            forms = (", ".join(names) for names in (p.needs, p.gives, p.only_if))
            yield f"| {' | '.join((f'`{p.name}`', *forms, _targets(p), p.purpose))} |"
        yield ""
    yield from ("| form | what it means |", "|---|---|")
    yield from (f"| {name} | {form.__doc__} |" for name, form in FORMS.items())
