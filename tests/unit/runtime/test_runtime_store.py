"""The artifact store gives back what was put or nothing, whatever happens to its files and its disk."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from weft import version
from weft.runtime import store as module
from weft.runtime.store import Artifact, ArtifactStore, decode_artifact, default_store, encode_artifact

SAMPLE = Artifact({"entry": "mm", "sizes": [1, 2], "nested": {"x": None}}, {"object": bytes(range(256)), "empty": b""})


@pytest.fixture
def store(tmp_path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())


def only_file(store: ArtifactStore) -> Path:
    (path,) = store.directory.iterdir()
    return path


def test_round_trip(store):
    assert store.get("key") is None
    store.put("key", SAMPLE)
    assert store.get("key") == SAMPLE
    assert store.get("other") is None
    assert ArtifactStore(store.directory).get("key") == SAMPLE


def test_replaced_by_a_later_put(store):
    store.put("key", SAMPLE)
    store.put("key", Artifact({"v": 2}))
    assert store.get("key") == Artifact({"v": 2})
    assert len(list(store.directory.iterdir())) == 1


def test_no_leftovers_and_private_files(store):
    store.put("key", SAMPLE)
    path = only_file(store)
    assert path.stat().st_mode & 0o077 == 0
    assert store.directory.stat().st_mode & 0o077 == 0


def test_truncation_at_every_length(store):
    data = encode_artifact("key", SAMPLE)
    assert decode_artifact("key", data) == SAMPLE
    for length in range(len(data)):
        assert decode_artifact("key", data[:length]) is None
    assert decode_artifact("key", data + b"\0") is None


def test_every_flipped_bit():
    data = encode_artifact("key", SAMPLE)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        assert decode_artifact("key", bytes(broken)) is None


def test_damaged_files_are_missing_and_removed(store):
    rng = random.Random(1)
    for _ in range(30):
        store.put("key", SAMPLE)
        path = only_file(store)
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        assert store.get("key") is None
        assert not path.exists()


def test_an_artifact_of_another_key_is_foreign(store):
    store.put("key", SAMPLE)
    data = only_file(store).read_bytes()
    store._path("stolen").write_bytes(data)
    assert store.get("stolen") is None
    assert store.get("key") == SAMPLE


def test_remove(store):
    store.put("key", SAMPLE)
    store.remove("key")
    store.remove("key")
    assert store.get("key") is None


def test_full_disk(store, monkeypatch):
    """The write fails half way: no artifact, no leftover, one warning, and reading goes on."""
    store.put("kept", SAMPLE)
    real, calls = os.write, []

    def write(handle, data):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, bytes(data)[:10])

    monkeypatch.setattr(os, "write", write)
    with pytest.warns(RuntimeWarning, match="No space left"):
        store.put("key", SAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("key", SAMPLE)
        assert store.get("key") is None
        assert store.get("kept") == SAMPLE
    assert len(list(store.directory.iterdir())) == 1


def test_short_writes_are_completed(store, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data)[:7]))
    store.put("key", SAMPLE)
    assert store.get("key") == SAMPLE


def unusable(directory: Path) -> None:
    store = ArtifactStore(directory)
    with pytest.warns(RuntimeWarning, match="keeps no compiled code"):
        store.put("key", SAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("key", SAMPLE)
        assert store.get("key") is None
        assert store.directory is None


def test_not_a_directory(tmp_path):
    (tmp_path / "file").write_text("x")
    unusable(tmp_path / "file")


def test_below_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    unusable(tmp_path / "file" / "deeper")


def test_impossible_names():
    unusable(Path("/proc/nothing/here"))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_directories_others_can_write_to(tmp_path, mode):
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(mode)
    unusable(directory)


def test_directories_of_other_users(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    unusable(tmp_path)


def test_read_only_directory(tmp_path, monkeypatch):
    store = ArtifactStore(tmp_path)
    store.put("kept", SAMPLE)
    real = os.open

    def refuse(path, flags, *rest, **named):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "utime", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "Read-only file system")))
    with pytest.warns(RuntimeWarning, match="Read-only"):
        store.put("key", SAMPLE)
    assert store.get("key") is None
    assert store.get("kept") == SAMPLE


def test_no_store_at_all():
    store = ArtifactStore(None)
    store.put("key", SAMPLE)
    store.trim()
    assert store.get("key") is None


def test_trimming_removes_what_was_not_used_for_longest(tmp_path):
    store = ArtifactStore(tmp_path, limit=20_000)
    blob = Artifact({}, {"b": bytes(1000)})
    for i in range(30):
        store.put(f"key{i}", blob)
        os.utime(store._path(f"key{i}"), (i, i))
    assert store.get("key0") == blob  # used now
    store.trim()
    kept = [i for i in range(30) if store.get(f"key{i}") is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(30 - len(kept) + 1, 30))
    assert 10 <= len(kept) <= 16


def test_trimming_happens_by_itself(tmp_path):
    store = ArtifactStore(tmp_path, limit=10_000)
    for i in range(200):
        store.put(f"key{i}", Artifact({}, {"b": bytes(500)}))
    total = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert total < 10_000 + 65 * 700


def test_too_large_for_the_store(tmp_path):
    store = ArtifactStore(tmp_path, limit=1000)
    store.put("key", Artifact({}, {"b": bytes(2000)}))
    assert store.get("key") is None


def test_trimming_removes_stale_leftovers(store):
    store.put("key", SAMPLE)
    stale, recent = store.directory / ".1-2-3.tmp", store.directory / ".4-5-6.tmp"
    stale.write_text("x")
    recent.write_text("x")
    os.utime(stale, (time.time() - 10_000,) * 2)
    store.trim()
    assert not stale.exists()
    assert recent.exists()


WRITER = """
import sys
from weft.runtime.store import Artifact, ArtifactStore
store = ArtifactStore(sys.argv[1])
for i in range(300):
    body = bytes([i % 251]) * 5000
    store.put(f"key{i % 5}", Artifact({"i": i % 251}, {"b": body}))
    found = store.get(f"key{i % 5}")
    assert found is not None and found.blobs["b"] == bytes([found.metadata["i"]]) * 5000
