"""Variables that say whether a test held are the test."""

from __future__ import annotations

import pytest
from test_passes_live_ranges import inlined


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("let ok: bool = false if t < 9 { ok = true B[t] = 1 } barrier(block) if ok { B[t] = B[t] + A[t] }", 0),
        (  # assigned in a loop: what it was last lives on, and is asked for in the loop by the test
            "let ok: bool = false for i in 0:3 { ok = false if t < 9 - i { ok = true B[t] = i } barrier(block) "
            "if ok { B[t] = B[t] + A[t] } } if ok { B[t] = 0 - B[t] }",
            1,
        ),
        ("let ok: bool = false if A[t] < 9 { ok = true B[t] = 1 } if ok { B[t] = B[t] + A[t] }", 1),  # memory
        ("let ok: bool = true if t < 9 { ok = true B[t] = 1 } if ok { B[t] = B[t] + A[t] }", 0),  # true, always
        ("let ok: bool = false if t < 9 { B[t] = 1 ok = true } if ok { B[t] = B[t] + A[t] }", 1),  # told later
        ("let ok: bool = false if t < 9 { ok = true } else { B[t] = 1 } if ok { B[t] = B[t] + A[t] }", 1),
        (
            "let n: int64 = A[t] let ok: bool = false for i in 0:3 { ok = n < 9 n = n * 2 if ok { B[t] = B[t] + n } }",
            1,  # the test is of a variable that changes
        ),
        ("let ok: bool = false for i in 0:3 { ok = t < i if t > 7 { ok = t > i + 9 } if ok { B[t] = B[t] + 1 } }", 1),
        ("let ok: bool = false for i in 0:3 { if ok { B[t] = B[t] + 1 } ok = t < i }", 1),  # asked for in the next turn
    ],
)
def test_a_test_that_is_kept(body: str, left: int) -> None:
    assert inlined(body).count("if ok") == left
