"""Parse a program, infer its types, ranges and shapes, and list every problem."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from weft.cli.inputs import read_pairs, read_source, sizes_given
from weft.ir.errors import ArgumentError, Warning
from weft.ir.remark import Remark
from weft.lang.check import check_text
from weft.lang.parse import parse_programs
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.remark_sizes import possible_remarks, remarks_at
from weft.tensor.specialize import solve_sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument("files", nargs="+", type=Path, help="programs in the whiteboard language")
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    parser.add_argument("--strict", action="store_true", help="warnings are problems too")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="a size at which to look for warnings"
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a .npy file whose shape gives sizes, or a number for a scalar",
    )


def main(options: argparse.Namespace) -> int:
    texts = [(path.name, read_source(path)) for path in options.files]
    errors = [check_text(text, name) for name, text in texts]
    programs = [() if e else tuple(parse_programs(text, name).values()) for (name, text), e in zip(texts, errors)]
    if not any(errors):
        _check_names([program for found in programs for program in found], options)
    problems = 0
    for told, found in zip(errors, programs):
        problems += len(told)
        for error in told:
            print(error)
        for program in found:
            if not options.quiet:
                print(print_program(program))
            problems += _check_remarks(program, options)
    if problems:
        print(f"{problems} problem{'s' * (problems != 1)}")
    elif not options.quiet:
        print("no problems")
    return 1 if problems else 0


def _check_remarks(program: TensorProgram, options: argparse.Namespace) -> int:
    """Prints the remarks that hold, and without sizes, as notes, what may; how many are problems."""
    at_sizes = _at_sizes(program, options)
    sure = [*program.remarks, *(at_sizes or ())]
    for remark in sure:
        print(f"{'error' if options.strict else 'warning'}: {Warning(*remark)}")
    for remark in () if at_sizes is not None or options.quiet else possible_remarks(program):
        print(f"note: {Warning(*remark)}")
    return len(sure) if options.strict else 0


def _at_sizes(program: TensorProgram, options: argparse.Namespace) -> tuple[Remark, ...] | None:
    """The remarks that hold at the sizes that are given; None where these are not all of the program's."""
    values, shapes = sizes_given(options)
    named = {v.name for v in (*program.sizes, *program.constants)}
    known = {name: value for name, value in values.items() if name in named}
    if not named <= known.keys() and not any(b.name in shapes for b in program.inputs):
        return None
    return remarks_at(program, solve_sizes(program, shapes, known))


def _check_names(programs: Sequence[TensorProgram], options: argparse.Namespace) -> None:
    """That every size and argument on the command line is one of some program."""
    owned = {p.name for program in programs for p in (*program.sizes, *program.params)}
    for flag, what, pairs in (("--size", "size", options.size), ("--arg", "parameter", options.arg)):
        for name in read_pairs(pairs, flag):
            if name not in owned:
                raise ArgumentError(f"no program has a {what} `{name}`")
