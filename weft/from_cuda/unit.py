"""A source that clang has read: its declarations by id, functions, records and variables, each with its line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft.from_cuda.clang import NESTED_LAUNCH, Complaint, host_headers, nested_launches, run_clang
from weft.from_cuda.demangle import demangle, programs_name
from weft.from_cuda.launches_text import as_clang_reads
from weft.from_cuda.names import ALIASES, Names
from weft.ir.errors import LanguageError, UnsupportedError
from weft.ir.span import Source, Span

if TYPE_CHECKING:
    from weft.from_cuda.types import CType

#: The last declaration of our own header.
_END_OF_HEADER = '"name": "_weft_end_of_header"'
#: Headers that are not found, after which it is given up.
_MOST_EMPTY = 16
#: Headers of the standard library that device code has no use for: found missing one by one, each would cost a reading.
_OF_THE_HOST = (
    "atomic", "bitset", "chrono", "complex", "deque", "exception", "fstream",
    "initializer_list", "iomanip", "iterator", "list", "map", "memory", "mutex", "numeric", "queue",
    "random", "ratio", "set", "sstream", "stack", "stdexcept", "string", "thread", "tuple", "typeinfo",
    "unordered_map", "unordered_set", "vector", "unistd.h", "omp.h", "ctype.h", "cctype", "errno.h",
    "getopt.h", "sys/types.h", "sys/stat.h", "fcntl.h", "signal.h", "pthread.h", "malloc.h", "strings.h",
)  # fmt: skip
#: Typedefs of typedefs in a template's arguments that are followed.
_DEEPEST = 4
_QUALIFIED = re.compile(r"(?:[A-Za-z_]\w*::)*([A-Za-z_]\w*)")
#: What is before the first declaration of the tree, and between two.
_FIRST, _TOP = '"inner": [\n    {', "\n    },\n    {"
_FUNCTIONS = frozenset({"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"})


@dataclass(slots=True, eq=False)
class Node:
    """A node of clang's tree: its kind, its fields, what is below it, and where it begins."""

    kind: str
    raw: dict[str, Any]
    inner: list[Node]
    file: str = ""
    line: int = 0
    column: int = 0
    end: int = 0
    parent: Node | None = None

    @property
    def id(self) -> str:
        return str(self.raw.get("id", ""))

    @property
    def name(self) -> str:
        return str(self.raw.get("name", ""))

    @property
    def type(self) -> str:
        """The text of its type, typedefs resolved."""
        found = self.raw.get("type", {})
        return str(found.get("desugaredQualType") or found.get("qualType", ""))

    @property
    def referenced(self) -> dict[str, Any]:
        return dict(self.raw.get("referencedDecl") or {})

    def has(self, kind: str) -> bool:
        """Whether something of ``kind``, an attribute say, is directly below."""
        return any(n.kind == kind for n in self.inner)

    @property
    def body(self) -> Node | None:
        """The statements of a function that has any."""
        return next((n for n in self.inner if n.kind in ("CompoundStmt", "CXXTryStmt")), None)

    @property
    def parameters(self) -> list[Node]:
        return [n for n in self.inner if n.kind == "ParmVarDecl"]

    def walk(self) -> Iterator[Node]:
        yield self
        for n in self.inner:
            yield from n.walk()


class _Places:
    """Files and lines: clang tells them only where they differ from those told last."""

    def __init__(self, file: str, path: str = "") -> None:
        self.file, self.line = file, 0
        self.name, self.path = file, path

    def read(self, place: dict[str, Any]) -> tuple[str, int, int]:
        for part in ("spellingLoc", "expansionLoc"):
            if part in place:
                found = self.read(place[part])
                if part == "expansionLoc":
                    return found
        if "file" in place:
            self.file = self.name if place["file"] == self.path else place["file"]
        self.line = place.get("line", self.line)
        return self.file, self.line, place.get("col", 0)

    def node(self, raw: dict[str, Any], parent: Node | None) -> Node:
        at, end = (self.file, self.line, 0), self.line
        if "loc" in raw:
            at = self.read(raw["loc"])
        if "range" in raw:
            begin = self.read(raw["range"].get("begin", {}))
            at = begin if begin[2] else at
            end = self.read(raw["range"].get("end", {}))[1]
        made = Node(raw.get("kind", ""), raw, [], *at, end, parent)
        below = raw.get("inner") or raw.get("array_filler") or ()
        made.inner = [self.node(n, made) for n in below if isinstance(n, dict)]
        return made


