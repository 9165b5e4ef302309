"""Whole programs with every access of their kernels watched: what the runtime library wrote down, as a report."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from weft.from_cuda.demangle import last_part, short_name
from weft.from_cuda.kept_program import build_or_take
from weft.from_cuda.nvcc_options import BuildOptions
from weft.from_cuda.toolchain import INCLUDE, NATIVE
from weft.ir.span import Source, Span
from weft.sanitizer.findings import Finding, Party

#: The exit code of a program that took too long, as `timeout` has it, and seconds that it has to say where it was.
ENDED, _GRACE = 124, 10


@dataclass(slots=True)
class ProgramReport:
    """What a run of a program showed; ``code`` is the program's own exit code."""

    name: str
    code: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        count = len(self.findings)
        ended = f"`{self.name}` ended with exit code {self.code}"
        if self.ok:
            return f"{ended}, nothing found"
        return "\n\n".join([f"{ended}, {count} finding{'s' * (count != 1)}", *map(str, self.findings)])


def check_program(
    options: BuildOptions,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    ignored: Collection[str] = (),
    seconds: int | None = None,
) -> ProgramReport:
    """Builds the program of ``options``, runs it watched, for ``seconds`` at most, and reports; findings of ``ignored``
    kinds are left out."""
    options.watched = True
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        code, findings = run_watched(build_or_take(options, Path(folder)), arguments, environment, seconds)
    return ProgramReport(options.files[0].name, code, [f for f in findings if f.kind not in ignored])


def run_watched(
    program: Path, arguments: Sequence[str], environment: Mapping[str, str], seconds: int | None = None
) -> tuple[int, list[Finding]]:
    """The exit code of a program that was built to be watched, and what was found."""
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        found = Path(folder) / "findings"
        watched = {**environment, **watching(found)}
        if seconds is not None:  # it ends itself, and says where it was
            watched["WEFT_CUDA_CHECK_SECONDS"] = str(seconds)
        try:
            late = None if seconds is None else seconds + _GRACE
            code = subprocess.run([str(program), *arguments], env=watched, check=False, timeout=late).returncode
        except subprocess.TimeoutExpired:
            code = ENDED
        findings = read_findings(found, program)
    if code < 0:
        what = f"the program was ended by signal {-code}"
        findings.append(Finding("crash", what, (), help="`weft cuda run --serial` under gdb shows where"))
    return code, findings


def watching(found: Path) -> dict[str, str]:
    """The environment in which a program that was built to be watched writes down in ``found`` what it finds."""
    return {"WEFT_CUDA_CHECK": str(found), "WEFT_CUDA_SERIAL": "1"}


def read_findings(found: Path, program: Path, sources: Mapping[str, Source] | None = None) -> list[Finding]:
    """The findings that ``program`` wrote down, one a line; at the end come numbers of how many are like one.

    ``sources`` are texts, by the names of files that are not there any more.
    """
    lines = found.read_text(errors="replace").splitlines() if found.exists() else []
    rows = [json.loads(line) for line in lines]
    places = _host_places({a for row in rows for p in row.get("parties", ()) for a in p.get("stack", ())}, program)
    findings = [_finding(row, places, sources or {}) for row in rows if "kind" in row]
    for row in rows:
        if "number" in row:
            findings[row["number"]].count = row["count"]
    return causes_first(join_leaks(findings))


def join_leaks(findings: Sequence[Finding]) -> list[Finding]:
    """Leaks of one line as one: a loop that is written out allocates in several places."""
    joined: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        size = _LEAK.match(finding.what)
        span = finding.parties[0].span if finding.parties else None
        known = finding.kind == "leak" and size is not None and span is not None
        key = (span.source.name, span.line, size[3]) if known and span and size else number
        first = joined.setdefault(key, finding)
        if first is not finding:
            first.count += finding.count
        if known and size and (finding.count > 1 or first is not finding):
            first.what = _leaked(first, finding, size)
    for finding in joined.values():
        finding.count = 1 if finding.kind == "leak" and finding.count > 1 else finding.count
    return list(joined.values())


_LEAK = re.compile(r"(\d+) bytes( in \d+ pieces)? (.*)$")


