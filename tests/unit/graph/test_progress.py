"""The line about what takes long: shown after a moment, before anything is done too, and gone in the end."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from weft.graph.groups import progress as module
from weft.graph.groups.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=shown))
    monkeypatch.setattr(module, "SILENT", 0.02)
    return shown


def wait_for(terminal: Terminal, text: str) -> None:
    end = time.monotonic() + 20
    while text not in terminal.getvalue() and time.monotonic() < end:
        time.sleep(0.005)
    assert text in terminal.getvalue()


def test_it_is_shown_before_the_first_step_is_done(terminal: Terminal) -> None:
    with Progress("compiling", 4) as progress:
        assert terminal.getvalue() == ""
        wait_for(terminal, "\rcompiling ░")
        progress.step()
        assert "1 of 4" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_innermost_is_shown(terminal: Terminal) -> None:
    with Progress("choosing"):
        wait_for(terminal, "\rchoosing …")
        with Progress("compiling", 2):
            wait_for(terminal, "compiling")
    assert module._working == []


def test_what_is_quick_says_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT", 1000.0)
    with Progress("compiling", 1) as progress:
        progress.step()
    assert terminal.getvalue() == ""
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer) and t.interval == 1000.0 and
                t.is_alive() and not t.finished.is_set()]  # fmt: skip


def test_where_nobody_looks_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("compiling", 1) as progress:
        progress.step()
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("compiling", 1) as progress:
        progress.step()
