"""What programs of HeCBench print: whether their own check passed, numbers to compare, times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

_PASSED = re.compile(
    r"\b(pass(ed)?|match(es|ed)?|succe(ss|eded)|successful(ly)?|correct|verified|validated)\b", re.IGNORECASE
)
FAILED = re.compile(
    r"\b(fail(s|ed|ure|ures)?|mismatch\w*|incorrect\w*|wrong|not (equal|match|correct)|unsuccessful)\b", re.IGNORECASE
)
_NONE_FAILED = re.compile(
    r"\b(no|0|zero)\s+(fail|mismatch|incorrect|wrong|error)|(fail\w*|mismatch\w*|wrong)\D{0,12}\b0\b(?!\.\d*[1-9])",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"time|clock|cycles|\d\s*\(?(s|ms|us|ns|sec\w*)\)?\b|\bseconds?\b|[GM]B/s|[GMT]?FLOP|through|bandwidth|speed|fps|perf|elapsed|duration"
    r"|per second|latency|/s\b|0x[0-9a-f]{6}",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan\b|inf\b)")


def refused_kernels(printed: str) -> tuple[str, ...]:
    return tuple(m.group(1) for m in re.finditer(r"^(\S+?: thread by thread: .*)$", printed, re.MULTILINE))


def without_report(printed: str) -> str:
    """What the program itself printed: the report of `weft cuda run` comes at the end."""
    return (
        printed.partition(": thread by thread: ")[0].rpartition("\n")[0]
        if ": thread by thread: " in printed
        else printed
    )


def own_check(printed: str) -> str:
    """What the program says of its results: ``passed``, ``failed`` or nothing."""
    lines = without_report(printed).splitlines()
    if any(FAILED.search(line) and not _NONE_FAILED.search(line) for line in lines):
        return "failed"
    return "passed" if any(_PASSED.search(line) or _NONE_FAILED.search(line) for line in lines) else ""


def numbers(printed: str) -> list[float]:
    """The numbers of lines that do not tell times."""
    lines = (line for line in printed.splitlines() if not _TIMES.search(line))
    return [float(n) for line in lines for n in _NUMBER.findall(line)]


def close(some: Sequence[float], others: Sequence[float]) -> bool:
    return all(
        a == b or abs(a - b) <= 1e-6 + 2e-3 * max(abs(a), abs(b)) or (a != a and b != b)
        for a, b in zip(some, others, strict=True)
    )


def first_line(pattern: re.Pattern[str], text: str) -> str:
    return next((line.strip()[:160] for line in text.splitlines() if pattern.search(line)), "")


def printed_times(printed: str) -> Iterator[tuple[str, float]]:
    """Lines that tell the time of kernels: what they say, and how long."""
    seen: Counter[str] = Counter()
    for line in printed.splitlines():
        found = re.search(
            r"(.*time.*?[:=]?\s*)([\d.]+(?:e[-+]?\d+)?)\s*\(?(s|ms|us|ns|sec\w*)\b", line, re.IGNORECASE
        ) or re.search(r"(.*time.*\((?:s|ms|us|ns|sec\w*)\)\D*)([\d.]+(?:e[-+]?\d+)?)()", line, re.IGNORECASE)
        if found and "host" not in line.lower() and "cpu" not in line.lower():
            label = re.sub(r"[\d.]+", "#", found.group(1)).strip().lower() + found.group(3)
            seen[label] += 1
            yield f"{label} {seen[label]}", float(found.group(2))
