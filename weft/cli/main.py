"""The command line's parser, and the one place where an error becomes an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from weft.ir.errors import Error

#: Each is a module of this folder; only the one that is asked for is loaded, unless all are to be listed.
COMMANDS = ("run", "show", "explain", "profile", "trace", "passes", "check", "demo", "machine", "bench", "cuda")


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description="Tensor math in, fast and explained machine code out.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in names:
        module = _command(name)
        summary = (module.__doc__ or "").strip().splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    return parser


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"weft.cli.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it succeeded, 1 for an error of the user's, 2 for wrong usage, 130 when interrupted."""
    given = sys.argv[1:] if argv is None else argv
    options = build_parser(given[:1] if given and given[0] in COMMANDS else COMMANDS).parse_args(given)
    try:
        code = int(_command(options.command).main(options))
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
