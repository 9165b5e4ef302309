"""Two hundred operators as newcomers write them: none silently wrong, each refusal with a help that works."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from newcomers.cases import Case, read_cases

import weft
from weft.ir.errors import Error

CASES = list(read_cases())
#: Every so many cases, one is scheduled as calls are, and by the others' neighbours.
EVERY = 6


def test_there_are_two_hundred() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 200


@pytest.mark.parametrize("case", [c for c in CASES if c.refused], ids=lambda c: c.name)
def test_refusals_say_what_would_work(case: Case) -> None:
    with pytest.raises(Error) as refused:
        _run(case, case.text, "naive", case.calls[0])
    assert refused.value.help or refused.value.why
    assert case.refused == "?" or refused.value.what.startswith(case.refused)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.name for c in CASES])
def test_what_is_accepted_is_what_numpy_says(number: int) -> None:
    case = CASES[number]
    text = case.mended_text if case.refused else case.text
    schedule = "auto" if number % EVERY == 0 else "naive"
    for call in case.calls:
        results = _run(case, text, schedule, call)
        wanted = case.oracle(case.arguments(call))
        for result, right in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            right = np.asarray(right)
            assert result.shape == right.shape
            exact = right.dtype.kind in "iub" and result.dtype.kind in "iub"
            tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 2e-4, "atol": 2e-5}
            np.testing.assert_allclose(result, right, **tolerance)


def _run(case: Case, text: str, schedule: str, call: str) -> Sequence[Any]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        op = weft.define(text, schedule=schedule)
        made = op(*case.arguments(call).values())
    names = [w.message.name for w in told if isinstance(w.message, weft.Warning)]
    assert sorted(set(names)) == sorted(set(case.remarks)), [str(w.message) for w in told]
    return made if isinstance(made, tuple) else (made,)