@dataclass
class Unit:
    """One translation unit, as the device sees it."""

    source: Source
    top: list[Node]
    #: Texts of the declarations of our own header, emptied as they are read.
    header: list[str]
    complaints: tuple[Complaint, ...]
    #: Headers that were not found and taken for empty.
    missing: tuple[str, ...] = ()
    nodes: dict[str, Node] = field(default_factory=dict)
    #: Functions that have a body, by their mangled names.
    bodies: dict[str, Node] = field(default_factory=dict)
    #: The types of records by the ids of their declarations, as far as they were asked for.
    record_types: dict[str, CType] = field(default_factory=dict)
    #: The types of expressions and declarations, as far as they were asked for and are known.
    types: dict[Node, CType] = field(default_factory=dict)
    #: What the header was searched for: nothing more of it is there.
    sought: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._names = Names(self.nodes)
        self._others: dict[str, Source] = {}
        for n in self.top:
            self._index(n, "")

    def _index(self, n: Node, prefix: str) -> None:
        if n.id:
            self.nodes[n.id] = n
        if n.kind in _FUNCTIONS and "mangledName" in n.raw and n.body is not None:
            self.bodies.setdefault(n.raw["mangledName"], n)
        inside = self._names.add(n, prefix)
        for c in () if n.kind == "UsingShadowDecl" else n.inner:  # below it is what it names, once more
            self._index(c, inside)

    def declaration(self, key: str) -> Node | None:
        """The declaration with this id; what is in our header is read when it is asked for."""
        if key not in self.nodes:
            self._read_header(f'"{key}"')
        return self.nodes.get(key)

    def named(self, name: str, at: Node | None = None) -> Node | None:
        """The record, enumeration or typedef that ``name`` means where ``at`` stands."""
        self._read_header_for(name)
        found = self._names.find(name, at)
        for _ in range(_DEEPEST if found is None and "<" in name else 0):
            plain = self._plain_arguments(name, at)
            if plain == name:
                break
            name = plain
            found = self._names.find(name, at)
        return found

    def _read_header_for(self, name: str) -> None:
        if name.startswith("("):  # a lambda
            return
        base = name.split("<")[0].split("::")[-1]
        if "<" in name:
            self._read_header(f'"name": "{base}"')
        else:
            self._read_header(f'"name": "{base}",\n      "tagUsed"')
            self._read_header(f'"name": "{base}",\n      "type"')

    def _plain_arguments(self, name: str, at: Node | None) -> str:
        """A record's name with what its arguments, as they were written, stand for: enumerators and typedefs."""
        base, _, arguments = name.partition("<")

        def plain(found: re.Match[str]) -> str:
            if found.group(1) in self._enumerators:
                return str(self._enumerators[found.group(1)])
            alias = self._names.find(found.group(), at)
            return alias.type if alias is not None and alias.kind in ALIASES else found.group()

        return f"{base}<{_QUALIFIED.sub(plain, arguments)}"

    @cached_property
    def _enumerators(self) -> dict[str, int]:
        enums = (n for n in self.nodes.values() if n.kind == "EnumDecl")
        return {name: value for e in enums for name, value in enumerators(e).items()}

    def _read_header(self, needle: str) -> None:
        if needle in self.sought:
            return
        self.sought.add(needle)
        for at, text in enumerate(self.header):
            if needle in text:
                self.header[at] = ""
                node = _Places("weft_cuda.h").node(_read(text), None)
                self.top.append(node)
                self._index(node, "")

    def definition(self, function: Node) -> Node:
        """``function`` where it has a body: the same declared again, or itself."""
        if function.body is not None:
            return function
        return self.bodies.get(function.raw.get("mangledName", ""), function)

    @property
    def functions(self) -> list[Node]:
        return [n for n in self.nodes.values() if n.kind in _FUNCTIONS]

    @cached_property
    def kernels(self) -> dict[str, Node]:
        """Every ``__global__`` function with a body that is no pattern of a template, by its mangled name."""
        found = (f for f in self.functions if f.has("CUDAGlobalAttr") and f.body and "mangledName" in f.raw)
        return {f.raw["mangledName"]: f for f in found if not _is_pattern(f)}

    def linked(self, name: str) -> Node | None:
        """The kernel that a program's linker knows by ``name``."""
        if name not in self.kernels and (wanted := demangle(name)) is not None:
            return next((k for n, k in self.kernels.items() if programs_name(n) == wanted), None)
        return self.kernels.get(name)

    def span(self, n: Node) -> Span:
        """Where ``n`` is, to be shown."""
        column = max(n.column, 1)
        return Span(self._source_of(n.file), n.line, column, column + 1)

    def _source_of(self, file: str) -> Source:
        if not file or file == self.source.name:
            return self.source
        if file not in self._others:
            self._others[file] = Source(file, _text_of(file))
        return self._others[file]

    def check(self, *, host_too: bool) -> None:
        """Raises what clang complained of; without ``host_too`` only that headers are missing which device code needs:
        the other complaints are told of the functions that they are in (`complaint_in`)."""
        if host_too or any("file not found" in c.text for c in self.complaints):
            self._complain(self.complaints)

    def check_device(self) -> None:
        """Raises what clang complained of in functions for the device."""
        meant = [f for f in self.functions if f.has("CUDAGlobalAttr") or _is_said_to_be_for_the_device(f)]
        self._complain(
            [c for c in self.complaints if any(f.file == c.file and f.line <= c.line <= f.end for f in meant)]
        )

    def _complain(self, wrong: Sequence[Complaint]) -> None:
        if not wrong:
            return
        launches = [f"{c.file}:{c.line}" for c in wrong if c.text.startswith(NESTED_LAUNCH)]
        if launches:
            raise nested_launches(launches)
        first = wrong[0]
        source = self._source_of(first.file)
        notes = [("also", f"{os.path.basename(c.file)}:{c.line}: {c.text}") for c in wrong[1:10]]
        notes += [("why", f"the header `{name}` was not found: name its folder by include=[...], or -I")
                  for name in self.missing]  # fmt: skip
        if "file not found" in first.text:
            raise LanguageError(
                first.text, span=Span(source, first.line, first.column, first.column + 1), notes=notes,
                help="name its folder: include=[...], or -I",
            )  # fmt: skip
        raise LanguageError(first.text, span=Span(source, first.line, first.column, first.column + 1), notes=notes)

    def complaint_in(self, n: Node) -> str:
        """What clang complained of in the lines of a declaration."""
        here = (c for c in self.complaints if c.file == n.file and n.line <= c.line <= n.end)
        return next((f"{c.text} (line {c.line})" for c in here), "")

    @cached_property
    def spoiled(self) -> tuple[str, ...]:
        """Typedefs that clang could not read: it goes on as if they were int."""
        aliases = (n for n in self.nodes.values() if n.kind in ALIASES) if self.complaints else ()
        return tuple({n.name for n in aliases if self.complaint_in(n)})


