"""Parse a program, infer its types, ranges and shapes, and list every problem."""

from __future__ import annotations

import argparse

from weft.cli.inputs import read_source
from weft.ir.errors import Warning
from weft.lang.check import check_text
from weft.lang.parse import parse_programs
from weft.tensor.printer import print_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument("files", nargs="+", type=Path, help="programs in the whiteboard language")
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    parser.add_argument("--strict", action="store_true", help="warnings are problems too")


def main(options: argparse.Namespace) -> int:
    problems = 0
    for path in options.files:
        text = read_source(path)
        errors = check_text(text, path.name)
        problems += len(errors)
        for error in errors:
            print(error)
        for program in () if errors else parse_programs(text, path.name).values():
            if not options.quiet:
                print(print_program(program))
            for remark in program.remarks:
                print(f"{'error' if options.strict else 'warning'}: {Warning(*remark)}")
            problems += len(program.remarks) if options.strict else 0
    if problems:
        print(f"{problems} problem{'s' * (problems != 1)}")
    elif not options.quiet:
        print("no problems")
    return 1 if problems else 0
