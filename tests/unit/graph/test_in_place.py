"""Results in the memory of what they alone read as the last: where that is legal, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.graph.groups.in_place import in_place
from weft.ir.parser import parse_kernel

torch = pytest.importorskip("torch")

_ROWS = """
kernel k(X: float32[8, 16], Z: float32[16], out Y: float32[8, 16]) {{
  parallel i in 0:8 {{
    vector j in 0:16 {{
      block Y(vi spatial 0:8 = i, vj spatial 0:16 = j)
          reads X[vi, vj], Z[vj]
          writes Y[vi, vj]
      {{
        Y[vi, vj] = {value}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        ("X[vi, vj] + Z[vj]", True),
        ("X[vi, vj] * X[vi, vj]", True),
        ("X[vi, 15 - vj] + Z[vj]", False),
        ("X[vi, vj] + X[7 - vi, vj]", False),
        ("Y[vi, vj] + X[vi, vj]", False),
    ],
)
def test_an_element_is_read_before_it_is_overwritten(value: str, legal: bool) -> None:
    assert list(in_place(parse_kernel(_ROWS.format(value=value)))) == ([("Y", "X")] if legal else [])


def test_not_where_another_statement_reads_it_or_sums_are_in_memory() -> None:
    apart = """
kernel k(X: float32[8], out Y: float32[8], out S: float32[8]) {
  seq {
    for i in 0:8 {
      block Y(vi spatial 0:8 = i) reads X[vi] writes Y[vi] { Y[vi] = X[vi] }
    }
    for j in 0:8 {
      block S(vj spatial 0:8 = j) reads X[vj] writes S[vj] { S[vj] = X[vj] }
    }
  }
}
"""
    assert not list(in_place(parse_kernel(apart)))
    sums = """
kernel k(X: float32[8, 4], Z: float32[8], out Y: float32[8]) {
  for i in 0:8 {
    for k in 0:4 {
      block Y(vi spatial 0:8 = i, vk reduce 0:4 = k) reads X[vi, vk], Z[vi], Y[vi] writes Y[vi] {
        init { Y[vi] = Z[vi] }
        Y[vi] = Y[vi] + X[vi, vk]
      }
    }
  }
}
"""
    assert not list(in_place(parse_kernel(sums)))


class Stream(torch.nn.Module):  # type: ignore[misc]
    """Layers around a stream of features that each of them adds to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(24, 24), torch.nn.Linear(24, 24)
        self.wide = torch.nn.ModuleList(torch.nn.Linear(24, 50) for _ in range(3))
        self.narrow = torch.nn.ModuleList(torch.nn.Linear(50, 24) for _ in range(3))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for wide, narrow in zip(self.wide, self.narrow):
            x = x + narrow(torch.relu(wide(x)))
        return self.last(x)


class Convolutions(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(5, 18, 3, padding=1)
        self.down = torch.nn.ModuleList(torch.nn.Conv2d(18, 7, 3, padding=1) for _ in range(2))
        self.up = torch.nn.ModuleList(torch.nn.Conv2d(7, 18, 1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for down, up in zip(self.down, self.up):
            x = torch.relu(x + up(torch.relu(down(x))))
        return x.mean((2, 3))


def _taken_over(model: Any, *inputs: Any) -> int:
    """How many results are where another was; the results themselves are those of eager."""
    model = model.eval()
    with torch.no_grad():
        fast = weft.compile(model, inputs)
        for _ in range(2):
            for made, right in zip(_results(fast(*inputs)), _results(model.double()(*(x.double() for x in inputs)))):
                assert torch.allclose(made.double(), right, atol=1e-5)
            model.float()
    compiled, _ = fast.find_compiled(inputs)
    return len(compiled.executable.taken_over)


def _results(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("shape", [(1, 24), (13, 24), (3, 7, 24), (0, 24)])
def test_residual_streams_stay_where_they_are(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    assert _taken_over(Stream(), torch.randn(shape)) == (0 if 0 in shape else 3)


@pytest.mark.parametrize("size", [(2, 5, 9, 11), (1, 5, 16, 16)])
def test_residual_convolutions(size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    assert _taken_over(Convolutions(), torch.randn(size)) == 1  # the last one goes into the mean


def _function(fn: Callable[[Any, Any], Any]) -> Any:
    class Function(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(40, 40), torch.nn.Linear(40, 40)

        def forward(self, x: Any) -> Any:
            return fn(self, x)

    return Function()


@pytest.mark.parametrize(
    "fn",
    [
        lambda m, x: x + m.first(x),  # an input is the caller's
        lambda m, x: (h := m.first(x)) + m.second(h.flip(0)),
        lambda m, x: (h := m.first(x), h + m.second(torch.relu(h))),  # a result is the caller's
        lambda m, x: m.second((h := m.first(x)) + m.second(h)) + h.sum(0),  # read once more, later
        lambda m, x: m.second((h := m.first(x)) + m.second(h)) * h.t().mean(1),
    ],
)
def test_what_others_see_is_kept(fn: Callable[[Any, Any], Any]) -> None:
    torch.manual_seed(0)
    _taken_over(_function(fn), torch.randn(40, 40))
