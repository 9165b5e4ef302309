"""Python processes of their own, for what a process does only once: imports, first calls, forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def start(code: str, *flags: str, **environment: str | None) -> subprocess.Popen[str]:
    """A process running ``code``; a variable given as None is not in its environment."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code],
        env={name: value for name, value in settings.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed and what it complained about; it must have ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def run(code: str, *flags: str, **environment: str | None) -> tuple[str, str]:
    return finish(start(code, *flags, **environment))
