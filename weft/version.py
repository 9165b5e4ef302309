"""The version, and the one way cache keys are made."""

from __future__ import annotations

import functools
import os

try:
    from _blake2 import blake2b  # what hashlib gives, without loading OpenSSL: 3 ms of every start
except ImportError:
    from hashlib import blake2b

__version__ = "0.1.0"
__all__ = ["__version__", "blake2b", "cache_key", "compiler_version"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def cache_key(*parts: str) -> str:
    """A digest of ``parts`` and of the compiler; parts cannot run into one another."""
    digest = blake2b(digest_size=20)
    for part in (compiler_version(), *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def compiler_version() -> str:
    """What tells one compiler from another: the release, and what its files are; two wheels may be of one release."""
    beside = os.path.dirname(_PACKAGE)
    if not os.path.exists(os.path.join(beside, "pyproject.toml")):  # a copy of a source tree has no ``.git``
        installed = _installed_files(os.path.join(beside, f"weft-{__version__}.dist-info", "RECORD"))
        if installed:
            return f"{__version__} {blake2b(installed, digest_size=20).hexdigest()}"
    try:
        return f"{__version__} {'|'.join(sorted(_stamps(_PACKAGE)))}"
    except OSError:  # not in a folder
        return f"{__version__} {_PACKAGE}"


def _installed_files(record: str) -> bytes:
    """What an installer wrote down of the package's files: names and digests. Nothing where it wrote down nothing."""
    try:
        with open(record, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return b""
    return b"\n".join(sorted(x for x in lines if x.startswith(b"weft/") and b".pyc," not in x and b"=" in x))


def _stamps(folder: str) -> list[str]:
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    names += _stamps(entry.path)
            elif not entry.name.endswith(".pyc"):
                info = entry.stat()
                names.append(f"{entry.name} {info.st_mtime_ns} {info.st_size}")
    return names
