"""Random tensor programs, scheduled automatically, compute what they say: in the interpreter and as machine code."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import RandomProgram, programs
from test_random_programs import assert_close, interpreted

import weft
from weft.auto import draft

EXAMPLES = int(os.environ.get("WEFT_RANDOM_AUTO", "75"))
#: Machines that this one can stand in for: vectors of other widths, fewer registers.
TARGETS = ("host", "x86-64-avx2", "x86-64-sse4")


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(programs(), st.sampled_from(TARGETS), st.booleans(), st.sampled_from(("fast", "strict")))
def test_automatic_schedules_keep_the_meaning(random: RandomProgram, target: str, eager: bool, numerics: Any) -> None:
    arguments = list(random.arguments.values())
    plain = weft.define(random.text, schedule="naive")
    op = weft.define(random.text, schedule="auto", numerics=numerics)
    with pytest.MonkeyPatch.context() as patched, np.errstate(all="ignore"):
        expected = interpreted(plain, arguments)
        if target != "host":
            patched.setenv("WEFT_TARGET", target)
        if eager:  # threads for the smallest of nests
            patched.setattr(draft, "THREAD_WORK", 1)
        compiled = op(*arguments)
        stepped = interpreted(op, arguments)
    compiled = compiled if isinstance(compiled, tuple) else (compiled,)
    text = f"{random.text}\n{target} {numerics} {'eager' if eager else ''}\n{op.schedule(*arguments).trace}"
    for output, fast, slow, wanted in zip(op.interface.outputs, compiled, stepped, expected):
        exact = random.exact and numerics == "strict"  # "fast" fuses products into sums, which rounds once less
        assert_close(f"{output.name}: scheduled, interpreted", text, slow, wanted, exact=exact)
        assert_close(f"{output.name}: scheduled, compiled", text, fast, wanted, exact=exact)
