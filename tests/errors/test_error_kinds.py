"""Errors are of Python's kinds where these say the same, so that code which knows numpy's catches them."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from call_programs import LOOKUP, MM, a, b, table

import weft
from weft.poly import isl_oracle


def test_wrong_arguments_are_values_and_types() -> None:
    mm = weft.define(MM)
    for wrong in (lambda: mm(a), lambda: mm(a, "text"), lambda: mm(a.astype(np.float64), b)):
        for kind in (ValueError, TypeError, weft.ArgumentError):
            with pytest.raises(kind):
                wrong()
    with pytest.raises(ValueError, match="target"):
        weft.define(MM, target="gpu")


def test_wrong_sizes_and_texts_are_values() -> None:
    with pytest.raises(ValueError, match="dimension 0 of B must be 3"):
        weft.define(MM)(a, np.ones((4, 5), np.float32))
    with pytest.raises(ValueError, match="there is no definition"):
        weft.define("")


def test_an_index_out_of_range_is_one_of_pythons() -> None:
    lookup = weft.define(LOOKUP)
    for kind in (IndexError, weft.ShapeError):
        with pytest.raises(kind, match="index out of range"):
            lookup(table, np.int32([0, 9, 1]))


def test_errors_of_steps_are_not_told_as_wrong_arguments_of_theirs() -> None:
    """They are a `TypeError` too, as what Python raises for arguments that a function does not have."""
    s = weft.schedule(weft.ops.matmul, A=(8, 8), B=(8, 8))
    with pytest.raises(weft.Error) as caught:
        s.apply('numerics = "strict"\nsplit("m", "four")\n')
    assert "does not take these arguments" not in str(caught.value)
    with pytest.raises(weft.ScheduleError, match="does not take these arguments"):
        s.apply('numerics = "strict"\nsplit("m", 4, 5, 6, 7)\n')


def test_a_target_by_another_name() -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        weft.define(MM, target="gpu")
    assert str(caught.value) == "error: there is no target `gpu`\n  help:  did you mean `cuda`?"


def test_without_islpy_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "islpy" else find(name))
    monkeypatch.setattr(isl_oracle, "_worker", isl_oracle._Worker())
    isl_oracle._worker.is_absent = True
    told = weft.define(MM, schedule="polyhedral").explain(a, b)
    assert "islpy is not installed: pip install islpy, or install weft with its extra `poly`" in told
    assert "within 4 s" not in told
