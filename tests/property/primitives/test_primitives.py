"""Every schedule primitive, tried on small programs: each step that its check accepts keeps what the program means.

`bulk_primitives` does the same with fresh seeds, for as long as one likes; `make soak` runs it.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from primitive_arguments import ARGUMENTS
from primitive_recipes import BEFORE, FAST, TOPICS
from primitive_walk import Walk, draw_case, reach
from shrink_steps import replay, script, shrink
from small_programs import listed

import weft
from weft.schedules.rewrite import PRIMITIVES
from weft.schedules.trace import parse_trace

#: Steps of each primitive that are accepted, at least, and programs that are tried for them, at most.
ACCEPTED, PROGRAMS = 6, 200
CHAINS = 80


def refuse_faults(walk: Walk) -> None:
    if walk.faults:
        smallest = shrink(walk.faults[0])
        pytest.fail(f"{smallest}\n{script(smallest)}", pytrace=False)


def test_every_primitive_has_arguments_to_try() -> None:
    assert {*ARGUMENTS} == {*PRIMITIVES}
    assert {*BEFORE, *TOPICS, *FAST} <= {*PRIMITIVES}


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_accepted_steps_keep_the_meaning(name: str, first_seed: int) -> None:
    walk = Walk(random.Random(f"{name}{first_seed}"), compiled=0.15)
    reach(walk, name, ACCEPTED, PROGRAMS)
    refuse_faults(walk)
    assert first_seed or walk.counts.get(name, Counter())["accepted"] >= ACCEPTED, (
        "hardly reached: programs are missing"
    )


@pytest.mark.parametrize("part", range(8))
def test_chains_of_steps_keep_the_meaning(part: int, first_seed: int) -> None:
    walk = Walk(random.Random(f"chains{part}{first_seed}"), compiled=0.02)
    for _ in range(CHAINS // 8):
        case = draw_case(walk.rng)
        if case is not None:
            walk.visit(case, walk.rng.sample(sorted(PRIMITIVES), 6), chains=5)
    refuse_faults(walk)


@pytest.mark.parametrize("text", listed(), ids=lambda text: text[4 : text.index("(")])
def test_listed_programs_mean_something(text: str) -> None:
    assert weft.define(text).program.statements


def test_a_wrong_step_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that accepts everything is noticed, and told with no more steps than it takes."""
    from weft.poly.verdict import OK

    monkeypatch.setitem(PRIMITIVES, "reorder", PRIMITIVES["reorder"]._replace(check=lambda *args, **kwargs: OK))
    walk = Walk(random.Random(0))
    reach(walk, "reorder", 300, PROGRAMS)
    wrong = [fault for fault in walk.faults if fault.primitive == "reorder" and fault.kind == "wrong"]
    assert wrong
    smallest = shrink(wrong[0])
    assert [step.name for step in parse_trace(smallest.trace)] == ["reorder"]
    assert replay(smallest.setting, parse_trace(smallest.trace).steps) is not None
