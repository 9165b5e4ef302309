"""Compiled PyTorch models given what they cannot take: PyTorch's own error, and the next call is right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.graph.from_torch.backend import register
from weft.ir.errors import ArgumentError

torch = pytest.importorskip("torch")

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))

WRONG: dict[str, tuple[Callable[[], tuple[Any, ...]], type[Exception], str]] = {
    "sizes": (lambda: (X[:, :3],), RuntimeError, "cannot be multiplied|fake tensor call"),
    "rank": (lambda: (X[0, 0],), RuntimeError, ""),
    "type": (lambda: (X.double(),), RuntimeError, "same dtype"),
    "integers": (lambda: (X.long(),), RuntimeError, "same dtype"),
    "a text": (lambda: ("x",), TypeError, "must be Tensor, not str"),
    "nothing": (lambda: (), TypeError, "missing 1 required positional argument"),
    "too much": (lambda: (X, X), TypeError, "positional argument"),
}


@pytest.mark.parametrize("how", ["compile", "dynamo"])
@pytest.mark.parametrize("name", WRONG)
def test_the_error_is_eagers_and_nothing_is_lost(name: str, how: str) -> None:
    make, kind, text = WRONG[name]
    model = torch.nn.Linear(4, 3)
    register()
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = weft.compile(model, (X,)) if how == "compile" else torch.compile(model, backend="weft")
        fast(X)
        with pytest.raises((kind, torch._dynamo.exc.TorchRuntimeError), match=text):
            fast(*make())
        torch.testing.assert_close(fast(X), model(X))


def test_tensors_without_memory_are_as_eager() -> None:
    model = torch.nn.Linear(4, 3)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = weft.compile(model, (X,))
        with pytest.raises(RuntimeError, match="meta"):
            fast(X.to("meta"))
        torch.testing.assert_close(fast(X), model(X))


@pytest.mark.parametrize("options", [{"chek": "first"}, {"check": "last"}])
def test_options_that_there_are_not(options: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match=r"weft has no option `chek`|check='last' is not known"):
        weft.compile(torch.nn.Linear(4, 3), (X,), options=options)
