"""The version, and the one way cache keys are made."""

from __future__ import annotations

import hashlib

__version__ = "0.1.0"


def cache_key(*parts: str) -> str:
    """A digest of ``parts`` and of the version; parts cannot run into one another."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (__version__, *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
