"""The command line's parser, and the one place where an error becomes an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from weft.cli import bench, check, cuda, demo, explain, machine, passes, run, show, trace
from weft.ir.errors import Error

COMMANDS = {
    "run": run,
    "show": show,
    "explain": explain,
    "trace": trace,
    "passes": passes,
    "check": check,
    "demo": demo,
    "machine": machine,
    "bench": bench,
    "cuda": cuda,
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description="Tensor math in, fast and explained machine code out.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip().splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it succeeded, 1 for an error of the user's, 2 for wrong usage, 130 when interrupted."""
    options = build_parser().parse_args(argv)
    try:
        code = int(COMMANDS[options.command].main(options))
        sys.stdout.flush()
        return code
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (head, less) went away: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # the terminal or the file behind standard output
        print(f"error: cannot write the output\n  why:   {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
