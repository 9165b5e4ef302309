"""Fetches from textures and accesses to surfaces, as formulas on the memory behind them.

What a texture is bound to is known at a launch: its memory, sizes, and how it is addressed and filtered are
parameters of the loop program (slots ``texture``, ``surface`` and ``texture number``). Such a kernel is for textures
whose elements are what the fetch gives: one that a launch finds to be of another kind (bytes read as numbers up to 1)
makes the launch run thread by thread (``texture fits``). What a fetch gives is the same as by
`include/program/texture_fetch_functions.h`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, Slot, close
from weft.from_cuda.expressions import expression, number
from weft.from_cuda.memory import load, scalar_element, store
from weft.from_cuda.places import assign, dereference
from weft.from_cuda.types import FLOAT, CType, Pointer, Record, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Address, Alias, Memory, Nothing, Number, Struct, Target, Value, index_var
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Cast, Compare, Expr, Select, Var, const, idx
from weft.ir.stmt import Assign, If

Function = Callable[[Context, Node, list[Node]], Value]

#: How a texture says what lies outside it: see cudaTextureAddressMode.
_WRAP, _MIRROR, _BORDER = 0, 2, 3
_SIZES = ("width", "height", "depth")


@dataclass(frozen=True, slots=True)
class Texture:
    """A texture or surface: a variable of the program, or an object that is an argument (``@argument:byte``)."""

    memory: Memory
    channels: int
    element: DType

    def number(self, c: Context, what: str, unit: int = 1) -> Expr:
        """One of the numbers that describe it; sizes in bytes in units of ``unit`` bytes."""
        name = f"{self.memory.name}_{what}"
        if name not in c.names:
            c.names.add(name)
            c.fixed.add(name)
            c.slots.append((index_var(name), Slot("texture number", symbol=f"{self.memory.symbol} {what}", unit=unit)))
        return index_var(name)

    def at(self, c: Context, places: list[Expr], type: CType) -> Address:
        """The element at whole ``places``, which are inside."""
        size = self.element.itemsize
        total: Expr = Binary("*", places[0], idx(self.channels)) if self.channels > 1 else places[0]
        for what, place in zip(("pitch", "slice"), places[1:]):
            total = Binary("+", Binary("*", place, self.number(c, what, size)), total)
        return Address(type, (Target(self.memory, total, size),))


def _find(c: Context, n: Node, argument: Node, type: CType, kind: str) -> Texture:
    element = scalar_element(type)
    if element is None:
        c.refuse(n, f"a {kind} of elements of several types")
    name, symbol = _symbol(c, argument, kind)
    key = f"{kind} {symbol}"
    if key not in c.memories:
        c.memories[key] = Memory(name, kind, type, (), key, symbol=symbol, size_name=c.fresh(f"{name}_bytes"))
        fits = Slot("texture fits", symbol=f"{symbol} {type.size}", unit=1 if element.is_float else 0)
        c.slots.append((index_var(c.fresh(f"{name}_fits")), fits))
    memory = c.memories[key]
    if memory.element.size != type.size:
        c.refuse(n, f"a {kind} whose elements are of several sizes")
    return Texture(memory, type.size // element.itemsize, element)


def _symbol(c: Context, argument: Node, kind: str) -> tuple[str, str]:
    """The name of a texture for people, and for a launch."""
    for i in argument.walk():
        if i.kind == "DeclRefExpr":
            found = c.unit.declaration(i.referenced["id"])
            if found is not None and found.kind == "VarDecl" and "texture<" in found.type:
                if "Normalized" in found.type or ", 1>" in found.type.replace("texture<", "").partition(",")[2]:
                    c.refuse(argument, "a texture whose elements are read as numbers up to 1")
                return found.name, found.raw.get("mangledName", found.name)
    value = expression(c, argument)
    expr = c.written_out(value.expr) if isinstance(value, Number) else None
    while isinstance(expr, Cast):
        expr = expr.operand
    given = [slot for p, slot in c.slots if isinstance(expr, Var) and p.name == expr.name and slot.kind == "number"]
    if not isinstance(expr, Var) or not given:
        c.refuse(argument, f"a {kind} that is neither a variable nor an argument")
    return expr.name, f"@{given[0].argument}:{given[0].offset}"


# ---- fetches


def fetch(dimensions: int) -> Function:
    """``tex1D``, ``tex2D`` and ``tex3D``, filtered or not."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = c.type_of(n)
        texture = _find(c, n, arguments[0], type, "texture")
        given = [ar.convert(number(c, a), FLOAT, c.ranges).expr for a in arguments[1 : 1 + dimensions]]
        at = [_scaled(c, texture, given[d], d) for d in range(dimensions)]
        if not texture.element.is_float:
            return _nearest(c, n, texture, type, at)
        return _filtered(c, n, texture, type, at)

    return go


