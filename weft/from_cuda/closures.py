"""Lambda expressions of the host that a kernel is given: records whose fields are what they captured."""

from __future__ import annotations

from weft.from_cuda.context import Context
from weft.from_cuda.places import dereference, field_place, read
from weft.from_cuda.types import Field, Pointer, Record
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Place

_THIS = "this"


def captured(c: Context, n: Node, place: Place | None) -> tuple[dict[str, Place], Place | None]:
    """Where the variables that a closure in ``place`` names are, by their ids, and the object around it."""
    record = getattr(place, "type", None) if place is not None else None
    if place is None or not isinstance(record, Record) or not _is_closure(record.node):
        return {}, place
    found: dict[str, Place] = {}
    around: Place | None = None
    for field, key in _captures(c, n, record):
        part = field_place(c, n, place, field.name)
        if key != _THIS:
            found[key] = part
        elif isinstance(field.type, Pointer):
            around = dereference(c, n, read(c, n, part), field.type.to)
        else:
            around = part
    return found, around


def _is_closure(record: Node) -> bool:
    return record.parent is not None and record.parent.kind == "LambdaExpr"


def _captures(c: Context, n: Node, record: Record) -> list[tuple[Field, str]]:
    """The fields of a closure, and which variable each of them is."""
    whole = record.node.parent
    assert whole is not None
    given = whole.inner[1 : 1 + len(record.fields)]
    keys = [_named(i) for i in given]
    named = _variables(whole.inner[-1])
    own = [key for key, kind in named.items() if kind == "VarDecl" and c.unit.declaration(key) is None]
    others = [at for at, key in enumerate(keys) if key != _THIS and key not in named]
    if own and (len(own) > 1 or len(others) > 1):
        c.refuse(n, "a lambda with more than one variable of its own (`[x = ...]`)")
    for at, key in zip(others, own):
        keys[at] = key
    return [(f, key) for f, key in zip(record.fields, keys) if key]


def _named(n: Node) -> str:
    """The variable whose copy a capture is; nothing where it is a variable of the closure's own."""
    while n.kind in ("ImplicitCastExpr", "CXXConstructExpr", "ParenExpr") and n.inner:
        n = n.inner[-1]
    if n.kind == "DeclRefExpr":
        return str(n.referenced["id"])
    if n.kind == "UnaryOperator" and n.raw.get("opcode") == "*":  # [*this]
        n = n.inner[0]
    return _THIS if n.kind == "CXXThisExpr" else ""


def _variables(body: Node) -> dict[str, str]:
    """The variables and parameters that a closure's body names: their ids, and what they are."""
    named = (i.referenced for i in body.walk() if i.kind == "DeclRefExpr")
    return {str(d["id"]): str(d.get("kind")) for d in named}
