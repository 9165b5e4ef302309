"""Device code in which every access to memory first asks the runtime library, with its line in the source.

Clang's text for the device has a load or a store for each access of the source (nothing is optimized yet). Before each
of them that may leave a thread's own variables comes a call of ``weft_watch``, which says where the access may go: to
the place itself, or to a spare one where the access is wrong, so that a program runs on and more is found. Functions of
our headers (atomics, vector types) have no line of their own: theirs is the line that called them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from weft.from_cuda.device_text import text_constant, type_after

_NAME = r'@(?:"[^"]+"|[\w.$]+)'
_POINTER = rf"(?P<pointer>%[\w.]+|{_NAME}|(?:getelementptr|bitcast)\b.*\))"
_TAIL = r'(?P<tail>(?: syncscope\("[^"]*"\))?(?: \w+)?, align (?P<align>\d+).*)$'
_LOAD = re.compile(rf"^(?P<head>  %[\w.]+ = load (?P<mode>(?:atomic |volatile )*)(?P<type>.+?), ptr ){_POINTER}{_TAIL}")
_STORE = re.compile(
    rf"^(?P<head>  store (?P<mode>(?:atomic |volatile )*)(?P<value>(?P<type>\S+|<[^>]*>|\[.*?\]|\{{.*?\}}) .+?), ptr )"
    rf"{_POINTER}{_TAIL}"
)
_EXCHANGE = re.compile(
    rf"^(?P<head>  %[\w.]+ = (?:atomicrmw(?: volatile)? \w+|cmpxchg(?: weak)?(?: volatile)?) ptr ){_POINTER}"
    r"(?P<tail>, (?P<type>\S+) .*, align (?P<align>\d+).*)$"
)
_PLAIN = rf"(?:%[\w.]+|{_NAME})"
_COPY = re.compile(
    rf"^(?P<head>  call void @llvm\.mem(?:cpy|move|set)\.[\w.]+\(ptr (?:align (?P<align>\d+) )?)(?P<to>{_PLAIN})"
    rf"(?P<middle>, (?:ptr (?:align (?P<source_align>\d+) )?(?P<from>{_PLAIN})|i8 [^,]+), i64 )"
    r"(?P<bytes>[^,]+)(?P<tail>,.*)$"
)
_FUNCTION = re.compile(rf"^define [^@\n]*({_NAME})\(.*?^\}}$", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(
    rf"^({_NAME}) = ((?:internal thread_local |dso_local )?global )(.*?)(, align \d+)?$", re.MULTILINE
)
_INDEXED = re.compile(
    r"^  (%[\w.]+) = getelementptr [\w ]*?(?:%[\w.]+|\{.*\}|\[.*?\]|\w+), ptr (%[\w.]+)(.*?)(?:, !.*)?$"
)
_CALLED = re.compile(rf"^define internal void @weft_thread\.\d+\([^@]*?call void ({_NAME})", re.MULTILINE)
_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
#: Flags of `weft_watch`, as native/watch.h has them; alignment and the rest share a number.
_VOLATILE, _ATOMIC, _COPIED, _VALUED, _WRITES = 1, 2, 4, 8, 16
_DECLARED = """
declare ptr @weft_watch(ptr, i64, i64, ptr, i64)
declare ptr @weft_watch_local(ptr, i64, ptr, i64, ptr)
declare void @weft_watch_fence()
declare void @weft_watch_return()
declare void @weft_watch_shared(ptr, i64, ptr)
@weft_caller_site = external global ptr
"""


def _bytes_of(kind: str) -> str:
    return f"ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i64)"


@dataclass
class _Lines:
    """Where instructions come from: the text's own tables of lines, scopes and files."""

    text: str
    headers: str
    sites: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = r"^(!\d+) = (?:distinct )?!"
        self._where = {
            m[1]: (int(m[2]), int(m[3] or 0), m[4])
            for m in re.finditer(
                table + r"DILocation\(line: (\d+)(?:, column: (\d+))?, scope: (!\d+)", self.text, re.MULTILINE
            )
        }
        scopes = re.finditer(table + r"DI(?:Subprogram|LexicalBlock\w*)\(.*?file: (!\d+)", self.text, re.MULTILINE)
        self._scopes = {m[1]: m[2] for m in scopes}
        files = re.finditer(table + r'DIFile\(filename: "([^"]*)", directory: "([^"]*)"', self.text, re.MULTILINE)
        self._files = {m[1]: str((Path(m[3]) / m[2]).resolve()) for m in files}

    def file_of(self, scope: str) -> str:
        return self._files.get(self._scopes.get(scope, ""), "")

    def site(self, line: str) -> str:
        """The site of an instruction, or null where it is in a header of ours (or its place is not known)."""
        found = re.search(r"!dbg (!\d+)", line)
        number, _, scope = self._where.get(found[1] if found else "", (0, 0, ""))
        file = self.file_of(scope)
        if not number or not file or file.startswith(self.headers):
            return "null"
        return f"@weft_site.{self.sites.setdefault((file, number), len(self.sites))}"

    def is_return(self, line: str) -> bool:
        """Whether the source says `return` where the instruction comes from."""
        found = re.search(r"!dbg (!\d+)", line)
        number, column, scope = self._where.get(found[1] if found else "", (0, 0, ""))
        text = _source_lines(self.file_of(scope))
        return 0 < number <= len(text) and text[number - 1][column - 1 :].startswith("return")


