"""The integer solver against isl on random systems, and against enumeration in a box."""

from __future__ import annotations

import itertools
import os
import random
import signal

import pytest

from weft.ir.solve import UNKNOWN, Form, combine, evaluate, solve
from weft.poly import isl_oracle
from weft.poly.isl_oracle import ask_isl, set_text
from weft.poly.isl_worker import answer


def random_form(rng: random.Random, names: str, largest: int) -> Form:
    form = {n: rng.randint(-largest, largest) for n in rng.sample(names, rng.randint(1, min(3, len(names))))}
    form[""] = rng.randint(-12, 12)
    return {n: c for n, c in form.items() if c}


def random_system(rng: random.Random) -> tuple[list[Form], list[Form], list]:
    names = "vwxyz"[: rng.randint(1, 5)]
    largest = rng.choice([1, 2, 3, 7, 20])
    equations = [random_form(rng, names, largest) for _ in range(rng.randint(0, 2))]
    inequalities = [random_form(rng, names, largest) for _ in range(rng.randint(0, 6))]
    for n in names:
        if rng.random() < 0.6:
            low = rng.randint(-5, 5)
            inequalities += [{n: 1, "": -low}, {n: -1, "": low + rng.randint(0, 12)}]
    clauses = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        literals = [(random_form(rng, names, largest), rng.random() < 0.3) for _ in range(4)]
        clauses.append([literals[:2], literals[2:3], literals[3:]][: rng.randint(1, 3)])
    return equations, inequalities, clauses


def satisfies(point: dict[str, int], equations: list[Form], inequalities: list[Form], clauses: list) -> bool:
    literals = [(f, True) for f in equations] + [(f, False) for f in inequalities]

    def holds(form: Form, is_equation: bool) -> bool:
        found = evaluate(form, point)
        return found == 0 if is_equation else found >= 0

    return all(holds(*x) for x in literals) and all(any(all(holds(*x) for x in a) for a in c) for c in clauses)


@pytest.mark.parametrize("chunk", range(4))
def test_agrees_with_isl(chunk: int, first_seed: int) -> None:
    pytest.importorskip("islpy")
    empty = unknown = 0
    for seed in range(first_seed + chunk * 500, first_seed + (chunk + 1) * 500):
        system = random_system(random.Random(seed))
        found = solve(*system)
        if found is UNKNOWN:
            unknown += 1
            continue
        truth = answer(set_text(*system)[0])["point"]
        assert (found is None) == (truth is None), f"seed {seed}: {system}: {found} but isl {truth}"
        if found is None:
            empty += 1
        else:
            assert satisfies(found, *system), f"seed {seed}: {found} does not solve {system}"
    assert 50 < empty < 450, "the systems are all alike"
    assert first_seed or unknown <= 5


def test_agrees_with_enumeration(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 300):
        rng = random.Random(seed)
        names = "xyz"
        forms = [random_form(rng, names, 5) for _ in range(3)]
        equation = [random_form(rng, names, 5)] if rng.random() < 0.5 else []
        box = [f for n in names for f in ({n: 1, "": 2}, {n: -1, "": 3})]
        found = solve(equation, forms + box)
        points = (dict(zip(names, p)) for p in itertools.product(range(-2, 4), repeat=3))
        truth = any(satisfies(p, equation, forms, []) for p in points)
        assert (found is not None) == truth, seed


@pytest.mark.parametrize(
    ("equations", "inequalities", "expected"),
    [
        ([{"x": 2, "": -1}], [], False),  # an odd number is no multiple of two
        ([{"x": 6, "y": 9, "": -4}], [], False),
        ([{"x": 6, "y": 10, "": -4}], [], True),
        # Between 1/3 and 2/3 lies no integer: the rationals have a solution, the integers none.
        ([], [{"x": 3, "": -1}, {"x": -3, "": 2}], False),
        # Pugh's example: 27 <= 11x + 13y <= 45 and -10 <= 7x - 9y <= 4 has rational points only.
        (
            [],
            [
                {"x": 11, "y": 13, "": -27},
                {"x": -11, "y": -13, "": 45},
                {"x": 7, "y": -9, "": 10},
                {"x": -7, "y": 9, "": 4},
            ],
            False,
        ),
        ([], [{"x": 1}, {"y": 1, "x": -1, "": -1}, {"n": 1, "y": -1, "": -1}], True),
        ([{"x": 1, "y": -1}], [{"y": 1, "x": -1, "": -1}], False),
    ],
)
def test_known_systems(equations: list[Form], inequalities: list[Form], expected: bool) -> None:
    assert (solve(equations, inequalities) is not None) == expected


def test_prefers_values_near_zero() -> None:
    point = solve([], [{"k": 1}, {"n": 1, "k'": -1, "": -1}, {"k'": 1, "k": -1, "": -1}])
    assert point == {"k": 0, "k'": 1, "n": 2}


