"""What a subscript is away from the borders it is cut off at or wraps around."""

from __future__ import annotations

import pytest

from weft.ir.borders import away_from_borders
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import Store
from weft.ir.visit import loads, walk


@pytest.mark.parametrize(
    ("subscript", "inside"),
    [
        ("max(min(i + k - 1, 9), 0)", "i + k - 1"),
        ("min(9, i + 1)", "i + 1"),
        ("(i + 9) % 10", "i - 1"),
        ("(i + k) % 10", "i + k"),
        ("min((i + 3) % 18, 18 - (i + 3) % 18)", "i + 3"),
        ("i + 2 * k", "i + 2 * k"),
    ],
)
def test_subscripts(subscript: str, inside: str) -> None:
    nest = f"for i in 0:10 {{ for k in 0:2 {{ B[i] = A[{subscript}] }} }}"
    text = f"kernel t(A: float32[10], out B: float32[10]) {{ {nest} }}"
    (store,) = (n for n in walk(parse_kernel(text)) if isinstance(n, Store))
    (load,) = loads(store)
    assert print_expr(away_from_borders(load.indices[0])) == inside
