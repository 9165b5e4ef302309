"""Remarks about a program as Python's warnings, at the line that defines it or calls it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from weft.ir.errors import Warning
from weft.ir.remark import Remark


def warn(remarks: Iterable[Remark]) -> None:
    for remark in remarks:
        from weft.tensor.caller import caller_frame

        frame = caller_frame()
        file, line = ("weft", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        seen = None if frame is None else frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(Warning(*remark), None, file, line, registry=seen)


def warn_once(remarks: Iterable[Remark], told: set[str]) -> None:
    """As `warn`, but for kinds of remarks that were ``told`` before: sizes change from call to call."""
    for remark in remarks:
        if remark.name not in told:
            warn([remark])
            told.add(remark.name)