def _stored(found: re.Match[str], line: str) -> str | None:
    """What a store writes, or what an atomic function adds (or sets, or flips) where zero would change nothing."""
    if "value" in found.groupdict():
        return found["value"].partition(" ")[2] if "atomic" not in found["mode"] else None
    added = re.search(r"atomicrmw(?: volatile)? (?:add|sub|or|xor) ptr .*, i\d+ (%?[-\w.]+)(?: syncscope| \w+,)", line)
    return added[1] if added else None


@cache
def _source_lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []


def watch_accesses(text: str, unit: str, headers: str) -> str:
    """``text`` of ``unit``, as `to_threads` gives it, with its accesses watched; ``headers`` is the folder of ours."""
    lines = _Lines(text, headers)
    in_headers = {
        m[1]
        for m in re.finditer(rf"^define [^@\n]*({_NAME})\(.*!dbg (!\d+) \{{$", text, re.MULTILINE)
        if lines.file_of(m[2]).startswith(headers)
    }
    kernels = set(_CALLED.findall(text))
    text = re.sub(r"@(malloc|free)\(", r"@weft_watch_\1(", text)

    def watch(found: re.Match[str]) -> str:
        if found[1].startswith("@weft_"):
            return found[0]
        return _Function(lines, in_headers, found[1] in kernels).watched(found[0])

    text, shared = _separate(_FUNCTION.sub(watch, text))
    return text + _DECLARED + _site_rows(lines) + _shared_rows(unit, shared)


def _separate(text: str) -> tuple[str, dict[str, str]]:
    """Variables with bytes behind them that are nobody's; the types of shared ones by name."""
    shared: dict[str, str] = {}

    def widen(found: re.Match[str]) -> str:
        name, how, rest, align = found.groups()
        if "thread_local" not in how and not name.startswith("@weft_variable."):
            return found[0]
        kind = type_after("", rest)
        if "thread_local" in how:
            shared[name] = kind
        value = f"{{ {kind}, [64 x i8] }} {{ {rest}, [64 x i8] zeroinitializer }}"
        return f"{name} = {how}{value}{align or ''}"

    return _VARIABLE.sub(widen, text), shared


def _site_rows(lines: _Lines) -> str:
    files = {file: number for number, file in enumerate(dict.fromkeys(file for file, _ in lines.sites))}
    rows = [text_constant(f"@weft_site_file.{number}", file) for file, number in files.items()]
    rows += [
        f"@weft_site.{number} = internal constant {{ ptr, i64 }} {{ ptr @weft_site_file.{files[file]}, i64 {line} }}, "
        'section "weft_sites", align 16\n'
        for (file, line), number in lines.sites.items()
    ]
    return "".join(rows)


def _shared_rows(unit: str, shared: dict[str, str]) -> str:
    """A function that tells where a unit's shared variables are for the thread that calls it, and a row for it."""
    body = [
        f"  call void @weft_watch_shared(ptr {name}, i64 {_bytes_of(kind)}, ptr @weft_shared_name.{number})\n"
        for number, (name, kind) in enumerate(shared.items())
    ]
    names = [text_constant(f"@weft_shared_name.{n}", name[1:].strip('"')) for n, name in enumerate(shared)]
    return (
        "".join(names) + f"define internal void @weft_tell_shared() {{\n{''.join(body)}  ret void\n}}\n"
        f"@weft_shared_row.{unit} = constant {{ ptr, ptr }} {{ ptr @weft_unit, ptr @weft_tell_shared }}, "
        'section "weft_shared", align 8\n'
    )


