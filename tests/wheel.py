"""The wheel in clean environments: built once, installed into one environment for each Python there is, and tried.

    python tests/wheel.py                   # every Python from 3.10 on that is found here (PATH, pyenv, uv)
    python tests/wheel.py 3.12 /usr/bin/python3

Needs what `pip` needs: an index, or a folder of wheels. What is tried runs in an empty folder, with none of the
sources in reach. Exits with 1 where anything failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 10)
#: What goes into a wheel, and what it is made by.
_SOURCES = ("weft", "pyproject.toml", "README.md", "LICENSE")

_TRY = """
import numpy as np
import weft
from weft.version import compiler_version

assert "site-packages" in weft.__file__, weft.__file__
assert len(compiler_version()) < 100, "the digest of the installed files"
mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
a, b = np.ones((33, 17), np.float32), np.ones((17, 5), np.float32)
for _ in range(4):
    np.testing.assert_array_equal(mm(a, b), a @ b)
np.testing.assert_allclose(weft.ops.softmax(a).sum(1), 1, rtol=1e-5)
assert "kernel mm" in mm.show("loops", a, b)
try:
    weft.define("def mm(float(M) A) -> (C) { C(m) = B(m) }")
except weft.LanguageError as error:
    assert "unknown tensor or function `B`" in str(error)
else:
    raise AssertionError("a mistake was taken")
from weft.runtime.fastcall import fast_calls_available
print("fast calls" if fast_calls_available() else "no fast calls")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="*", help="versions or paths (default: all that are found)")
    asked = parser.parse_args().pythons
    pythons = [find_python(name) for name in asked] if asked else list(all_pythons())
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as text:
        folder = Path(text)
        wheel = build_wheel(folder)
        print(f"{wheel.name}, {wheel.stat().st_size >> 10} KiB")
        results = [try_on(python, wheel, folder / f"environment{n}") for n, python in enumerate(pythons)]
    for python, result in zip(pythons, results):
        print(f"{version_of(python)}  {python}: {result}")
    return 0 if pythons and all(result.startswith("works") for result in results) else 1


def build_wheel(folder: Path) -> Path:
    """Of a copy: building leaves folders behind."""
    copy = folder / "sources"
    copy.mkdir()
    for name in _SOURCES:
        given = ROOT / name
        shutil.copytree(given, copy / name, ignore=shutil.ignore_patterns("__pycache__")) if given.is_dir() else (
            shutil.copy(given, copy / name)
        )
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(copy)], folder)
    (wheel,) = folder.glob("weft-*.whl")
    with zipfile.ZipFile(wheel) as file:
        inside = {*file.namelist()}
    missing = [p for p in sorted((copy / "weft").rglob("*")) if p.is_file() and str(p.relative_to(copy)) not in inside]
    if missing:
        raise SystemExit(f"not in the wheel: {', '.join(str(p.relative_to(copy)) for p in missing)}")
    return wheel


def try_on(python: str, wheel: Path, environment: Path) -> str:
    """What became of the wheel with ``python``."""
    empty = environment.with_suffix(".empty")
    empty.mkdir()
    inside = environment / "bin"
    try:
        run([python, "-m", "venv", str(environment)], empty)
        run([str(inside / "python"), "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel)], empty)
        told = run([str(inside / "python"), "-W", "error::SyntaxWarning", "-c", _TRY], empty)
        run([str(inside / "weft"), "--version"], empty)
        (empty / "mm.weft").write_text("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }\n")
        run([str(inside / "weft"), "run", "mm.weft", "--size", "M=4", "--size", "K=3", "--size", "N=2"], empty)
        demo = run([str(inside / "weft"), "demo"], empty).splitlines()[-1]
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or error.stdout or "").splitlines() if line.strip()]
        return f"FAILED at {' '.join(map(str, error.cmd))[-60:]!r}: {lines[-1] if lines else error.returncode}"
    return f"works ({told.strip()}; {demo})"


def run(command: Sequence[str], folder: Path) -> str:
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WEFT_"))}
    settings["WEFT_CACHE_DIR"] = str(folder / "cache")
    done = subprocess.run(
        [*command], cwd=folder, env=settings, capture_output=True, text=True, check=True, timeout=1200
    )
    return done.stdout


def all_pythons() -> Iterator[str]:
    """One for each version from the oldest on."""
    seen: set[str] = set()
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    homes = [Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"]
    places += [found / "bin" for home in homes if home.is_dir() for found in sorted(home.iterdir())]
    for place in places:
        for python in sorted(p for p in place.glob("python3.*") if p.name[len("python3.") :].isdigit()):
            version = version_of(str(python))
            if version and version not in seen and tuple(map(int, version.split("."))) >= OLDEST:
                seen.add(version)
                yield str(python)


def find_python(name: str) -> str:
    if os.sep in name:
        return name
    found = next((p for p in all_pythons() if version_of(p) == name), None)
    if found is None:
        raise SystemExit(f"there is no Python {name} here; `uv python install {name}` fetches one")
    return found


def version_of(python: str) -> str:
    """Its release, or nothing where it is no Python that runs and makes environments."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