"""


def test_two_processes_at_once(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "c")]) for _ in range(2)]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]
    store = ArtifactStore(tmp_path / "c")
    assert all(store.get(f"key{i}") is not None for i in range(5))
    assert not [p for p in store.directory.iterdir() if p.suffix == ".tmp"]


def test_where_the_default_store_is(tmp_path, monkeypatch):
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "a"))
    assert default_store().directory == tmp_path / "a"
    assert default_store() is default_store()
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert default_store().directory == tmp_path / "b" / "weft"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_store().directory == tmp_path / "home" / ".cache" / "weft"
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert default_store().directory is None


def test_no_home(monkeypatch):
    for name in ("WEFT_CACHE", "WEFT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert default_store().directory is None


def test_native_code_is_taken_from_the_store_only_when_sound(tmp_path, monkeypatch):
    """A stored object that does not load is replaced, never run."""
    import ctypes

    from weft.runtime.native import load_native

    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "n"))
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    text = "define i64 @answer() {\n  ret i64 42\n}"
    for _ in range(3):
        loaded = load_native(text, {})
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.address("answer"))() == 42
        path = only_file(default_store())
        parts = module._split(path.read_bytes()[40:])
        path.write_bytes(encode_artifact(parts[0].decode(), Artifact({}, {"object": b"\x7fELF" + bytes(100)})))


def test_copies_of_a_source_tree_have_keys_of_their_own(tmp_path, monkeypatch) -> None:
    """A copy has no ``.git``; what is installed has files that never change."""
    version_now = version.compiler_version.__wrapped__
    monkeypatch.setattr(version, "_PACKAGE", str(tmp_path / "weft"))
    (tmp_path / "weft").mkdir()
    (tmp_path / "pyproject.toml").touch()
    before = version_now()
    (tmp_path / "weft" / "added.py").touch()
    assert version_now() != before
    (tmp_path / "pyproject.toml").unlink()
    assert version_now() != before


def installed(folder: Path, record: str, name: str = "added.py") -> str:
    """The version of a package that an installer put into ``folder``."""
    facts = folder / f"weft-{version.__version__}.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    (facts / "RECORD").write_text(record)
    (folder / "weft").mkdir(exist_ok=True)
    (folder / "weft" / name).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version, "_PACKAGE", str(folder / "weft"))
        return version.compiler_version.__wrapped__()


def test_wheels_of_two_commits_have_keys_of_their_own(tmp_path) -> None:
    """Of one release; what is the same in both is where they are, and what an installer adds."""
    wheel = "weft/__init__.py,sha256=aa,3\nweft/ir/expr.py,sha256=bb,5\n"
    here = (
        "../../../bin/weft,sha256=cc,200\nweft/__pycache__/__init__.cpython-311.pyc,,\nweft-0.1.0.dist-info/RECORD,,\n"
    )
    one, same = installed(tmp_path / "one", wheel + here), installed(tmp_path / "two", here.replace("cc", "dd") + wheel)
    other = installed(tmp_path / "three", wheel.replace("bb", "ee") + here)
    assert one == same
    assert one != other
    assert one.startswith(version.__version__)


def test_a_package_that_nobody_wrote_down_is_known_by_its_files(tmp_path) -> None:
    """Of a system's packages, say."""
    assert installed(tmp_path / "one", "") != installed(tmp_path / "two", "", "another.py")