def _is_said_to_be_for_the_device(f: Node) -> bool:
    """What is implicitly so, such as a lambda of the host's, is not meant to be."""
    return any(a.kind == "CUDADeviceAttr" and not a.raw.get("implicit") for a in f.inner)


def read_unit(
    text: str,
    name: str = "source.cu",
    *,
    include: Sequence[str] = (),
    defines: Sequence[str] = (),
    options: Sequence[str] = (),
    uses: Sequence[str] = (),
    host_too: bool = True,
) -> Unit:
    """Reads a source; ``uses`` are kernels made from templates, such as ``scale<float>``, to be instantiated."""
    asked = "".join(f"\n__attribute__((used)) static auto _weft_use_{n} = &{use};" for n, use in enumerate(uses))
    empty: list[str] = [] if host_too else [*_OF_THE_HOST, *host_headers()]
    text_for_clang = as_clang_reads(text) + asked
    known = len(empty)
    most = known + _MOST_EMPTY
    while True:
        reading = run_clang(text_for_clang, name, include=include, defines=defines, options=options, empty=empty)
        missing = next(filter(None, map(_missing_header, reading.complaints)), None)
        if host_too or missing is None or missing in empty or len(empty) >= most:
            break
        empty.append(missing)  # of the host's side, most likely: what the device misses is told then
    source = Source(name, text)
    tree = reading.tree  # tens of megabytes, nearly all of the header: copied as little as can be
    end_of_header = tree.find(_END_OF_HEADER)
    if end_of_header < 0:
        what = reading.messages.strip().splitlines()
        raise LanguageError(f"clang could not read {name}", why=what[0] if what else "it wrote nothing")
    header = tree[tree.find(_FIRST) + len(_FIRST) : tree.rfind(_TOP, 0, end_of_header)].split(_TOP)
    after = tree[end_of_header:].partition(_TOP)[2].rpartition("\n    }\n  ]")[0]
    places = _Places(name, reading.path)
    try:
        top = [places.node(_read(chunk), None) for chunk in (after.split(_TOP) if after else ())]
    except RecursionError:
        raise UnsupportedError(f"{name} is nested too deeply to read") from None
    unit = Unit(source, top, header, reading.complaints, tuple(empty[known:]))
    unit.check(host_too=host_too)
    return unit


