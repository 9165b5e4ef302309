"""What surely waits for ever on a GPU is refused; what threads may agree on is not."""

from __future__ import annotations

import pytest

from weft.ir.errors import UnsupportedError
from weft.ir.parser import parse_kernel
from weft.passes.to_grid.check_divergence import check_divergence


def program(body: str) -> str:
    return f"""kernel k(A: int32[64], out B: int32[64]) {{ block b in 0:1 {{ alloc S: int32[64] in shared
      thread u in 0:2 {{ thread t in 0:32 {{ S[u * 32 + t] = A[t] {body} B[u * 32 + t] = S[63 - t] }} }} }} }}"""


@pytest.mark.parametrize(
    "body", ["if t < 16 { barrier(block) }", "if u == 0 { for i in 0:2 { barrier(block) } } else { B[0] = 1_i32 }"]
)
def test_some_threads_never_come(body: str) -> None:
    with pytest.raises(UnsupportedError, match="a block barrier in an `if` that threads decide differently"):
        check_divergence(parse_kernel(program(body)))


@pytest.mark.parametrize(
    "body",
    [
        "if t < 32 { barrier(block) }",
        "if A[0] > 0_i32 { barrier(block) }",
        "if A[t] > 0_i32 { barrier(block) }",
        "if b == 0 { barrier(block) }",
        "if u == 0 { barrier(warp) }",
        "if t >= 16 { return } if t < 16 { barrier(block) }",
    ],
)
def test_threads_may_agree(body: str) -> None:
    kernel = parse_kernel(program(body))
    assert check_divergence(kernel) is kernel
