"""How the tests run: what is built quickly, what as users get it, and what is said of those that did not run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from quick_builds import ONE_IN, is_as_shipped
from skip_summary import summary_lines

from weft.target.c import toolchain
from weft.target.cpu import llvm, lower
from weft.target.cpu.host import host_machine

TEXT = """
define i64 @sum(i64 %n) {
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %total = phi i64 [0, %0], [%more, %loop]
  %scaled = mul i64 %i, 12
  %more = add i64 %total, %scaled
  %next = add i64 %i, 1
  %is_left = icmp slt i64 %next, %n
  br i1 %is_left, label %loop, label %done
done:
  ret i64 %more
}
"""


@pytest.mark.parametrize("n", range(4 * ONE_IN))
def test_some_tests_run_what_ships(n: int, request: pytest.FixtureRequest) -> None:
    """Others are quick; the patches that make them so are in place."""
    is_shipped = is_as_shipped(request.node.nodeid)
    flags = toolchain.build_flags(host_machine(), fast=True)
    assert ("-O3" in flags, "-O1" in flags) == (is_shipped, not is_shipped)


def test_a_fair_share_is_as_shipped() -> None:
    names = [f"tests/unit/auto/test_it.py::test_that[{n}]" for n in range(200 * ONE_IN)]
    assert 100 < sum(map(is_as_shipped, names)) < 300
    own = [f"tests/unit/test_test_runs.py::test_some_tests_run_what_ships[{n}]" for n in range(4 * ONE_IN)]
    assert 0 < sum(map(is_as_shipped, own)) < len(own)


@pytest.mark.parametrize("n", range(4 * ONE_IN))
@pytest.mark.usefixtures("quick_code")
def test_some_machine_code_is_what_ships(n: int, request: pytest.FixtureRequest) -> None:
    made = lower.compile_llvm(TEXT, host_machine())
    is_optimized = made == llvm.compile_llvm(TEXT, host_machine())
    assert is_optimized == is_as_shipped(request.node.nodeid)


def skipped(reason: str) -> SimpleNamespace:
    return SimpleNamespace(longrepr=("test_x.py", 3, f"Skipped: {reason}"))


def test_reasons_for_skips_are_told_by_kind() -> None:
    reports = [skipped("no GPU")] * 12 + [skipped("this host has no AMX"), skipped("needs root\nmore"), skipped("")]
    assert summary_lines(reports)[0] == "    12  no GPU"
    assert "     1  needs root" in summary_lines(reports)
    assert "     1  no reason" in summary_lines(reports)
    many = [skipped(f"reason {n}") for n in range(23)]
    assert summary_lines(many)[-1] == "     3  for 3 other reasons"
