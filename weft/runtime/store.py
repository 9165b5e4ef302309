"""The artifact store: compiled code kept on disk between processes.

An artifact is found by a key that names everything its contents depend on. What comes back
is exactly what was put, or nothing: each file carries a digest over its key and contents,
so a truncated, damaged or foreign file counts as missing and is removed. Files appear
whole (written aside, then renamed), so processes may share a directory. A directory that
cannot be used, or that other users could write code into, is not used; nothing fails. Where others can write to a
folder above it, they could put one of theirs in its place: only plain files of this user that no other can write to
are read.

``WEFT_CACHE_DIR`` names the directory (default: ``weft`` in the user's cache directory),
``WEFT_CACHE=off`` does without.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import stat
import struct
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from weft.locks import new_lock
from weft.version import blake2b

_MAGIC = b"WEFTART1"
_DIGEST = 32
_SUFFIX = ".weft"
_TRIM_EVERY = 64
_STALE_SECONDS = 3600
_counter = itertools.count()


class Artifact(NamedTuple):
    """Facts that go to JSON and back, and named bytes."""

    metadata: Mapping[str, Any]
    blobs: Mapping[str, bytes] = MappingProxyType({})


class ArtifactStore:
    """Artifacts in ``directory``; None, or a directory that cannot be used, keeps nothing.

    >>> store.put("key", Artifact({"entry": "mm"}, {"object": code}))
    >>> store.get("key").blobs["object"]
    """

    def __init__(self, directory: str | os.PathLike[str] | None, *, limit: int = 1 << 30) -> None:
        self._directory = None if directory is None else Path(directory)
        self._limit = limit
        self._state: bool | None = None if directory is not None else False
        self._identity: tuple[int, int] | None = None
        self._lock = new_lock()
        self._puts = 0

    @property
    def limit(self) -> int:
        """How many bytes are kept, roughly."""
        return self._limit

    @property
    def directory(self) -> Path | None:
        """Where artifacts are kept, or None where nothing is."""
        return self._directory if self._usable() else None

    def get(self, key: str) -> Artifact | None:
        """What was put under ``key``, unchanged, or None."""
        if not self._usable():
            return None
        path = self._path(key)
        data = _read_own(path)
        artifact = None if data is None else decode_artifact(key, data)
        if artifact is None and data is not None:
            _unlink(str(path))
        return artifact

    def put(self, key: str, artifact: Artifact) -> None:
        """Keeps ``artifact``; a disk that is full or read-only is reported once and otherwise ignored."""
        if not self._usable():
            return
        data = encode_artifact(key, artifact)
        if len(data) > self._limit:
            return
        path = self._path(key)
        aside = path.with_name(f".{os.getpid()}-{threading.get_ident()}-{next(_counter)}.tmp")
        try:
            _write_file(aside, data)
            os.replace(aside, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            self._give_up(str(error), keep_reading=True)
            return
        self._count_put()

    def remove(self, key: str) -> None:
        """Forgets ``key``, for contents that turned out not to be usable."""
        if self._usable():
            with contextlib.suppress(OSError):
                self._path(key).unlink()

    def trim(self) -> None:
        """Removes what was not used for longest until the store is well under its limit, and stale leftovers."""
        if not self._usable():
            return
        with contextlib.suppress(OSError):
            entries = self._entries()
            for path, info in entries:
                if path.endswith(".tmp") and time.time() - info.st_mtime > _STALE_SECONDS:
                    _unlink(path)
            kept = sorted(((i.st_mtime, i.st_size, p) for p, i in entries if p.endswith(_SUFFIX)))
            total = sum(size for _, size, _ in kept)
            for _, size, path in kept if total > self._limit else ():
                _unlink(path)
                total -= size
                if total <= self._limit * 4 // 5:
                    break

    def clear(self) -> tuple[int, int]:
        """Removes everything; how many artifacts that were, and of how many bytes."""
        removed = self.measure()
        for path, _ in self._entries():
            if path.endswith((_SUFFIX, ".tmp")):
                _unlink(path)
        return removed

    def measure(self) -> tuple[int, int]:
        """How many artifacts there are, and of how many bytes."""
        sizes = [info.st_size for path, info in self._entries() if path.endswith(_SUFFIX)]
        return len(sizes), sum(sizes)

    def _entries(self) -> list[tuple[str, os.stat_result]]:
        """The files of the folder; none where another folder is in its place by now."""
        if not self._usable() or self._identity != _identity(self._directory):
            return []
        return _scan(self._directory)

    def _path(self, key: str) -> Path:
        assert self._directory is not None
        return self._directory / (blake2b(key.encode(), digest_size=20).hexdigest() + _SUFFIX)

    def _usable(self) -> bool:
        if self._state is None:
            with self._lock:
                if self._state is None:
                    problem = _prepare_directory(self._directory)
                    self._state, self._identity = problem is None, _identity(self._directory)
                    if problem is not None:
                        self._give_up(problem)
        return self._state

    def _give_up(self, problem: str, *, keep_reading: bool = False) -> None:
        if not keep_reading:
            self._state = False
        _warn_once(f"weft keeps no compiled code in {self._directory}: {problem}")

    def _count_put(self) -> None:
        with self._lock:
            self._puts += 1
            due = self._puts % _TRIM_EVERY == 1
        if due:
            self.trim()


def encode_artifact(key: str, artifact: Artifact) -> bytes:
    """The file for ``artifact``: magic, digest, then key, metadata and blobs, each with its length."""
    parts = [key.encode(), json.dumps(dict(artifact.metadata), sort_keys=True).encode()]
    for name, blob in artifact.blobs.items():
        parts += [name.encode(), blob]
    body = b"".join(struct.pack("<Q", len(p)) + p for p in parts)
    return _MAGIC + _digest(body) + body


def decode_artifact(key: str, data: bytes) -> Artifact | None:
    """The artifact in ``data``, or None where it is not a whole, unchanged artifact of ``key``."""
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _digest(body):
        return None
    try:
        parts = _split(body)
        if parts[0] != key.encode():
            return None
        metadata = json.loads(parts[1])
        names = [p.decode() for p in parts[2::2]]
    except (struct.error, IndexError, ValueError):
        return None
    return Artifact(metadata, dict(zip(names, parts[3::2]))) if isinstance(metadata, dict) else None


def _split(body: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(body):
        (size,) = struct.unpack_from("<Q", body, at)
        at += 8
        if at + size > len(body):
            raise IndexError("a part reaches beyond the end")
        parts.append(body[at : at + size])
        at += size
    return parts


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST, person=_MAGIC).digest()


def _read_own(path: Path) -> bytes | None:
    """What is in a plain file of this user that no other can write to; None where it is anything else."""
    try:
        handle = os.open(path, _READING)
    except OSError:
        return None
    with open(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or _others_write(info):
            return None
        with contextlib.suppress(OSError, NotImplementedError):
            os.utime(handle if os.utime in os.supports_fd else path)  # trimming removes what was not used for longest
        try:
            return file.read()
        except OSError:
            return None


#: No waiting for whoever might write to a pipe, and no way to another file.
_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def _others_write(info: os.stat_result) -> bool:
    """Whether a file or folder belongs to another user, or others may write to it."""
    return hasattr(os, "geteuid") and (info.st_uid != os.geteuid() or bool(info.st_mode & 0o022))


def _write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
    finally:
        os.close(handle)


def _prepare_directory(directory: Path | None) -> str | None:
    """Makes ``directory``; the reason it must not be used, or None."""
    assert directory is not None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = directory.stat()
    except (OSError, ValueError) as error:
        return str(error)
    if not stat.S_ISDIR(info.st_mode):
        return "it is not a directory"
    if hasattr(os, "geteuid"):
        if info.st_uid != os.geteuid():
            return "it belongs to another user"
        if info.st_mode & 0o022:
            return f"other users can write to it (mode {stat.S_IMODE(info.st_mode):o}); chmod go-w it"
    return None


def _identity(directory: Path | None) -> tuple[int, int] | None:
    """What tells a folder from any other, whatever it is called."""
    try:
        info = os.stat(directory or "")
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino


def _scan(directory: Path | None) -> list[tuple[str, os.stat_result]]:
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                names.append((entry.path, entry.stat(follow_symlinks=False)))
    return names


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_warned: set[str] = set()


def _warn_once(text: str) -> None:
    """One warning a process is enough: compiling again is slower, never wrong."""
    if not _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def default_store() -> ArtifactStore:
    """The store that ``WEFT_CACHE`` and ``WEFT_CACHE_DIR`` say, the same object while they say the same."""
    if os.environ.get("WEFT_CACHE", "").lower() in ("off", "0", "no", "false"):
        return _store_at(None)
    return _store_at(os.environ.get("WEFT_CACHE_DIR") or _user_cache_directory())


@functools.lru_cache(maxsize=8)
def _store_at(directory: str | None) -> ArtifactStore:
    return ArtifactStore(directory)


def _user_cache_directory() -> str | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "weft") if os.path.isabs(base) else None
