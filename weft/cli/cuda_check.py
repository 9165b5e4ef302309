"""`weft cuda check`: a whole program with every access of its kernels watched, or one kernel (with --kernel).

weft cuda check program.cu --html report.html --ignore leak -- 1024 file.txt
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from weft.cli import cuda_kernel
from weft.cli.findings_page import findings_page
from weft.from_cuda.check_program import check_program
from weft.from_cuda.nvcc_options import read_options, split_arguments
from weft.sanitizer.findings import Kind


def check(rest: Sequence[str]) -> int:
    """1 where something was found, else the program's own exit code."""
    given, arguments = split_arguments(rest)
    if any(a == "--kernel" or a.startswith("--kernel=") for a in given):
        return cuda_kernel.check(rest)
    parser = argparse.ArgumentParser(prog="weft cuda check", add_help=False)
    parser.add_argument("--html", type=Path)
    parser.add_argument("--ignore", action="append", default=[], choices=get_args(Kind))
    parser.add_argument("--timeout", type=_seconds)
    ours, build = parser.parse_known_args(given)
    report = check_program(read_options(build), arguments, os.environ, ours.ignore, ours.timeout)
    print(report, file=sys.stderr)
    if ours.html is not None:
        ours.html.write_text(findings_page(report), encoding="utf-8")
    return 1 if report.findings else report.code


def _seconds(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return int(text)
