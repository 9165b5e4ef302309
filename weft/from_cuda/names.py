"""Which record, enumeration or typedef a name in a type means.

Clang writes types as the source does: without the namespaces and classes around, where these are not needed there. So a
name is looked up by its last part; where several declarations have it, the one that C++ finds from where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from weft.from_cuda.record_names import record_name, record_names

if TYPE_CHECKING:
    from weft.from_cuda.unit import Node

ALIASES = frozenset({"TypedefDecl", "TypeAliasDecl"})
RECORDS = frozenset({"CXXRecordDecl", "ClassTemplateSpecializationDecl"})
_OF_THE_DEVICE = ("CUDADeviceAttr", "CUDAGlobalAttr")
_NAMELESS = "(anonymous namespace)::"
_CLOSURE = "(lambda at "
_IN_FUNCTIONS = frozenset({"DeclStmt"})
_TOKENS = re.compile(r"::|[<>, *&]|[^<>, *&:]+|:")


def short_name(text: str) -> str:
    """A name without what it is qualified by, its template arguments' names too."""
    levels = [["", ""]]  # what is done, and the name that is being read
    for token in _TOKENS.findall(text.replace(_NAMELESS, "")):
        top = levels[-1]
        if token == "::":
            top[1] = ""
        elif token == "<":
            levels.append(["", ""])
        elif token == ">" and len(levels) > 1:
            levels.pop()
            levels[-1][1] += f"<{top[0]}{top[1]}>"
        elif token in " ,*&":
            top[0], top[1] = top[0] + top[1] + token, ""
        else:
            top[1] += token
    return "<".join(done + name for done, name in levels)


