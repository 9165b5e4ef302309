"""``python -m bench.field``: the same as ``weft bench``."""

from __future__ import annotations

import argparse
import sys

from bench.field.command import run_bench
from weft.cli.bench import add_arguments

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.field")
    add_arguments(parser)
    sys.exit(run_bench(parser.parse_args()))