def _scaled(c: Context, texture: Texture, x: Expr, d: int) -> Expr:
    """A coordinate in elements."""
    is_normalized = Compare("!=", texture.number(c, "normalized"), idx(0))
    size = Cast(dt.float32, texture.number(c, _SIZES[d]))
    return c.keep("x", Binary("*", x, Select(is_normalized, size, const(1.0, dt.float32))))


def _floor(x: Expr) -> Expr:
    return Call("floor", (x,), dt.float32)


def _whole(x: Expr) -> Expr:
    """A float without fraction as a subscript; coordinates are below 2^31."""
    return Cast(dt.index, Cast(dt.int32, x))


def _nearest(c: Context, n: Node, texture: Texture, type: CType, at: list[Expr]) -> Value:
    return _element(c, n, texture, type, [_place(c, texture, _whole(_floor(x)), d) for d, x in enumerate(at)])


def _element(c: Context, n: Node, texture: Texture, type: CType, at: Sequence[tuple[Expr, Expr]]) -> Value:
    """The element at subscripts, each with whether there is an element: a border is of zeros."""
    places, insides = zip(*at)
    found = load(c, n, texture.at(c, list(places), type), type)
    return _map(found, lambda e: Select(_all(insides), e, const(0, e.dtype)))


def _all(tests: tuple[Expr, ...]) -> Expr:
    total = tests[0]
    for test in tests[1:]:
        total = Binary("&&", total, test)
    return total


def _map(value: Value, change: Callable[[Expr], Expr]) -> Value:
    if isinstance(value, Struct):
        return Struct(value.type, {name: _map(v, change) for name, v in value.fields.items()})
    assert isinstance(value, Number)
    return Number(value.type, change(value.expr))


def _place(c: Context, texture: Texture, i: Expr, d: int) -> tuple[Expr, Expr]:
    """The subscript along one axis, and whether there is an element.

    How it is found outside is the same for all threads: branches, which cost lanes of a vector nothing.
    """
    i = c.keep("i", i)
    size, mode = texture.number(c, _SIZES[d]), texture.number(c, f"mode{d}")
    place = c.let("place", Binary("min", Binary("max", i, idx(0)), Binary("-", size, idx(1))))
    twice = Binary("*", size, idx(2))
    back = Binary("%", i, twice)
    mirrored = Select(Compare("<", back, size), back, Binary("-", Binary("-", twice, idx(1)), back))
    for which, value in ((_WRAP, Binary("%", i, size)), (_MIRROR, mirrored)):
        with c.scope() as items:
            c.emit(Assign(place, value, span=c.span))
        c.emit(If(Compare("==", mode, idx(which)), close(items), span=c.span))
    inside = Binary("&&", Compare(">=", i, idx(0)), Compare("<", i, size))
    return c.keep("at", place), Binary("||", Compare("!=", mode, idx(_BORDER)), inside)


def _filtered(c: Context, n: Node, texture: Texture, type: CType, at: list[Expr]) -> Value:
    """Of floats: the nearest element or, where the texture says so, a mean of those around, by how near they are."""
    results = _map(_zero(type), lambda e: c.let("fetched", e))
    with c.scope() as nearest:
        _assign(c, results, _nearest(c, n, texture, type, at))
    with c.scope() as linear:
        _assign(c, results, _linear(c, n, texture, type, at))
    is_linear = Compare("!=", texture.number(c, "linear"), idx(0))
    c.emit(If(is_linear, close(linear), close(nearest), span=c.span))
    return _map(results, lambda e: c.keep("fetched", e))


def _zero(type: CType) -> Value:
    if isinstance(type, Record):
        return Struct(type, {f.name: _zero(f.type) for f in type.fields})
    assert isinstance(type, Scalar)
    return ar.constant(type, 0)


