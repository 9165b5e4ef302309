"""At the end of a run: how many tests were skipped, and why, by kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

#: Kinds that are told; the rest is counted.
_MOST = 20


def skip_reasons(reports: list[Any]) -> Counter[str]:
    """How often each reason was given."""
    reasons: Counter[str] = Counter()
    for report in reports:
        told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons["".join(told.removeprefix("Skipped: ").splitlines()[:1]) or "no reason"] += 1
    return reasons


def summary_lines(reports: list[Any]) -> list[str]:
    reasons = skip_reasons(reports).most_common()
    lines = [f"{count:>6}  {reason}" for reason, count in reasons[:_MOST]]
    rest = sum(count for _, count in reasons[_MOST:])
    return lines + ([f"{rest:>6}  for {len(reasons) - _MOST} other reasons"] if rest else [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"{len(skipped)} tests were skipped")
        terminalreporter.write_line("\n".join(summary_lines(skipped)))
