"""Formulas that are equal are proved so; others are refused with a witness; what cannot be decided is told."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pairs import read_pairs

import weft
from weft.algebra.equal import Equality
from weft.poly import isl_oracle

EQUAL = {**read_pairs("equal.txt"), **read_pairs("more.txt")}
APART = read_pairs("apart.txt")


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    found = weft.equal(*EQUAL[name])
    assert found.answer is True, found
    assert found.steps


@pytest.mark.parametrize("name", APART)
def test_other_formulas_are_refused_with_a_witness_seen_on_arrays(name: str) -> None:
    found = weft.equal(*APART[name])
    assert found.answer is False, found
    if name == "heads taken apart the other way":  # too large to evaluate; the formulas hold nothing opaque
        return
    assert found.witness is not None
    assert found.witness.values is not None, found


def test_each_pair_is_equal_to_itself_and_refused_both_ways_round() -> None:
    for name, (first, second) in APART.items():
        assert weft.equal(first, first), name
        assert weft.equal(second, first).answer is False, name


def f(body: str, params: str = "float(N) A, float(N) B") -> str:
    return f"def f({params}) -> (C) {{ {body} }}"


def test_numerics_say_what_is_assumed() -> None:
    def of(first: str, second: str, params: str = "float(N) A, float(N) B") -> str | None:
        found = weft.equal(f(first, params), f(second, params))
        assert found, found
        return found.numerics

    assert of("C(i) = A(i)", "T(i) = A(i)\n C(i) = T(i)") == "exact"
    assert of("C(i) = A(i) * B(i) * B(i) + A(i)", "C(i) = A(i) + A(i) * B(i) * B(i)") == "fast"
    assert of("C(i) = A(i) / B(i) * B(i)", "C(i) = A(i)") == "finite"
    assert of("C(i) = A(i) + B(i) - A(i)", "C(i) = B(i)") == "finite"
    integers = "int32(N) A, int32(N) B"
    assert of("C(i) = A(i) + B(i) - A(i)", "C(i) = B(i)", integers) == "exact"


def test_nothing_is_said_where_it_is_not_known() -> None:
    found = weft.equal(f("C(i) = erf(A(i)) + B(i)"), f("C(i) = 1.0 - erfc(A(i)) + B(i)"))
    assert found.answer is None
    assert found.reason is not None
    assert "no arrays show" in found.reason
    assert not found


def test_recurrences_are_not_decided() -> None:
    scan = f("C(0) = A(0)\n C(i) = C(i-1) + A(i) where i in 1:8", "float(8) A")
    assert weft.equal(scan, scan).reason == "C is a recurrence"


def test_strides_are_decided_when_given() -> None:
    first = "def f(float(N) A, int S) -> (C) { C(i) = A(S*i) where i in 0:8 }"
    second = "def g(float(N) A, int S) -> (C) { T(i) = A(i)\n C(i) = T(S*i) where i in 0:8 }"
    assert weft.equal(first, second).answer is None
    assert weft.equal(first, second, sizes={"S": 3})


def test_interfaces_that_differ_are_told() -> None:
    assert weft.equal(f("C(i) = A(i) + B(i)"), f("C(i) = A(i)", "float(N) A")).answer is False
    assert "float32" in str(weft.equal(f("C(i) = A(i)"), f("C(i) = A(i)", "float(N) A, float64(N) B")))


def test_operators_and_texts_compare() -> None:
    op = weft.define(f("C(i) = 2 * A(i) + B(i)"))
    assert weft.equal(op, f("C(i) = A(i) + (B(i) + A(i))"))
    with pytest.raises(weft.ArgumentError, match="equal takes formulas"):
        weft.equal(op, 3)  # type: ignore[arg-type]


def test_sizes_of_zero_and_one() -> None:
    whole = f("C(i) +=! A(j) * B(i)")
    assert weft.equal(whole, f("s +=! A(j)\n C(i) = s * B(i)"), sizes={"N": 0})
    assert weft.equal(f("C +=! A(j)"), f("C = A(0)"), sizes={"N": 1})
    assert weft.equal(f("C +=! A(j)", "float(N) A"), f("C = A(0)", "float(1) A"))


def test_thousands_of_terms() -> None:
    def of(terms: list[str]) -> str:
        parts = [" + ".join(terms[n : n + 100]) for n in range(0, len(terms), 100)]
        lines = [f"t{n} = {part}" for n, part in enumerate(parts)]
        return f("\n".join([*lines, "C = " + " + ".join(f"t{n}" for n in range(len(parts)))]), "float(100) A")

    terms = [f"{n % 7 + 1} * A({n % 89})" for n in range(2_000)]
    assert weft.equal(of(terms), of(terms[::-1]))


def test_too_many_products_are_not_decided() -> None:
    power = f("C(i) = " + " * ".join(["(A(i) + B(i) + A(i) * B(i))"] * 12))
    assert "products" in str(weft.equal(power, power).reason)


def test_isl_that_dies_or_hangs_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = EQUAL["a sum split at its middle"]
    monkeypatch.setattr(
        isl_oracle, "python_command", lambda code: [sys.executable, "-c", "print('\"ready\"', flush=True)"]
    )
    isl_oracle._worker.stop()
    dead = weft.equal(*halves)
    assert dead.answer is None
    slow = "import time; print('\"ready\"', flush=True); time.sleep(60)"
    monkeypatch.setattr(isl_oracle, "python_command", lambda code: [sys.executable, "-c", slow])
    isl_oracle._worker.stop()
    late = weft.equal(*halves, seconds=0.2)
    assert (late.answer, late.reason) == (None, "isl gave no answer in time")
    monkeypatch.undo()
    isl_oracle._worker.stop()
    assert weft.equal(*halves)


def test_an_answer_prints() -> None:
    found = weft.equal(f("C(i) = A(i) + B(i)"), f("C(i) = A(i) + 2 * B(i)"))
    assert isinstance(found, Equality)
    assert "B(0) counts 1 and 2 times; on arrays, " in str(found)
    assert np.isfinite(found.seconds)


def test_command_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.weft").write_text(f("C(i) = A(i) + B(i)"))
    (tmp_path / "b.weft").write_text(f("C(i) = B(i) + A(i)"))
    (tmp_path / "c.weft").write_text(f("C(i) = B(i) - A(i)"))

    def ask(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weft", "equal", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    same, other, wrong = ask("a.weft", "b.weft"), ask("a.weft", "c.weft"), ask("a.weft", "b.weft", "--size", "N")
    assert (same.returncode, same.stdout[:5]) == (0, "equal")
    assert (other.returncode, other.stdout[:9]) == (1, "not equal")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "--size takes NAME=VALUE" in wrong.stderr