class Names:
    """All that types can name, of one source; ``nodes`` are its declarations by id."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._named: dict[str, dict[str, list[Node]]] = {}
        self._prefixes: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._closures: dict[str, list[Node]] = {}
        #: What `using namespace` opens, by the prefix where it says so.
        self._opened: dict[str, list[str]] = {}

    def add(self, n: Node, prefix: str) -> str:
        """Enters a declaration that stands in ``prefix``; the prefix of what stands in it."""
        if n.kind == "NamespaceDecl":
            if not n.name:
                self._opened.setdefault(prefix, []).append(f"{prefix}{_NAMELESS}")
            return self._inside(n, f"{prefix}{n.name}::" if n.name else f"{prefix}{_NAMELESS}")
        if n.kind == "UsingDirectiveDecl":
            opened = self._prefixes.get(str(n.raw.get("nominatedNamespace", {}).get("id")))
            if opened is not None and not n.raw.get("isImplicit"):
                self._opened.setdefault(prefix, []).append(opened)
        if n.kind == "UsingShadowDecl":
            target = self._nodes.get(str(n.raw.get("target", {}).get("id")))
            if target is not None and (target.kind in ALIASES or target.kind in RECORDS) and target.name:
                self._enter(target, prefix, target.name)
        if (n.kind == "EnumDecl" or n.kind in ALIASES) and n.name:
            self._enter(n, prefix, n.name)
        elif n.kind == "LambdaExpr" and n.inner:
            self._closures.setdefault(n.type, []).append(n.inner[0])
        elif n.kind in RECORDS and n.name:
            if n.raw.get("completeDefinition") and not _is_pattern(n):
                for name in record_names(n):
                    self._enter(n, prefix, name)
            return self._inside(n, f"{prefix}{record_name(n)}::")
        return prefix

    def _inside(self, n: Node, prefix: str) -> str:
        if n.id:
            self._prefixes[n.id] = prefix
        return prefix

    def _enter(self, n: Node, prefix: str, name: str) -> None:
        is_local = n.parent is not None and n.parent.kind in _IN_FUNCTIONS
        full = f"local {n.id}" if is_local else prefix + name
        found = self._named.setdefault(self._shortened(name), {}).setdefault(full, [])
        if not any(n is other for other in found):
            found.append(n)

    def _shortened(self, name: str) -> str:
        if name not in self._short:
            self._short[name] = short_name(name)
        return self._short[name]

    def find(self, text: str, at: Node | None) -> Node | None:
        """What ``text`` means where ``at`` stands, or wherever that is, if it is sure."""
        if text.startswith(_CLOSURE):
            return self._closure(text, at)
        found = self._named.get(self._shortened(text))
        if not found:
            return None
        first = next(iter(found.values()))
        if all(nodes == first for nodes in found.values()):
            return _one_of(first)
        if at is None:  # it may be written as another scope has it
            return _one_of(found[text]) if "::" in text and text in found else None
        for name in self._seen_from(text, at):
            if name in found:
                return _one_of(found[name])
        member = self._member(text, at)
        return _one_of(found[member]) if member in found else None

    def _member(self, text: str, at: Node | None) -> str:
        """The full name of a class's member, where ``text`` names the class by a typedef."""
        qualifier, last = _split(text)
        around = self.find(qualifier, at) if qualifier else None
        if around is not None and around.kind in ALIASES and around.type != qualifier:
            around = self.find(around.type, around.parent)
        return self._prefixes.get(around.id, "") + last if around is not None else ""

    def _closure(self, text: str, at: Node | None) -> Node | None:
        """The record of a lambda of the host: a template's argument around ``at``, or the only one at that place of
        the source. One of the device is known by its expression (`calls.closure`)."""
        while at is not None:
            for argument in (i for i in at.inner if i.kind == "TemplateArgument" and i.type == text):
                named = (self._nodes.get(str(i.raw.get("decl", {}).get("id"))) for i in argument.walk())
                record = next((n for n in named if n is not None and n.kind == "CXXRecordDecl"), None)
                if record is not None:
                    return record if _is_of_the_host(record) else None
            at = at.parent
        found = self._closures.get(text, [])
        return found[0] if len(found) == 1 and _is_of_the_host(found[0]) else None

    def _seen_from(self, text: str, at: Node | None) -> Iterator[str]:
        """The full names that ``text`` may stand for at a place, the innermost first."""
        while at is not None:
            if at.kind == "CompoundStmt":
                yield from (f"local {d.id}" for s in at.inner if s.kind in _IN_FUNCTIONS for d in s.inner)
            if at.id in self._prefixes:
                yield from self._in_scope(self._prefixes[at.id], text)
            at = self._nodes.get(str(at.raw.get("parentDeclContextId"))) or at.parent
        yield from self._in_scope("", text)

    def _in_scope(self, prefix: str, text: str) -> Iterator[str]:
        yield prefix + text
        yield from (opened + text for opened in self._opened.get(prefix, ()))


def _split(text: str) -> tuple[str, str]:
    """A name's qualifier, and its last part."""
    depth = 0
    for at in range(len(text) - 1, 0, -1):
        depth += (text[at] == ">") - (text[at] == "<")
        if depth == 0 and text[at - 1 : at + 1] == "::":
            return text[: at - 1], text[at + 1 :]
    return "", text


def _one_of(nodes: list[Node]) -> Node | None:
    """Of declarations with one name: a record rather than the typedef that repeats it; None where they differ."""
    records = [n for n in nodes if n.kind not in ALIASES]
    if records:
        return records[0] if len(records) == 1 else None
    return nodes[0] if len({n.type for n in nodes}) == 1 else None


def _is_of_the_host(closure: Node) -> bool:
    """Whether the function around a lambda, and around lambdas around it, runs on the host."""
    around = closure.parent
    while around is not None:
        is_call = around.name == "operator()" and around.parent is not None and not around.parent.name
        if not is_call and any(i.kind in _OF_THE_DEVICE and not i.raw.get("implicit") for i in around.inner):
            return False
        around = around.parent
    return True


def _is_pattern(n: Node) -> bool:
    """Whether records are made from it: it is a template's own."""
    return n.kind == "CXXRecordDecl" and n.parent is not None and n.parent.kind == "ClassTemplateDecl"
