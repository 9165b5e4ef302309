"""Weft, ``schedule="auto"``."""

from __future__ import annotations

from functools import partial

from bench.polybench.weft_modes import prepare_mode, version

prepare = partial(prepare_mode, "auto")
__all__ = ["prepare", "version"]