def _leaked(first: Finding, last: Finding, size: re.Match[str]) -> str:
    """All that was lost: of a finding with a number, that many of its size."""
    before = _LEAK.match(first.what)
    assert before is not None
    lost = int(size[1]) * last.count + (int(before[1]) if first is not last else 0)
    return f"{lost} bytes in {first.count} pieces {size[3]}"


def causes_first(findings: Sequence[Finding]) -> list[Finding]:
    """A barrier that threads miss comes before what follows from it in the same kernel."""

    def place(number: int) -> tuple[int, int, int]:
        kernel = findings[number].what.rpartition(" (in kernel ")[2]
        first = next(n for n, f in enumerate(findings) if n == number or f.what.endswith(f"(in kernel {kernel}"))
        return first, findings[number].kind != "divergent barrier", number

    return [findings[n] for n in sorted(range(len(findings)), key=place)]


@dataclass(frozen=True, slots=True)
class _Place:
    """A call of the host's: the function it is in, and where."""

    function: str
    file: str
    line: int


def _finding(row: Mapping[str, Any], places: Mapping[int, Sequence[_Place]], sources: Mapping[str, Source]) -> Finding:
    parties = tuple(_party(p, places, sources) for p in row["parties"])
    what = re.sub(r"`(_Z\w+)`", lambda m: f"`{short_name(m[1])}`", row["what"])
    called = _called(row, places)
    if called:
        what = re.sub(r"^a call gives", f"{called} gives", what)
    kernel = f" (in kernel `{short_name(row['kernel'])}`)" if row.get("kernel") else ""
    return Finding(row["kind"], what + kernel, parties, row["help"] or None)


def _called(row: Mapping[str, Any], places: Mapping[int, Sequence[_Place]]) -> str:
    """The function of CUDA's API that a finding of the host's is about."""
    names = [p.function for party in row["parties"][:1] for a in party.get("stack", ()) for p in places.get(a, ())]
    if "__cudaPushCallConfiguration" in names:
        return "a launch"
    return next((f"`{name}`" for name in names if re.match(r"cu(da)?[A-Z]|cublas|curand|cufft", name)), "")


def _party(row: Mapping[str, Any], places: Mapping[int, Sequence[_Place]], sources: Mapping[str, Source]) -> Party:
    if "stack" not in row:
        span = _span(row["file"], row["line"], sources) if "file" in row else None
        return Party(row["action"], row["who"], span)
    ours = (str(NATIVE), *map(str, INCLUDE))
    for address in row["stack"]:
        for place in places.get(address, ()):
            if place.line and not place.file.startswith(ours):
                return Party(row["action"], "host", _span(place.file, place.line, sources))
    return Party(row["action"], "host")


@cache
def _source(file: str) -> Source:
    try:
        text = Path(file).read_text(errors="replace")
    except OSError:
        text = ""
    return Source(file, text)


def _span(file: str, line: int, sources: Mapping[str, Source]) -> Span:
    """All of a line's text."""
    source = sources.get(Path(file).name) or _source(file)
    text = source.line(line)
    return Span(source, line, len(text) - len(text.lstrip()) + 1, len(text.rstrip()) + 1)


def _host_places(addresses: Collection[int], program: Path) -> dict[int, list[_Place]]:
    """Where calls are that return to ``addresses``: innermost first, functions that were inlined too."""
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not addresses or tool is None:
        return {}
    ordered = sorted(addresses)
    command = [tool, "-a", "-i", "-f", "-C", "-e", str(program), *(hex(a - 1) for a in ordered)]
    text = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace").stdout
    places: dict[int, list[_Place]] = {}
    for address, part in zip(ordered, re.split(r"^0x[0-9a-f]+\n", text, flags=re.MULTILINE)[1:]):
        lines = part.splitlines()
        places[address] = [_place(f, where) for f, where in zip(lines[::2], lines[1::2])]
    return places


def _place(function: str, where: str) -> _Place:
    file, _, line = where.partition(" ")[0].rpartition(":")
    return _Place(last_part(function), file, int(line) if line.isdigit() else 0)
