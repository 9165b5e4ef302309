"""Print what an issue needs: versions, the machine, settings, and the last faults of Weft's own.

weft report > report.txt
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from weft.cli.cache import describe
from weft.cli.machine import describe_model
from weft.ir.errors import Error
from weft.operators.reproduce import last_faults
from weft.runtime.machine_model import machine_model
from weft.runtime.store import default_store
from weft.runtime.threads import get_num_threads
from weft.version import __version__, cache_key

#: Packages that matter, needed or not.
_PACKAGES = (
    "numpy", "llvmlite", "lark", "ml_dtypes", "torch", "onnx", "islpy", "cuda-bindings", "nvidia-cuda-nvrtc", "ziglang",
)  # fmt: skip
#: Faults that are named.
_MOST = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-machine", dest="machine", action="store_false", help="without figures of the machine")


def main(options: argparse.Namespace) -> int:
    parts = [_versions(), _settings(), *([_machine()] if options.machine else []), _faults()]
    print("\n\n".join("\n".join(lines) for lines in parts))
    return 0


def _versions() -> Iterator[str]:
    yield f"weft {__version__} (sources {cache_key()[:12]})"
    yield f"  Python {platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    yield f"  {platform.platform()}, {'-'.join(platform.libc_ver()) or 'unknown C library'}"
    for name in _PACKAGES:
        try:
            yield f"  {name} {version(name)}"
        except PackageNotFoundError:
            yield f"  {name}: not installed"


def _settings() -> Iterator[str]:
    yield f"settings: {get_num_threads()} threads"
    yield from (f"  {name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("WEFT_"))
    store = default_store()
    yield f"  {'nothing is kept' if store.directory is None else f'{describe(*store.measure())} in {store.directory}'}"


def _machine() -> Iterator[str]:
    try:
        text = describe_model(machine_model())
    except Error as error:  # of the file that describes it
        text = str(error)
    yield "machine:"
    yield from (f"  {line}" for line in text.splitlines())


def _faults() -> Iterator[str]:
    found = last_faults()[:_MOST]
    yield "last faults, each with a script that shows it again:" if found else "no faults of Weft's own are kept"
    for path in found:
        yield f"  {path}"
        yield from (f"    {line}" for line in _what_happened(path))


def _what_happened(path: Path) -> list[str]:
    """The last line of the error that a script tells."""
    try:
        told = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    except (OSError, UnicodeDecodeError):
        return []
    return [told[-1].removeprefix("# ")] if told else []
