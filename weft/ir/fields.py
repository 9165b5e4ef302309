"""What the fields of nodes hold, read from their annotations once: so that visiting a program is quick."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr
from weft.ir.stmt import Iter, Kernel, Region, Stmt

_NODES = (Expr, Stmt, Axis, Iter, Region, Kernel)
#: What a rewrite may replace.
PARTS = (*_NODES, Buffer)

#: Fields that hold no nodes.
_LEAF_FIELDS = (
    "span", "op", "name", "kind", "dtype", "type", "message", "lanes", "positions", "scope", "outputs", "ahead",
)  # fmt: skip
#: Annotations of fields that always hold one node, a tuple of nodes, a node or None, or nothing to visit.
_ONE = frozenset({"Expr", "Var", "Stmt", "Call", "Load"})
_MANY = frozenset({f"tuple[{kind}, ...]" for kind in ("Expr", "Stmt", "Axis", "Iter", "Region")})
_NONE = frozenset({"Buffer", "int", "int | float | bool"})

_Read: TypeAlias = "Callable[[Any], tuple[Any, ...]]"


class _Readers(dict[type, _Read]):
    """How to get the children of a node of a class, made when the class is first met."""

    def __missing__(self, cls: Any) -> _Read:
        fields = [f for f in dataclasses.fields(cls) if f.name not in _LEAF_FIELDS and f.type not in _NONE]
        made = self[cls] = _reader([(f.name, str(f.type)) for f in fields])
        return made


def _reader(fields: list[tuple[str, str]]) -> _Read:
    """The quickest way to read fields of these names and annotations."""
    if not fields:
        return lambda node: ()
    names, types = zip(*fields)
    get = operator.attrgetter(*names)
    if all(t in _ONE for t in types):
        return get if len(fields) > 1 else lambda node: (get(node),)
    if all(t in _ONE for t in types[:-1]) and types[-1] == "Expr | None":
        return _reader_of_last(get)
    if len(fields) == 1 and types[0] in _MANY:
        return get
    if len(fields) == 2 and types[0] in _MANY and types[1] in _ONE | _MANY:
        return _reader_of_two(get, many=types[1] in _MANY)
    return _reader_of_any(names)


def _reader_of_last(get: Callable[[Any], Any]) -> _Read:
    """For a last field that mostly holds nothing."""

    def read(node: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = get(node)
        return found[:-1] if found[-1] is None else found

    return read


def _reader_of_two(get: Callable[[Any], Any], *, many: bool) -> _Read:
    def many_and_one(node: Any) -> tuple[Any, ...]:
        first, last = get(node)
        return (*first, last)

    def many_and_many(node: Any) -> tuple[Any, ...]:
        first, last = get(node)
        return (*first, *last)

    return many_and_many if many else many_and_one


def _reader_of_any(names: tuple[str, ...]) -> _Read:
    """For fields that may hold nodes, tuples with nodes among others, or something else."""

    def read(node: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for name in names:
            value = getattr(node, name)
            if isinstance(value, _NODES):
                found.append(value)
            elif isinstance(value, tuple):
                found += [v for v in value if isinstance(v, _NODES)]
        return tuple(found)

    return read


#: The direct children of a node, in program order, by its class.
READERS = _Readers()


_Change: TypeAlias = "Callable[[Any], Any]"
_Rebuild: TypeAlias = "Callable[[Any, _Change], Any]"


class _Rebuilders(dict[type, _Rebuild]):
    """How to make a node of a class anew from changed parts, written as Python text when the class is first met."""

    def __missing__(self, cls: Any) -> _Rebuild:
        fields = dataclasses.fields(cls)
        parts = [f for f in fields if f.name not in _LEAF_FIELDS and f.type not in ("int", "int | float | bool")]
        lines = [f"    {f.name} = {_CHANGED[_kind(str(f.type))].format(f.name)}" for f in parts]
        if parts:
            same = " and ".join(f"{f.name} is node.{f.name}" for f in parts)
            lines.append(f"    if {same}: return node")
            values = [(f, f.name if f in parts else f"node.{f.name}") for f in fields]
            given = ", ".join(f"{f.name}={value}" if f.kw_only else value for f, value in values)
            lines.append(f"    return cls({given})")
        scope: dict[str, Any] = {"cls": cls, "many": _many, "any_of": _any_of}
        exec("def rebuild(node, fn):\n" + "\n".join(lines or ["    return node"]), scope)
        made: _Rebuild = scope["rebuild"]
        self[cls] = made
        return made


Kind: TypeAlias = Literal["one", "many", "any"]
_CHANGED: dict[Kind, str] = {"one": "fn(node.{0})", "many": "many(node.{0}, fn)", "any": "any_of(node.{0}, fn)"}


def _kind(annotation: str) -> Kind:
    return "one" if annotation in _ONE or annotation == "Buffer" else "many" if annotation in _MANY else "any"


def _many(old: tuple[Any, ...], fn: _Change) -> tuple[Any, ...]:
    new = tuple(map(fn, old))
    return old if all(map(operator.is_, old, new)) else new


def _any_of(old: Any, fn: _Change) -> Any:
    """Of a field that may hold a node, a tuple with nodes among others, or something else."""
    if isinstance(old, PARTS):
        return fn(old)
    return _many(old, lambda v: fn(v) if isinstance(v, PARTS) else v) if isinstance(old, tuple) else old


#: A node with a function applied to each direct child and buffer, by its class; the same object where nothing changed.
REBUILDERS = _Rebuilders()