def _read(declaration: str) -> dict[str, Any]:
    """The text between `_TOP`s as what it says."""
    return dict(json.loads(f"{{{declaration}}}"))


def _missing_header(complaint: Complaint) -> str | None:
    found = re.match(r"'([\w./+-]+)' file not found", complaint.text)
    return found.group(1) if found and ".." not in found.group(1) and not found.group(1).startswith("/") else None


#: Constants of the type bool as clang writes them.
_TRUTHS = {"false": 0, "true": 1}


def enumerators(enum: Node) -> dict[str, int]:
    """The values of an enumeration by their names."""
    found: dict[str, int] = {}
    value = -1
    for e in enum.inner:
        if e.kind == "EnumConstantDecl":
            given = next((i.raw["value"] for i in e.walk() if "value" in i.raw), None)
            value = value + 1 if given is None else int(_TRUTHS.get(given, given))
            found[e.name] = value
    return found


def _is_pattern(f: Node) -> bool:
    parent = f.parent
    if parent is not None and parent.kind == "FunctionTemplateDecl":
        return next((n for n in parent.inner if n.kind in _FUNCTIONS), None) is f
    return False


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_SIMPLE = re.compile(r"^[A-Za-z_]\w*$")


def find_kernel(unit: Unit, name: str) -> Node:
    """The kernel called ``name``: plainly, with its template's arguments, or as the linker calls it."""
    if name in unit.kernels:
        return unit.kernels[name]
    base = re.sub(r"<.*$", "", name).split("::")[-1].strip()
    found = [k for k in unit.kernels.values() if k.name == base]
    if "<" in name:
        found = [k for k in found if k.has("TemplateArgument")][-1:] or found
    if len(found) == 1:
        return found[0]
    known = sorted({k.name for k in unit.kernels.values()})
    if found:
        raise LanguageError(
            f"{len(found)} kernels are called `{name}`", why=", ".join(k.raw["mangledName"] for k in found),
            help="give one of these names",
        )  # fmt: skip
    why = f"its kernels are {', '.join(known)}" if known else "it has no function that is __global__ and has a body"
    raise LanguageError(f"{unit.source.name} has no kernel `{name}`", why=why)
