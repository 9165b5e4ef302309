"""Nodes are made by a quicker constructor and are what a frozen dataclass is otherwise."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from weft.ir.errors import InternalError
from weft.ir.expr import Const, Var, idx
from weft.ir.quick_init import quick_init
from weft.ir.stmt import For, Seq


@quick_init
@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: int = 2
    note: str = dataclasses.field(default="", kw_only=True, compare=False)


def test_arguments_and_defaults() -> None:
    assert Pair(1) == Pair(1, 2) == Pair(first=1, second=2, note="n")
    assert Pair(1, note="n").note == "n"
    assert list(inspect.signature(Pair).parameters) == ["first", "second", "note"]
    with pytest.raises(TypeError):
        Pair(1, 2, "n")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Pair()  # type: ignore[call-arg]


def test_fields_stay_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pair(1).first = 3  # type: ignore[misc]


def test_nodes_copy_pickle_and_check() -> None:
    loop = For(Var("i"), idx(0), idx(3), "serial", Seq(()))
    assert copy.deepcopy(loop) == pickle.loads(pickle.dumps(loop)) == dataclasses.replace(loop) == loop
    with pytest.raises(InternalError):
        dataclasses.replace(loop, kind="sideways")  # type: ignore[arg-type]
    with pytest.raises(InternalError):
        Const(1 << 63, idx(0).type)