class _Function:
    """One function's instructions; what is known of its local variables."""

    def __init__(self, lines: _Lines, in_headers: set[str], is_kernel: bool) -> None:
        self.lines, self.in_headers, self.is_kernel = lines, in_headers, is_kernel
        self.count = 0
        #: Pointers into variables of the thread: the variable, its type, and whether a subscript moved them.
        self.local: dict[str, tuple[str, str, bool]] = {}

    def watched(self, body: str) -> str:
        out: list[str] = []
        for line in body.split("\n"):
            if self.is_kernel and "!dbg" in line and self.lines.is_return(line):
                out.append("  call void @weft_watch_return()")
            out += self._line(line)
        return "\n".join(out)

    def _line(self, line: str) -> list[str]:
        if " = alloca " in line:
            name, kind = re.match(r"  (%[\w.]+) = alloca (.*?), align", line).groups()  # type: ignore[union-attr]
            self.local[name] = (name, kind, False)
        elif "= getelementptr" in line:
            self._index(line)
        elif " = load " in line:
            return self._access(_LOAD.match(line), line, 0)
        elif line.startswith("  store "):
            return self._access(_STORE.match(line), line, _WRITES)
        elif " = atomicrmw " in line or " = cmpxchg " in line:
            return self._access(_EXCHANGE.match(line), line, _WRITES | _ATOMIC)
        elif "@llvm.mem" in line:
            return self._copy(line)
        elif line.startswith("  fence "):
            return [line, "  call void @weft_watch_fence()"]
        elif re.search(r"\bcall ", line):
            return [*self._called_from(line), line]
        return [line]

    def _index(self, line: str) -> None:
        found = _INDEXED.match(line)
        if found and found[2] in self.local:
            base, kind, moved = self.local[found[2]]
            self.local[found[1]] = (base, kind, moved or "%" in found[3])

    def _called_from(self, line: str) -> list[str]:
        """Remembers the line of a call into a header of ours, or into the runtime library."""
        called = re.search(rf"call [^@\n]*({_NAME})\(", line)
        site = self.lines.site(line)
        if called is None or site == "null" or called[1].startswith("@llvm."):
            return []
        is_known = called[1] in self.in_headers or called[1].startswith("@weft_")
        return [f"  store ptr {site}, ptr @weft_caller_site"] if is_known else []

    def _access(self, found: re.Match[str] | None, line: str, flags: int) -> list[str]:
        if found is None or re.search(r"@(?:threadIdx|blockIdx|blockDim|gridDim)\b", found["pointer"]):
            return [line]
        mode = found.groupdict().get("mode") or ""
        flags |= _VOLATILE * ("volatile" in mode) | _ATOMIC * ("atomic" in mode) | int(found["align"]) << 8
        pointer, size = found["pointer"], _bytes_of(found["type"])
        site = self.lines.site(line)
        before: list[str] = []
        value = "0"
        given = _stored(found, line)
        if flags & _WRITES and given is not None and found["type"] in _BITS:
            before, value = self._value(found["type"], given)
            flags |= _VALUED
        call = self._ask(pointer, size, flags, site, value)
        if call is None:
            return [line]
        return [*before, call, f"{found['head']}%weft.at.{self.count}{found['tail']}"]

    def _ask(self, pointer: str, size: str, flags: int, site: str, value: str = "0") -> str | None:
        """The call that watches an access; none is needed for a thread's own variables, where no subscript is."""
        self.count += 1
        call = f"  %weft.at.{self.count} = call ptr "
        if pointer in self.local:
            base, kind, moved = self.local[pointer]
            if not moved:
                return None
            return f"{call}@weft_watch_local(ptr {pointer}, i64 {size}, ptr {base}, i64 {_bytes_of(kind)}, ptr {site})"
        return f"{call}@weft_watch(ptr {pointer}, i64 {size}, i64 {flags}, ptr {site}, i64 {value})"

    def _value(self, kind: str, value: str) -> tuple[list[str], str]:
        """A stored value's bits as 64."""
        self.count += 1
        bits, wide = f"%weft.bits.{self.count}", f"%weft.wide.{self.count}"
        integer = f"i{_BITS[kind]}"
        operation = "ptrtoint" if kind == "ptr" else "bitcast"
        lines = [f"  {bits} = {operation} {kind} {value} to {integer}"]
        if integer == "i64":
            return lines, bits
        return [*lines, f"  {wide} = zext {integer} {bits} to i64"], wide

    def _copy(self, line: str) -> list[str]:
        found = _COPY.match(line)
        if found is None:
            return [line]
        site, before = self.lines.site(line), []
        to, source = found["to"], found["from"]
        for which, flags, align in ((source, _COPIED, found["source_align"]), (to, _COPIED | _WRITES, found["align"])):
            call = self._ask(which, found["bytes"], flags | int(align or 1) << 8, site) if which else None
            if call is not None:
                before.append(call)
                source, to = (f"%weft.at.{self.count}" if which == w else w for w in (source, to))
        middle = found["middle"]
        if source:
            middle = middle.replace(found["from"], source)
        return [*before, f"{found['head']}{to}{middle}{found['bytes']}{found['tail']}"]