def _assign(c: Context, to: Value, value: Value) -> None:
    if isinstance(to, Struct) and isinstance(value, Struct):
        for name, field in to.fields.items():
            _assign(c, field, value.fields[name])
        return
    assert isinstance(to, Number)
    assert isinstance(to.expr, Var)
    assert isinstance(value, Number)
    c.emit(Assign(to.expr, value.expr, span=c.span))


def _linear(c: Context, n: Node, texture: Texture, type: CType, at: list[Expr]) -> Value:
    one, half = const(1.0, dt.float32), const(0.5, dt.float32)
    sides: list[list[tuple[Expr, tuple[Expr, Expr]]]] = []  # of each axis both, with weight and place
    for d, x in enumerate(at):
        low = c.keep("low", _floor(Binary("-", x, half)))
        first = c.keep("first", _whole(low))
        part = c.keep("part", Binary("-", Binary("-", x, half), low))
        weights = (Binary("-", one, part), part)
        sides.append([(w, _place(c, texture, Binary("+", first, idx(up)), d)) for up, w in enumerate(weights)])
    total = _zero(type)
    for corner in itertools.product(*reversed(sides)):
        weight: Expr = one
        for w, _ in reversed(corner):
            weight = Binary("*", weight, w)
        weight = c.keep("weight", weight)
        found = _element(c, n, texture, type, [place for _, place in reversed(corner)])
        total = _added(c, total, found, weight)
    return total


def _added(c: Context, total: Value, found: Value, weight: Expr) -> Value:
    """``total + weight * found``; what has no weight may be infinite."""
    if isinstance(total, Struct) and isinstance(found, Struct):
        fields = {name: _added(c, part, found.fields[name], weight) for name, part in total.fields.items()}
        return Struct(total.type, fields)
    assert isinstance(total, Number)
    assert isinstance(found, Number)
    counts = Compare("!=", weight, const(0.0, dt.float32))
    value = Select(counts, found.expr, const(0.0, dt.float32))
    return Number(total.type, c.keep("sum", Binary("+", total.expr, Binary("*", weight, value))))


def fetch_element(c: Context, n: Node, arguments: list[Node]) -> Value:
    """``tex1Dfetch``: an element of the array that a texture is bound to."""
    type = c.type_of(n)
    texture = _find(c, n, arguments[0], type, "texture")
    return load(c, n, texture.at(c, [ar.to_index(number(c, arguments[1]), c.ranges)], type), type)


# ---- surfaces


def read_surface(dimensions: int) -> Function:
    """``surf2Dread(surface, x, y)``, which gives an element, or ``surf2Dread(&to, surface, x, y)``; x in bytes."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = c.type_of(n)
        if isinstance(type, (Scalar, Record)):
            return load(c, n, _on_surface(c, n, arguments, type, dimensions), type)
        to = c.type_of(arguments[0])
        if not isinstance(to, Pointer):
            c.refuse(n, "what a surface is read into")
        place = dereference(c, n, expression(c, arguments[0]), to.to)
        assign(c, n, place, load(c, n, _on_surface(c, n, arguments[1:], to.to, dimensions), to.to))
        return Nothing()

    return go


def write_surface(dimensions: int) -> Function:
    """``surf2Dwrite(value, surface, x, y)``."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = c.type_of(arguments[0])
        value = expression(c, arguments[0])
        if isinstance(value, Alias) or not isinstance(type, (Scalar, Record)):
            c.refuse(n, "what is written to a surface")
        if isinstance(value, Number) and isinstance(type, Scalar):
            value = ar.convert(value, type, c.ranges)
        store(c, n, _on_surface(c, n, arguments[1:], type, dimensions), value)
        return Nothing()

    return go


def _on_surface(c: Context, n: Node, arguments: list[Node], type: CType, dimensions: int) -> Address:
    texture = _find(c, n, arguments[0], type, "surface")
    x, *others = (ar.to_index(number(c, a), c.ranges) for a in arguments[1 : 1 + dimensions])
    return texture.at(c, [ar.fold(Binary("//", x, idx(type.size))), *others], type)


FUNCTIONS: dict[str, Function] = {
    "tex1Dfetch": fetch_element,
    **{f"tex{d}D": fetch(d) for d in (1, 2, 3)},
    **{f"surf{d}Dread": read_surface(d) for d in (1, 2, 3)},
    **{f"surf{d}Dwrite": write_surface(d) for d in (1, 2, 3)},
}
