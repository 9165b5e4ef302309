"""Fixtures for tests of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``fake_cuda("aten.mm.default", ...)`` gives arrays of a GPU where these calls are the library's."""
    pytest.importorskip("torch")
    from tests.unit.graph import fake_cuda as fake

    fake.install(monkeypatch)
    yield lambda *library: fake.FakeArrays(fake.FakeCuda(*library))
    fake.tapes.clear()
