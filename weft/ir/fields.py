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
    if len(fields) == 1 and types[0] in _MANY:
        return get
    if len(fields) == 2 and types[0] in _MANY and types[1] in _ONE | _MANY:
        return _reader_of_two(get, many=types[1] in _MANY)
    return _reader_of_any(names)


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


Kind: TypeAlias = Literal["one", "many", "any"]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a class: those that hold nodes or buffers, and how many; all positional ones; all others."""

    parts: tuple[tuple[str, Kind], ...]
    positional: tuple[str, ...]
    keywords: tuple[str, ...]


class _Layouts(dict[type, Layout]):
    def __missing__(self, cls: Any) -> Layout:
        fields = dataclasses.fields(cls)
        computed = self[cls] = Layout(
            tuple((f.name, _kind(str(f.type))) for f in fields if f.name not in _LEAF_FIELDS),
            tuple(f.name for f in fields if not f.kw_only),
            tuple(f.name for f in fields if f.kw_only),
        )
        return computed


def _kind(annotation: str) -> Kind:
    return "one" if annotation in _ONE or annotation == "Buffer" else "many" if annotation in _MANY else "any"


LAYOUTS = _Layouts()
