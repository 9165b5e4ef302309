"""What nobody meant to fail costs users no model, is told, and fails our own tests; what is refused is no fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import weft
from weft.graph.from_torch import translate as _translate  # noqa: F401  which fills the table
from weft.graph.from_torch.table import TABLE
from weft.graph.groups import group_code
from weft.graph.rewrites import simplify
from weft.ir.errors import InternalError, ScheduleError, UnsupportedError
from weft.ir.faults import collecting, is_fault, refused


def test_errors_that_say_no_on_purpose_are_refusals() -> None:
    assert not any(map(is_fault, (UnsupportedError("no"), ScheduleError("no"), RecursionError())))
    assert all(map(is_fault, (InternalError("broken"), AssertionError(), KeyError("x"))))


def test_faults_are_raised_in_tests() -> None:
    with pytest.raises(AssertionError, match="never so"):
        refused(AssertionError("never so"))


def test_blocks_inside_share_what_they_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_FAULTS", "told")
    with collecting() as outer:
        refused(UnsupportedError("no"))
        with collecting() as inner:
            refused(KeyError("x"))
    assert inner is outer
    assert outer == ["a fault of Weft, KeyError: 'x' (no line is known)"]


def _broken(*_: Any, **__: Any) -> Any:
    raise AssertionError("never so")


def _break_an_entry(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(TABLE, "aten.cos.default", _broken)


def _break_code(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_code, "compile_task", _broken)


@pytest.mark.parametrize("broken", [_break_an_entry, _break_code])
def test_a_fault_costs_no_model_and_explain_tells_it(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("WEFT_FAULTS", "told")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    broken(monkeypatch)
    x = torch.randn(3, 5)
    fast = weft.compile(lambda x: x.cos(), (x,))
    assert torch.equal(fast(x), x.cos())
    told = weft.explain(fast)
    assert "1 faults of Weft" in told
    assert "AssertionError: never so (test_faults.py:" in told


def _gives_no_graph(graph: Any, *_: Any) -> Any:
    return replace(graph, nodes=graph.nodes[1:])


@pytest.mark.parametrize(
    ("rewrite", "reason"), [(_broken, "AssertionError: never so"), (_gives_no_graph, "which is not there yet")]
)
def test_a_fault_in_a_rewrite_costs_that_rewrite_alone(
    rewrite: Callable[..., Any], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("WEFT_FAULTS", "told")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(simplify, "join_products", rewrite)
    x = torch.randn(3, 5)
    with pytest.warns(UserWarning, match=f"compiled without join_products: a fault of Weft, .*{reason}"):
        fast = weft.compile(lambda x: x.cos().sum(-1) * 2, (x,))
    torch.testing.assert_close(fast(x), x.cos().sum(-1) * 2)
    told = weft.explain(fast)
    assert "1 faults of Weft" in told
    assert reason in told
    assert "eager" not in told


def test_arguments_that_a_formula_does_not_know_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, "aten.cos.default", lambda t: None)  # type: ignore[arg-type,misc]
    x = torch.randn(3, 5)
    fast = weft.compile(lambda x: x.cos(), (x,))
    assert torch.equal(fast(x), x.cos())
    assert "its formula has too many positional arguments" in weft.explain(fast)
