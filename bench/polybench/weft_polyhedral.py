"""Weft, ``schedule="polyhedral"``."""

from __future__ import annotations

from functools import partial

from bench.polybench.weft_modes import prepare_mode, version

prepare = partial(prepare_mode, "polyhedral")
__all__ = ["prepare", "version"]
