"""Records of what was measured: which trace of which program took how long on which machine, and how it ended.

A row a measurement, in SQLite with a write-ahead log: several processes may read and write at once, and one that is
killed loses at most the row it was writing. Each row carries a digest of itself, so one that was changed on the disk
counts as missing; a file that is damaged altogether is set aside, and what can still be read of it is taken over. The
order of rows is that of their numbers, never of clocks. A disk that is full, or a folder that cannot be used, is
reported once; what was measured is then known to this process alone.

The file lies beside compiled code (`weft.runtime.store`): ``WEFT_CACHE_DIR`` says where, ``WEFT_CACHE=off`` does
without.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir.errors import Error
from weft.locks import new_rlock
from weft.runtime.store import default_store
from weft.version import blake2b

if TYPE_CHECKING:
    import sqlite3

#: Version of the table; files of older ones are taken over, of newer ones left alone.
SCHEMA = 2
FILE = "records.sqlite"
#: How a measurement may end. ``best``: it is what calls use from then on; ``automatic``: what Weft chooses by itself.
ENDS = (
    "best", "automatic", "won", "lost", "undecided",
    "refused", "wrong", "crashed", "hung", "memory", "outside", "failed",
)  # fmt: skip
#: Seconds to wait for another process that writes.
_PATIENCE = 10.0


class Task(NamedTuple):
    """What is tuned: a record is used for the same alone."""

    program: str
    sizes: str
    machine: str
    threads: int
    version: str


class Measurement(NamedTuple):
    """One candidate: its trace, seconds of its runs in turns with those of what it was compared ``against``."""

    task: Task
    trace: str
    ended: str
    seconds: tuple[float, ...] = ()
    against: tuple[float, ...] = ()
    why: str = ""
    name: str = ""
    strategy: str = ""
    seed: int = 0
    at: float = 0.0
    number: int = 0

    @property
    def ratio(self) -> float | None:
        """How many times as long it takes: the median over the turns."""
        turns = sorted(a / b for a, b in zip(self.seconds, self.against) if b > 0)
        return None if not turns else (turns[(len(turns) - 1) // 2] + turns[len(turns) // 2]) / 2

    @property
    def median(self) -> float | None:
        """Seconds of a run in the middle of all."""
        return sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else None

    def to_json(self) -> dict[str, Any]:
        facts = {**self.task._asdict(), **{k: v for k, v in self._asdict().items() if k not in ("task", "number")}}
        return {**facts, "digest": _digest(facts)}

    @staticmethod
    def from_json(data: Any) -> Measurement:
        """The measurement that `to_json` gave; raises `ValueError` where it is not as it was written."""
        try:
            facts = {name: data[name] for name in _COLUMNS}
            if data["digest"] != _digest(facts) or facts["ended"] not in ENDS:
                raise ValueError("its digest does not fit")
            task = Task(*(facts.pop(name) for name in Task._fields))
            facts["seconds"], facts["against"] = tuple(facts["seconds"]), tuple(facts["against"])
            return Measurement(task, **facts)
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is not a measurement: {error}") from None


_COLUMNS = (*Task._fields, *(f for f in Measurement._fields if f not in ("task", "number")))
_LISTS = ("seconds", "against")
_TABLE = f"""CREATE TABLE IF NOT EXISTS measurements (number INTEGER PRIMARY KEY AUTOINCREMENT,
    {", ".join(_COLUMNS)}, digest)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_task ON measurements (program, sizes, machine, threads, version)"
_INSERT = f"INSERT INTO measurements ({', '.join(_COLUMNS)}, digest) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"


def _digest(facts: dict[str, Any]) -> str:
    text = json.dumps([facts[name] for name in _COLUMNS], sort_keys=True, default=list)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _row(made: Measurement) -> list[Any]:
    facts = made.to_json()
    return [json.dumps(facts[n]) if n in _LISTS else facts[n] for n in (*_COLUMNS, "digest")]


def _unrow(names: Iterable[str], row: Iterable[Any]) -> Measurement:
    facts = dict(zip(names, row))
    for name in _LISTS:
        facts[name] = json.loads(facts[name])
    return Measurement.from_json(facts)._replace(number=facts["number"])