def test_a_package_in_an_archive_has_a_key(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(version, "_PACKAGE", str(tmp_path / "weft.zip" / "weft"))
    assert version.compiler_version.__wrapped__().startswith(version.__version__)


def forge(store: ArtifactStore, key: str, folder: Path | None = None) -> Path:
    """Another's artifact under ``key``, whole, as whoever can write to a folder can make it."""
    path = (folder or store.directory) / store._path(key).name
    path.write_bytes(encode_artifact(key, Artifact({"who": "another"})))
    return path


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@needs_root
def test_files_of_other_users_are_not_read(store):
    store.put("key", SAMPLE)
    os.chown(forge(store, "key"), 65534, 65534)
    assert store.get("key") is None
    store.put("key", SAMPLE)
    assert store.get("key") == SAMPLE


@needs_root
def test_a_folder_put_in_place_of_the_store_is_not_read(store):
    store.put("key", SAMPLE)
    store.directory.rename(store.directory.with_name("moved"))
    store._directory.mkdir()
    os.chown(forge(store, "key", store._directory), 65534, 65534)
    os.chown(store._directory, 65534, 65534)
    assert store.get("key") is None


def test_nothing_is_removed_from_a_folder_put_in_place_of_the_store(store, tmp_path):
    """A link to a folder of the user's own, say, which has files of these names too."""
    store.put("key", SAMPLE)
    (tmp_path / "mine").mkdir()
    old = [tmp_path / "mine" / name for name in ("letter.tmp", "letter.weft")]
    for path in old:
        path.touch()
        os.utime(path, (1, 1))
    store.directory.rename(tmp_path / "moved")
    store._directory.symlink_to(tmp_path / "mine")
    store.trim()
    assert store.clear() == (0, 0)
    assert all(path.exists() for path in old)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users")
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_files_that_others_can_write_to_are_not_read(store, mode):
    store.put("key", SAMPLE)
    only_file(store).chmod(mode)
    assert store.get("key") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_place_of_an_artifact_does_not_wait(store):
    store.put("other", SAMPLE)
    os.mkfifo(store._path("key"), 0o600)
    assert store.get("key") is None
    store.put("key", SAMPLE)
    assert store.get("key") == SAMPLE


def test_links_are_not_followed(store, tmp_path):
    store.put("key", SAMPLE)
    store._path("key").rename(tmp_path / "elsewhere")
    store._path("key").symlink_to(tmp_path / "elsewhere")
    assert store.get("key") is None
    store.put("key", SAMPLE)
    assert not store._path("key").is_symlink()
    assert store.get("key") == SAMPLE


def test_clear(store):
    for n in range(5):
        store.put(f"key {n}", SAMPLE)
    (store.directory / "notes.txt").touch()
    count, size = store.measure()
    assert count == 5
    assert size > 5 * 256
    assert store.clear() == (count, size)
    assert store.measure() == (0, 0)
    assert [p.name for p in store.directory.iterdir()] == ["notes.txt"]
    assert ArtifactStore(None).clear() == (0, 0)


NOTHING_IN_IT = Artifact({"name": "mm", "params": [], "outputs": [], "kept": [], "places": [], "messages": []})


def test_whole_entries_of_other_contents_are_made_again(tmp_path, monkeypatch) -> None:
    """Whatever is under an operator's keys: first the note of its interface, then its code too."""
    import numpy as np

    import weft

    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "n"))
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    a, b = np.ones((3, 5), np.float32), np.ones((5, 2), np.float32)

    def forge_all(change) -> None:
        for path in (tmp_path / "n").glob("*.weft"):
            key = module._split(path.read_bytes()[40:])[0].decode()
            artifact = decode_artifact(key, path.read_bytes())
            path.write_bytes(encode_artifact(key, change(artifact)))
            path.chmod(0o600)

    wrong_code = lambda kept: Artifact({**kept.metadata, "params": []}, kept.blobs)
    for change in (lambda _: NOTHING_IN_IT, wrong_code, lambda _: Artifact({}), lambda _: Artifact({"params": 3})):
        for _ in range(2):
            assert (weft.define(text)(a, b) == 5).all()
            assert (weft.define(text)(A=a, B=b) == 5).all()
        forge_all(change)
    assert (weft.define(text)(A=a, B=b) == 5).all()
    with pytest.raises(weft.ArgumentError, match="mm"):
        weft.define(text)(a)


@pytest.mark.parametrize("data", [b"cno.such.module\nX\n.", b"", b"\x80\x05N.", b"cbuiltins\nRecursionError\n(tR."])
def test_a_plan_that_cannot_be_read_counts_as_not_kept(data, tmp_path, monkeypatch) -> None:
    from weft.graph.plan import load_plan

    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "n"))
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    default_store().put("plan", Artifact({}, {"plan": data}))
    assert load_plan("plan", [], None, None) is None
    assert default_store().get("plan") is None
    default_store().put("plan", Artifact({}))
    assert load_plan("plan", [], None, None) is None
