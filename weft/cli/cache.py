"""Say what is kept of compiled code and where, or forget all of it.

weft cache
weft cache clear
"""

from __future__ import annotations

import argparse

from weft.runtime.store import default_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="default: show")


def main(options: argparse.Namespace) -> int:
    store = default_store()
    if store.directory is None:
        print("no compiled code is kept (WEFT_CACHE=off, or a folder that cannot be used)")
    elif options.action == "clear":
        print(f"{describe(*store.clear())} removed from {store.directory}")
    else:
        print(f"{describe(*store.measure())} in {store.directory}, {store.limit >> 20} MiB at most")
    return 0


def describe(count: int, size: int) -> str:
    return f"{count} artifact{'s' * (count != 1)} ({size / (1 << 20):.1f} MiB)"
