"""Loaded, every target's instructions are declared: the ones that steps of a schedule may name."""

from weft.target.cpu import intrinsics as _cpu  # noqa: F401
from weft.target.cuda import intrinsics as _cuda  # noqa: F401