class Records:
    """The measurements in one file; None, or a file that cannot be used, keeps them in this process alone.

    >>> records.add(Measurement(task, str(trace), "won", (1.1e-3, 1.2e-3), (1.4e-3, 1.4e-3)))
    >>> records.best(task)
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._here: list[Measurement] = []
        self._lock = new_rlock()
        self._open: tuple[int, sqlite3.Connection] | None = None
        self._is_lost = path is None

    @property
    def is_there(self) -> bool:
        """Whether there may be any."""
        return bool(self._here) or (self.path is not None and self.path.exists())

    def add(self, made: Measurement) -> None:
        """Keeps ``made``, for good as soon as this returns."""
        made = made if made.at else made._replace(at=time.time())
        with self._lock:
            if not self._try(lambda file: _insert(file, [made])):
                self._here.append(made)

    def all(self, task: Task | None = None, program: str | None = None) -> list[Measurement]:
        """In the order they were made; those of one task, or of one program."""
        wanted = {} if task is None else task._asdict()
        wanted |= {} if program is None else {"program": program}
        with self._lock:
            found: list[Measurement] = []
            self._try(lambda file: found.extend(_select(file, wanted)), reading=True)
            here = [m for m in self._here if all(getattr(m.task, k) == v for k, v in wanted.items())]
            return found + here

    def best(self, task: Task) -> Measurement | None:
        """What calls of ``task`` use, where that is not what Weft chooses by itself."""
        decided = [m for m in self.all(task) if m.ended in ("best", "automatic")]
        return decided[-1] if decided and decided[-1].ended == "best" else None

    def write_lines(self) -> Iterator[str]:
        """Every measurement as a line of JSON."""
        return (json.dumps(m.to_json()) for m in self.all())

    def read_lines(self, lines: Iterable[str]) -> tuple[int, int]:
        """Takes measurements from lines of JSON that are not there yet; how many, and how many lines are damaged."""
        known = {_digest(m.to_json()) for m in self.all()}
        taken, damaged = [], 0
        for line in filter(str.strip, lines):
            try:
                made = Measurement.from_json(json.loads(line))
            except ValueError:
                damaged += 1
                continue
            if (digest := _digest(made.to_json())) not in known:
                known.add(digest)
                taken.append(made)
        with self._lock:
            if not self._try(lambda file: _insert(file, taken)):
                self._here += taken
        return len(taken), damaged

    def remove(self, numbers: Iterable[int]) -> int:
        """Forgets the measurements of these numbers; how many there were."""
        given = [(n,) for n in numbers]
        done: list[int] = []

        def delete(file: sqlite3.Connection) -> None:
            with file:
                done.append(file.executemany("DELETE FROM measurements WHERE number = ?", given).rowcount)

        with self._lock:
            self._try(delete)
        return sum(done)

    def close(self) -> None:
        with self._lock:
            if self._open is not None and self._open[0] == os.getpid():
                self._open[1].close()
            self._open = None

    def _try(self, work: Any, *, reading: bool = False) -> bool:
        """Whether ``work`` was done on the file; one that is damaged is set aside, and it is done on a new one."""
        if self._is_lost or self.path is None or (reading and not self.path.exists()):
            return False
        import sqlite3

        for is_last in (False, True):
            try:
                work(self._connection())
                return True
            except (sqlite3.OperationalError, OSError, _TooNewError) as error:
                if not is_last and "malformed" in str(error):
                    self._set_aside()
                    continue
                self._give_up(str(error))
                return False
            except sqlite3.DatabaseError:
                if is_last:
                    break
                self._set_aside()
        self._give_up("the file is damaged")
        return False

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None and self._open[0] == os.getpid():
            return self._open[1]
        assert self.path is not None
        file = _connect(self.path)
        self._open = (os.getpid(), file)
        return file

    def _set_aside(self) -> None:
        """A damaged file goes out of the way; what is whole in it is taken over."""
        assert self.path is not None
        self.close()
        damaged = self.path.with_name(f"{self.path.name}.damaged-{os.getpid()}")
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.replace(f"{self.path}{end}", f"{damaged}{end}")
        saved = _salvage(damaged)
        warnings.warn(
            f"records of tuning in {self.path} are damaged: {len(saved)} could be read; the file is now {damaged}",
            RuntimeWarning,
            stacklevel=5,
        )
        with contextlib.suppress(Exception):
            _insert(self._connection(), saved)

    def _give_up(self, problem: str) -> None:
        """This process goes on by itself; a disk that is full may have room again later."""
        if problem not in _warned:
            _warned.add(problem)
            warnings.warn(f"weft keeps no records of tuning in {self.path}: {problem}", RuntimeWarning, stacklevel=5)
        self._is_lost = "newer" in problem


_warned: set[str] = set()


class _TooNewError(Error):
    """A file of a Weft that is newer than this one."""


def _connect(path: Path) -> sqlite3.Connection:
    import sqlite3

    path.touch(mode=0o600, exist_ok=True)
    file = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    file.text_factory = _text
    try:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA:
            raise _TooNewError("they are of a newer Weft", help="use that one, or another WEFT_CACHE_DIR")
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("PRAGMA synchronous=NORMAL")
        if version < SCHEMA:
            _bring_up(file)
    except BaseException:
        file.close()
        raise
    return file


def _text(data: bytes) -> str:
    """Damaged text is still text: the digest of its row tells."""
    return data.decode("utf-8", "replace")


def _bring_up(file: sqlite3.Connection) -> None:
    """The table as it is now; a table of an older version stays for its rows that have what is needed."""
    file.execute("BEGIN IMMEDIATE")
    with file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA:  # another process was first
            return
        older = file.execute("SELECT name FROM sqlite_master WHERE name = 'measurements'").fetchone()
        if older:
            file.execute("ALTER TABLE measurements RENAME TO older_measurements")
            file.execute("DROP INDEX IF EXISTS by_task")
        file.execute(_TABLE)
        file.execute(_INDEX)
        if older:
            file.executemany(_INSERT, [_row(m) for m in _older(file)])
            file.execute("DROP TABLE older_measurements")
        file.execute(f"PRAGMA user_version = {SCHEMA}")


def _older(file: sqlite3.Connection) -> Iterator[Measurement]:
    """Rows of an older table; what it did not have yet is as if nothing was said."""
    rows = file.execute("SELECT * FROM older_measurements ORDER BY rowid")
    names = [column[0] for column in rows.description]
    fresh = Measurement(Task("", "", "", 1, ""), "", "failed").to_json()
    for row in rows:
        facts = {n: v for n, v in zip(names, row) if n in _COLUMNS}
        with contextlib.suppress(ValueError, TypeError, KeyError):
            facts.update({n: json.loads(facts[n]) for n in _LISTS if n in facts})
            whole = {n: facts.get(n, fresh[n]) for n in _COLUMNS}
            yield Measurement.from_json({**whole, "digest": _digest(whole)})


def _insert(file: sqlite3.Connection, made: list[Measurement]) -> None:
    with file:
        file.executemany(_INSERT, [_row(m) for m in made])


def _select(file: sqlite3.Connection, wanted: dict[str, Any]) -> list[Measurement]:
    where = " AND ".join(f"{name} = ?" for name in wanted)
    rows = file.execute(
        f"SELECT * FROM measurements {'WHERE ' + where if where else ''} ORDER BY number", [*wanted.values()]
    )
    names, found = [column[0] for column in rows.description], []
    for row in rows:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found.append(_unrow(names, row))
    return found


def _salvage(path: Path) -> list[Measurement]:
    """The whole rows of a damaged file, forwards as far as it goes, then backwards."""
    import sqlite3

    found: dict[int, Measurement] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(sqlite3.connect(path)) as file:
            file.text_factory = _text
            rows = file.execute(f"SELECT * FROM measurements ORDER BY number {order}")
            names = [column[0] for column in rows.description]
            while (row := rows.fetchone()) is not None:
                with contextlib.suppress(ValueError, TypeError, KeyError, UnicodeDecodeError):
                    made = _unrow(names, row)
                    found[made.number] = made
    return [found[n] for n in sorted(found)]


def default_records() -> Records:
    """Those that ``WEFT_CACHE`` and ``WEFT_CACHE_DIR`` say, the same object while they say the same."""
    directory = default_store().directory
    return _records_at(None if directory is None else str(directory / FILE))


@functools.lru_cache(maxsize=8)
def _records_at(path: str | None) -> Records:
    return Records(path)
