"""Records last: whoever is killed, whatever becomes of the file, one row is lost, and nothing ends in an error."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from weft.runtime import records as module
from weft.runtime.records import SCHEMA, Measurement, Records, Task

TASK = Task("program", "A:float32[3, 4]", "machine", 1, "0.1")
ROOT = Path(__file__).parents[3]


def made(number: int = 0, ended: str = "won") -> Measurement:
    return Measurement(TASK, f'split("m", {number})', ended, (1.0, 2.0, 3.5), (2.0, 2.0, 2.0), name="mm", seed=number)


def add_many(records: Records, numbers: Iterable[int]) -> None:
    for n in numbers:
        records.add(made(n))


def traces(records: Records) -> list[str]:
    return [m.trace for m in records.all()]


def test_what_is_added_is_there_in_order_and_unchanged(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.sqlite")
    for n in range(5):
        records.add(made(n))
    again = Records(tmp_path / "r.sqlite").all()
    assert [m._replace(number=0, at=0.0) for m in again] == [made(n) for n in range(5)]
    assert again[0].ratio == 1.0
    assert again[0].median == 2.0


def test_the_latest_decision_counts_whatever_clocks_say(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.sqlite")
    assert records.best(TASK) is None
    records.add(made(1, "best")._replace(at=2e9))
    records.add(made(2, "best")._replace(at=1e9))  # the clock went back
    found = records.best(TASK)
    assert found is not None
    assert found.seed == 2
    assert records.best(TASK._replace(sizes="other")) is None
    records.add(made(3, "automatic")._replace(at=5e8))
    assert records.best(TASK) is None


def test_lines_out_and_in(tmp_path: Path) -> None:
    records, other = Records(tmp_path / "a.sqlite"), Records(tmp_path / "b.sqlite")
    for n in range(3):
        records.add(made(n))
    lines = list(records.write_lines())
    changed = json.loads(lines[0])
    changed["seconds"] = [0.1]
    assert other.read_lines([*lines, "", "no json", "[]", json.dumps(changed), '{"ended": 1}']) == (3, 4)
    assert other.read_lines(lines) == (0, 0)
    assert traces(other) == traces(records)


WRITER = """
import sys
sys.path.insert(0, {root!r})
sys.path.insert(0, {here!r})
from weft.runtime.records import Records
from test_tune_records import made
records = Records({path!r})
for n in range({count}):
    records.add(made({first} + n))
    print(n, flush=True)
"""


def writer(path: Path, first: int, count: int) -> subprocess.Popen[str]:
    code = WRITER.format(root=str(ROOT), here=str(Path(__file__).parent), path=str(path), first=first, count=count)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    writers = [writer(path, 1000 * n, 40) for n in range(3)]
    for process in writers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = Records(path).all()
    assert sorted(m.seed for m in found) == sorted(1000 * n + k for n in range(3) for k in range(40))


def test_a_process_that_is_killed_loses_one_row_at_most(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    process = writer(path, 0, 100_000)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(30)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.read().split()
    process.wait()
    seeds = [m.seed for m in Records(path).all()]
    assert seeds == list(range(len(seeds)))
    assert len(seeds) >= len(said)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.7, 0.95])
def test_flipped_bytes_cost_rows_and_no_more(tmp_path: Path, share: float) -> None:
    path = tmp_path / "r.sqlite"
    records = Records(path)
    for n in range(300):
        records.add(made(n))
    assert records._open is not None
    records._open[1].execute("PRAGMA wal_checkpoint(TRUNCATE)")
    records.close()
    data = bytearray(path.read_bytes())
    at = int(share * len(data))
    data[at : at + 64] = bytes(b ^ 0xA5 for b in data[at : at + 64])
    path.write_bytes(bytes(data))
    again = Records(path)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = again.all()
        again.add(made(1000))
        after = Records(path).all()
    whole = {n: made(n) for n in (*range(300), 1000)}
    assert all(m._replace(number=0, at=0.0) == whole[m.seed] for m in (*found, *after))
    assert after[-1].seed == 1000


def test_a_file_that_is_something_else_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"not a data base at all\n" * 400)
    records = Records(path)
    with pytest.warns(RuntimeWarning, match="damaged"):
        records.add(made(1))
    assert traces(Records(path)) == traces(records) == [made(1).trace]
    assert [p for p in tmp_path.iterdir() if "damaged" in p.name]


def test_a_full_disk_is_told_once_and_what_is_measured_stays_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.sqlite"
    records = Records(path)
    records.add(made(0))
    assert records._open is not None
    (pages,) = records._open[1].execute("PRAGMA page_count").fetchone()
    records._open[1].execute(f"PRAGMA max_page_count = {pages}")
    monkeypatch.setattr(module, "_warned", set())
    with pytest.warns(RuntimeWarning, match="full") as told:
        add_many(records, range(1, 200))
    assert len(told) == 1
    assert sorted(m.seed for m in records.all()) == list(range(200))
    kept = Records(path).all()
    assert kept[0].seed == 0
    assert len(kept) < 200
    records._open[1].execute("PRAGMA max_page_count = 100000")  # there is room again
    records.add(made(500))
    assert Records(path).all()[-1].seed == 500


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_warned", set())
    records = Records(tmp_path / "none" / "r.sqlite")
    with pytest.warns(RuntimeWarning, match="keeps no records"):
        records.add(made(7))
    assert [m.seed for m in records.all()] == [7]


def test_an_older_file_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with sqlite3.connect(path) as file:
        columns = "program, sizes, machine, threads, version, trace, ended, seconds"
        file.execute(f"CREATE TABLE measurements ({columns})")
        row = [*TASK, 'parallel("m")', "best", "[0.5]"]
        file.execute(f"INSERT INTO measurements VALUES ({','.join('?' * len(row))})", row)
        file.execute("INSERT INTO measurements (program, ended) VALUES ('p', 'in a way there is no more')")
        file.execute("PRAGMA user_version = 1")
    file.close()
    found = Records(path).best(TASK)
    assert found is not None
    assert (found.trace, found.seconds, found.against) == ('parallel("m")', (0.5,), ())
    assert len(Records(path).all()) == 1


def test_a_newer_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.sqlite"
    monkeypatch.setattr(module, "_warned", set())
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        file.execute("CREATE TABLE measurements (something)")
    file.close()
    before = path.read_bytes()
    records = Records(path)
    with pytest.warns(RuntimeWarning, match="newer"):
        records.add(made(3))
    assert path.read_bytes() == before
    assert [m.seed for m in records.all()] == [3]


def test_removing(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.sqlite")
    for n in range(4):
        records.add(made(n))
    assert records.remove([m.number for m in records.all() if m.seed % 2]) == 2
    assert [m.seed for m in records.all()] == [0, 2]


def test_looking_up_in_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    start = time.perf_counter()
    assert Records(tmp_path / "r.sqlite").best(TASK) is None
    assert time.perf_counter() - start < 1
    assert not (tmp_path / "r.sqlite").exists()
