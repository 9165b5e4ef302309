"""Where each peer is installed: in this environment, or in one of its own under ``.bench``.

``python -m bench.field.environments [peer ...]`` makes those that are missing, each from the package index by name:
together they would want different versions of the same packages, and bring threads that fight.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from bench.field.peers import PEERS, Peer

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / ".bench"


def python_for(peer: Peer) -> Path | None:
    """The interpreter that has all that ``peer`` imports; None where there is none."""
    if all(importlib.util.find_spec(name) is not None for name in peer.imports):
        return Path(sys.executable)
    python = _own_python(peer)
    return python if python.exists() and _can_import(python, peer) else None


def install(peer: Peer) -> None:
    """An environment of its own for ``peer``."""
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER / peer.environment)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([str(_own_python(peer)), "-m", "pip", "install", *quiet, *peer.packages], check=True)


def install_missing(names: list[str]) -> list[str]:
    """Installs what is not there; what could not be installed comes back."""
    failed = []
    for name in names:
        if PEERS[name].packages and python_for(PEERS[name]) is None:
            print(f"installing {name} ...", file=sys.stderr, flush=True)
            try:
                install(PEERS[name])
            except (subprocess.CalledProcessError, OSError) as error:
                print(f"{name} was not installed: {error}", file=sys.stderr)
                failed.append(name)
    return failed


def _own_python(peer: Peer) -> Path:
    return FOLDER / peer.environment / "bin" / "python"


def _can_import(python: Path, peer: Peer) -> bool:
    find = f"import importlib.util as u; exit(not all(u.find_spec(n) for n in {peer.imports!r}))"
    return subprocess.run([str(python), "-c", find], check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(1 if install_missing(sys.argv[1:] or list(PEERS)) else 0)
