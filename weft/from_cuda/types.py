"""Types of C++ as the reader needs them: what an element is, how large things are, where fields lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from weft.from_cuda.names import ALIASES
from weft.ir import dtype as dt
from weft.ir.dtype import DType

if TYPE_CHECKING:
    from weft.from_cuda.unit import Node, Unit


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number; ``dtype`` is how it lies in memory."""

    name: str
    dtype: DType

    @property
    def size(self) -> int:
        return self.dtype.itemsize

    align = size

    @property
    def is_integer(self) -> bool:
        return self.dtype.is_integer or self.dtype.is_bool

    @property
    def is_unsigned(self) -> bool:
        return self.dtype.kind == "uint"


@dataclass(frozen=True, slots=True)
class Pointer:
    to: CType
    size: int = 8
    align: int = 8


@dataclass(frozen=True, slots=True)
class Array:
    of: CType
    count: int | None

    @property
    def size(self) -> int:
        return self.of.size * (self.count or 0)

    @property
    def align(self) -> int:
        return self.of.align


@dataclass(frozen=True, slots=True)
class Reference:
    to: CType
    size: int = 8
    align: int = 8


@dataclass(frozen=True, slots=True)
class Void:
    size: int = 1
    align: int = 1


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type nothing is known of."""

    name: str
    size: int = 1
    align: int = 1


@dataclass(frozen=True)
class Field:
    name: str
    type: CType
    offset: int


@dataclass(frozen=True)
class Record:
    """A struct, class or union; the parts inherited from a base are a field with the base's name."""

    name: str
    node: Node
    unit: Unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.node is other.node

    def __hash__(self) -> int:
        return id(self.node)

    @property
    def is_union(self) -> bool:
        return self.node.raw.get("tagUsed") == "union"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        found, at = [], 0
        for name, type, align, size in self._parts:
            at = -(-at // align) * align
            found.append(Field(name, type, 0 if self.is_union else at))
            at += size
        return tuple(found)

    @cached_property
    def _parts(self) -> list[tuple[str, CType, int, int]]:
        """Name, type, alignment and bytes of each part: what follows a base may lie in its padding."""
        parts: list[tuple[str, CType, int, int]] = []
        for base in (base["type"] for base in self.node.raw.get("bases", ())):
            name = base.get("desugaredQualType") or base["qualType"]
            type = parse_type(name, self.unit, self.node)
            parts.append((name, type, type.align, type.data_size if isinstance(type, Record) else type.size))
        for n in self.node.inner:
            if n.kind == "FieldDecl":
                type = field_type(n, self.unit)
                parts.append((n.name or f"anonymous {n.id}", type, max(type.align, _asked_align(n)), type.size))
        return parts

    @cached_property
    def align(self) -> int:
        return max([_asked_align(self.node), *(align for _, _, align, _ in self._parts)])

    @cached_property
    def size(self) -> int:
        return -(-max(self._end, 1) // self.align) * self.align

    @property
    def data_size(self) -> int:
        """Its bytes as a base: C++ counts the padding at the end of plain old data only."""
        is_plain = self.node.raw.get("definitionData", {}).get("isPOD")
        return 0 if self.is_empty else self.size if is_plain else self._end

    @property
    def is_empty(self) -> bool:
        return all(isinstance(f.type, Record) and f.type.is_empty for f in self.fields) and not self._end

    @cached_property
    def _end(self) -> int:
        """One past the last byte of its parts."""
        sizes = {f.name: size for f, (_, _, _, size) in zip(self.fields, self._parts)}
        return max((f.offset + sizes[f.name] for f in self.fields), default=0)

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)


CType: TypeAlias = "Scalar | Pointer | Array | Reference | Void | Opaque | Record"

BOOL, INT, UINT = Scalar("bool", dt.bool_), Scalar("int", dt.int32), Scalar("unsigned int", dt.uint32)
LONG, ULONG = Scalar("long", dt.int64), Scalar("unsigned long", dt.uint64)
FLOAT, DOUBLE = Scalar("float", dt.float32), Scalar("double", dt.float64)
VOID = Void()

_SCALARS = {
    t.name: t
    for t in (
        BOOL, INT, UINT, LONG, ULONG, FLOAT, DOUBLE, Scalar("char", dt.int8), Scalar("signed char", dt.int8),
        Scalar("unsigned char", dt.uint8), Scalar("short", dt.int16), Scalar("unsigned short", dt.uint16),
        Scalar("long long", dt.int64), Scalar("unsigned long long", dt.uint64), Scalar("_Bool", dt.bool_),
        Scalar("_Float16", dt.float16), Scalar("__bf16", dt.bfloat16), Scalar("wchar_t", dt.int32),
    )
}  # fmt: skip
_NOISE = re.compile(r"\b(const|volatile|struct|class|union|enum|typename|__restrict__|__restrict|restrict)\b ?")


def parse_type(text: str, unit: Unit, at: Node | None = None) -> CType:
    """The type that clang calls ``text`` where ``at`` stands."""
    return _parse(re.sub(r"\s+", " ", _without_noise(text)).strip(), unit, at)


def _without_noise(text: str) -> str:
    """A type without words that change nothing of how it lies in memory; in a template's arguments they are kept."""
    if "<" not in text:
        return _NOISE.sub("", text)
    head, rest = text[: text.index("<")], text[text.index("<") :]
    depth = 0
    for at, letter in enumerate(rest):
        depth += (letter == "<") - (letter == ">")
        if depth == 0:
            return _NOISE.sub("", head) + rest[: at + 1] + _without_noise(rest[at + 1 :])
    return _NOISE.sub("", text)


def _parse(text: str, unit: Unit, at: Node | None) -> CType:
    text = text.strip()
    if text in _SCALARS:
        return _SCALARS[text]
    if text == "void":
        return VOID
    if text == "std::nullptr_t" or text == "nullptr_t":
        return Pointer(VOID)
    inside = re.search(r"\(([*&]+)\)((\[\d*\])*)", text)  # float (*)[16], float (&)[4]
    if inside and not text.endswith(")"):
        base = _parse(text[: inside.start()] + text[inside.end() :], unit, at)
        for mark in inside.group(1):
            base = Pointer(base) if mark == "*" else Reference(base)
        return base
    if text.endswith("&"):
        return Reference(_parse(text.rstrip("&"), unit, at))
    if text.endswith("*"):
        return Pointer(_parse(text[:-1], unit, at))
    sizes = re.search(r"((?:\[\d*\])+)$", text)
    if sizes:
        made = _parse(text[: sizes.start()], unit, at)
        for count in reversed(re.findall(r"\[(\d*)\]", sizes.group(1))):
            made = Array(made, int(count) if count else None)
        return made
    return _named(text, unit, at)


def _asked_align(n: Node) -> int:
    """What `alignas` or `__align__` asks for."""
    asked = [
        a.inner[0].raw["value"] for a in n.inner if a.kind == "AlignedAttr" and a.inner and "value" in a.inner[0].raw
    ]
    return max([1, *map(int, asked)])


def _is_laid_out_otherwise(node: Node, unit: Unit) -> str:
    """Why fields do not lie one behind the other at their own alignment, or are not known."""
    fields = [n for n in node.inner if n.kind == "FieldDecl"]
    is_head_wrong = any(c.file == node.file and c.line == node.line for c in unit.complaints)
    if is_head_wrong or any(unit.complaint_in(n) or _is_spoiled(n, unit) for n in fields):
        return "parts that clang could not read"
    data, bases = node.raw.get("definitionData", {}), node.raw.get("bases", ())
    if data.get("isPolymorphic") or any(base.get("isVirtual") for base in bases):
        return "virtual functions or bases"
    if node.has("PackedAttr") or node.has("MaxFieldAlignmentAttr"):
        return "packed fields"
    if any(n.kind == "FieldDecl" and n.raw.get("isBitfield") for n in node.inner):
        return "bit-fields"
    aligned = (a for n in (node, *node.inner) if n is node or n.kind == "FieldDecl" for a in n.inner)
    if any(a.kind == "AlignedAttr" and not (a.inner and "value" in a.inner[0].raw) for a in aligned):
        return "an alignment given by a type"
    return ""


def _named(text: str, unit: Unit, at: Node | None) -> CType:
    node = unit.named(text, at)
    if node is None:
        return Opaque(text)
    if node.kind in ALIASES:
        return _aliased(node, text, unit)
    if node.kind == "EnumDecl":
        return _enumeration(node)
    return _record(node, text, unit)


def _record(node: Node, text: str, unit: Unit) -> CType:
    """The record that ``node`` declares: one for all, which knows its layout once it was asked for."""
    if node.id not in unit.record_types:
        why = _is_laid_out_otherwise(node, unit)
        unit.record_types[node.id] = Opaque(f"{text}, which has {why}") if why else Record(text, node, unit)
    return unit.record_types[node.id]


def _enumeration(node: Node) -> CType:
    under = node.raw.get("fixedUnderlyingType", {})
    return _SCALARS.get(under.get("desugaredQualType") or under.get("qualType", "unsigned int"), UINT)


def _aliased(alias: Node, text: str, unit: Unit) -> CType:
    """What a typedef stands for; a record or enumeration without a name has that of its typedef."""
    for n in alias.walk():
        for name in ("ownedTagDecl", "decl"):
            tag = unit.nodes.get(str(n.raw.get(name, {}).get("id", "")))
            if tag is not None and tag.kind == "CXXRecordDecl":
                return _record(tag, text, unit)
            if tag is not None and tag.kind == "EnumDecl":
                return _enumeration(tag)
    plain = _NOISE.sub("", alias.type).strip()
    return Opaque(text) if plain == text else parse_type(alias.type, unit, alias.parent)


def field_type(n: Node, unit: Unit) -> CType:
    """The type of a variable, parameter or field; a record without a name is found where it is declared."""
    type = parse_type(n.type, unit, n)
    if (isinstance(type, Opaque) and "unnamed" in type.name) or "anonymous" in n.type:
        before = n.parent.inner[: n.parent.inner.index(n)] if n.parent else []
        record = next((r for r in reversed(before) if r.kind == "CXXRecordDecl"), None)
        if record is not None:
            return _record(record, record.id, unit)
    return type


_VARIABLES = ("VarDecl", "ParmVarDecl", "FieldDecl", "BindingDecl")
#: Expressions that spell their type out.
_WRITTEN_HERE = frozenset({
    "CXXFunctionalCastExpr", "CStyleCastExpr", "CXXStaticCastExpr", "CXXReinterpretCastExpr", "CXXConstCastExpr",
    "CXXTemporaryObjectExpr", "CXXScalarValueInitExpr", "CompoundLiteralExpr",
})  # fmt: skip
_SAME_TYPE = (
    "ParenExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "CXXBindTemporaryExpr", "ImplicitCastExpr",
)  # fmt: skip


def type_in_scope(n: Node, unit: Unit) -> CType:
    """The type of ``n``, a declaration or an expression. An expression's type is written as its declaration has it,
    wherever that stands: where a name has several meanings, the declaration is asked."""
    if n not in unit.types:
        type = _type_in_scope(n, unit)
        if _is_unknown(type):  # it may be found once more of the header was read
            return type
        unit.types[n] = type
    return unit.types[n]


def _type_in_scope(n: Node, unit: Unit) -> CType:
    if unit.spoiled and _is_spoiled(n, unit):
        return Opaque(f"{n.raw.get('type', {}).get('qualType', '')}, of which clang could not read a part")
    if n.kind in _VARIABLES:
        return field_type(n, unit)
    type = parse_type(n.type, unit, n if n.kind in _WRITTEN_HERE else None)
    return (_declared_type(n, unit) or type) if _is_unknown(type) else type


def _declared_type(n: Node, unit: Unit) -> CType | None:
    """The type of an expression by what is declared to have it."""
    key = n.referenced.get("id") if n.kind == "DeclRefExpr" else n.raw.get("referencedMemberDecl")
    declared = unit.declaration(str(key)) if key is not None else n.parent
    if declared is not None and declared.kind in _WRITTEN_HERE and declared.type == n.type:
        return type_in_scope(declared, unit)
    if declared is not None and declared.kind in _VARIABLES:
        type = field_type(declared, unit)
        return type.to if isinstance(type, Reference) else type
    if n.parent is not None and n.parent.kind == "InitListExpr":
        return _listed_type(n, type_in_scope(n.parent, unit))
    if not n.inner:
        return None
    below = type_in_scope(n.inner[0], unit)
    decays = n.raw.get("castKind") == "ArrayToPointerDecay"
    if n.kind == "ArraySubscriptExpr" or (n.kind == "UnaryOperator" and n.raw.get("opcode") == "*"):
        return below.to if isinstance(below, Pointer) else None
    if n.kind == "UnaryOperator" and n.raw.get("opcode") == "&":
        return Pointer(below)
    if decays:
        return Pointer(below.of) if isinstance(below, Array) else None
    return below if n.kind in _SAME_TYPE and n.raw.get("castKind") in (None, "LValueToRValue", "NoOp") else None


def _listed_type(n: Node, whole: CType) -> CType | None:
    """The type of a value in the braces of a ``whole``."""
    assert n.parent is not None
    if isinstance(whole, Array):
        return whole.of
    at = next(number for number, i in enumerate(n.parent.inner) if i is n)
    return whole.fields[at].type if isinstance(whole, Record) and at < len(whole.fields) else None


def _is_unknown(type: CType) -> bool:
    while isinstance(type, (Pointer, Reference, Array)):
        type = type.of if isinstance(type, Array) else type.to
    return isinstance(type, Opaque)


def _is_spoiled(n: Node, unit: Unit) -> bool:
    written = set(re.findall(r"\w+", n.raw.get("type", {}).get("qualType", "")))
    return not written.isdisjoint(unit.spoiled)


def has_union(type: CType) -> bool:
    """Whether some places in a value of ``type`` are seen as several types."""
    if isinstance(type, Array):
        return has_union(type.of)
    return isinstance(type, Record) and (type.is_union or any(has_union(f.type) for f in type.fields))


def leaves(type: CType) -> list[tuple[tuple[str, ...], CType, int]]:
    """The numbers and pointers of which a record is made: the names that lead there, type, and place in bytes."""
    if not isinstance(type, Record):
        return [((), type, 0)]
    return [((f.name, *path), leaf, f.offset + at) for f in type.fields for path, leaf, at in leaves(f.type)]
