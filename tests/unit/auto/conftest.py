"""Automatic schedules are run as they are: how well LLVM optimizes them is not asked here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _quick_code(quick_code: None) -> None:
    pass
