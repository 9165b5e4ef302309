"""The command line's parser, and the one place where an error becomes an exit code."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from weft.ir.errors import Error
from weft.version import __version__

#: Each is a module of this folder; only the one that is asked for is loaded, unless all are to be listed.
COMMANDS = (
    "run", "show", "explain", "analyze", "tune", "records", "profile", "trace", "passes", "check", "equal", "demo",
    "machine", "cache", "report", "bench", "cuda",
)  # fmt: skip


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description="Tensor math in, fast and explained machine code out.")
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in names:
        module = _command(name)
        summary, _, examples = (module.__doc__ or "").strip().partition("\n")
        raw = argparse.RawDescriptionHelpFormatter
        added = commands.add_parser(
            name, help=summary, description=summary, epilog=examples.strip(), formatter_class=raw
        )
        module.add_arguments(added)
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
    except OSError as error:
        is_output = error.filename is None and error.errno in _OUTPUT_TAKES_NOTHING
        if is_output:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = "cannot write the output" if is_output else "the system refused something that is needed"
        print(Error(what, why=_reason(error)), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


#: What goes wrong with the terminal or the file behind standard output, which has no name here.
_OUTPUT_TAKES_NOTHING = {errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.ENXIO}


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return text if error.filename is None else f"{os.fsdecode(error.filename)}: {text}"