def test_gives_up_within_its_budget() -> None:
    rng = random.Random(1)
    names = [f"x{i}" for i in range(12)]
    forms = [{**{n: rng.randint(-50, 50) or 1 for n in names}, "": rng.randint(-9, 9)} for _ in range(40)]
    assert solve([], forms, budget=2000) is UNKNOWN


def test_isl_in_its_own_process() -> None:
    pytest.importorskip("islpy")
    assert ask_isl([{"x": 2, "": -1}], []) is None
    assert ask_isl([{"x": 2, "": -4}], []) == {"x": 2}
    assert ask_isl([], [{"x": 1, "": -7}, {"x": -1, "": 9}], [[[({"x": 1, "": -9}, True)], []]]) in (
        {"x": n} for n in (7, 8, 9)
    )


def test_a_late_isl_is_given_up_on() -> None:
    pytest.importorskip("islpy")
    assert ask_isl([{"x": 2, "": -4}], []) == {"x": 2}
    os.kill(isl_oracle._worker.process.pid, signal.SIGSTOP)  # as busy as isl can be
    assert ask_isl([{"x": 2, "": -4}], [], seconds=0.05) is UNKNOWN
    assert ask_isl([{"x": 2, "": -4}], []) == {"x": 2}


def _spread_rows(mark: str) -> list[dict[str, int]]:
    """Where a thread of a grid over 64 x 112 x 112 x 32 results is: quotients and remainders of its number."""
    block, thread, turn, lane = (f"{name}{mark}" for name in ("block", "thread", "turn", "lane"))
    image, rows, row, eighth, column = (f"q{n}{mark}" for n in range(5))
    ranges = {block: 6271, thread: 255, turn: 3, lane: 3}
    quotients = (
        ({block: 1}, 98, image),
        ({block: 1024, turn: 256, thread: 1}, 896, rows),
        ({rows: 1}, 112, row),
        ({thread: 1}, 8, eighth),
        ({block: 128, turn: 32, eighth: 1}, 112, column),
    )
    forms = [form for name, most in ranges.items() for form in ({name: 1}, {"": most, name: -1})]
    for whole, divisor, quotient in quotients:
        opposite = {name: -c for name, c in whole.items()}
        forms += [{**whole, quotient: -divisor}, {"": divisor - 1, **opposite, quotient: divisor}]
    return forms


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_names_does_not_decide(seed: int) -> None:
    places = (
        {"q0": 1}, {"q1": 1, "q2": -112}, {"block": 128, "turn": 32, "q3": 1, "q4": -112},
        {"thread": 4, "q3": -32, "lane": 1},
    )  # fmt: skip
    equations = [combine(place, {f"{n}'": c for n, c in place.items()}, -1) for place in places]
    inequalities = [{"block'": 1, "block": -1, "": -1}, *_spread_rows(""), *_spread_rows("'")]
    names = sorted({name for form in inequalities for name in form if name})
    numbers = random.Random(seed).sample(range(len(names)), len(names))
    new = {"": "", **{name: f"v{number:02}" for name, number in zip(names, numbers)}}
    renamed = [[{new[n]: c for n, c in form.items()} for form in forms] for forms in (equations, inequalities)]
    assert solve(*renamed) is None


def test_what_has_no_answer_has_none_under_other_names_and_nothing_else_is_taken_for_it() -> None:
    """Questions without an answer are remembered by their numbers alone."""

    def question(a: str, b: str, last: int) -> object:
        ranges: list[Form] = [{a: 1}, {a: -1, "": 3}, {b: 1}, {b: -1, "": last}]
        return solve([{a: 8, b: 1, "": -30}], ranges)

    assert question("x", "y", 5) is None
    assert question("t", "s", 5) is None
    assert question("y", "x", 6) == {"y": 3, "x": 6}
    # The same numbers at other variables: 8x + x - 30 has no root, 8x + y - 30 has.
    assert solve([{"x": 9, "": -30}], [{"x": 1}]) is None
    assert solve([{"x": 8, "y": 1, "": -30}], [{"x": 1}, {"y": 1}]) is not None


@pytest.mark.parametrize("seed", range(40))
def test_random_systems_have_the_same_answer_when_asked_again(seed: int) -> None:
    equations, inequalities, clauses = random_system(random.Random(seed))
    assert (solve(equations, inequalities, clauses) is None) == (solve(equations, inequalities, clauses) is None)
    renamed = [[{n and f"{n}_1": c for n, c in form.items()} for form in forms] for forms in (equations, inequalities)]
    other = [[[({n and f"{n}_1": c for n, c in f.items()}, e) for f, e in a] for a in clause] for clause in clauses]
    assert (solve(*renamed, other) is None) == (solve(equations, inequalities, clauses) is None)
