"""Random tensor programs, as whiteboard text with arguments to call them on.

Sizes are small and odd (0, 1, primes), element types are all we have, arrays are laid out in
every way numpy can. Programs are built statement by statement from the patterns users write:
maps, reductions, windows, lookups, scatters, scans, blocks of steps, boundaries, triangles, temporaries.

A program is *exact* (only operations that round in one known way, so compiled code and the
interpreter must agree bit for bit) or *smooth* (functions accurate to a few ulp, and nothing that
turns a small difference into a large one).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
SIZES = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 7, 11, 17])


def numpy_type(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


@dataclass
class Tensor:
    name: str
    dtype: str
    dims: tuple[str, ...]


@dataclass
class RandomProgram:
    """A program and its arguments by name."""

    text: str
    exact: bool
    arguments: dict[str, Any] = field(default_factory=dict)


class Writer:
    """Draws one program; ``tensors`` are those that may be read so far."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.exact: bool = draw(st.booleans())
        self.sizes: dict[str, int] = {}
        self.tensors: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.indices: dict[str, int] = {}  # index inputs and the size they must stay below
        self.lines: list[str] = []
        self.outputs: list[str] = []

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def size(self) -> str:
        if self.sizes and self.draw(st.integers(0, 2)):
            return str(self.pick(*self.sizes))
        name = f"N{len(self.sizes)}"
        self.sizes[name] = self.draw(SIZES)
        return name

    def extent(self, dim: str) -> int:
        return int(dim) if dim.isdigit() else self.sizes[dim]

    def new_input(self, dtype: str, dims: tuple[str, ...]) -> Tensor:
        tensor = Tensor(f"A{len(self.inputs)}", dtype, dims)
        self.inputs.append(tensor)
        self.tensors.append(tensor)
        return tensor

    def some_input(self, rank: int | None = None) -> Tensor:
        fitting = [t for t in self.tensors if rank is None or len(t.dims) == rank]
        if fitting and self.draw(st.booleans()):
            return self.pick(*fitting)
        rank = self.draw(st.integers(1, 3)) if rank is None else rank
        dtype = self.pick("float32", "float32", "float64", *FLOATS, *INTEGERS, "bool")
        return self.new_input(dtype, tuple(self.size() for _ in range(rank)))

    def finish(self, name: str, dtype: str, dims: tuple[str, ...] | None, *, is_sum: bool = False) -> None:
        """The statement's target may be read later if its dimensions are plain sizes, and may be an output.

        A float sum depends on the order of its terms, so in an exact program nothing reads it.
        """
        self.outputs.append(name)
        if dims is not None and not (self.exact and is_sum and self.kind_of(dtype) == "float"):
            self.tensors.append(Tensor(name, dtype, dims))

    # --- expressions: every value is (text, type class), the class being float, int or bool ---

    def literal(self, kind: str) -> str:
        if kind == "float":
            return self.pick("0.5", "1.0", "2.0", "-1.5", "1e-3", "3.25")
        return self.pick("0", "1", "2", "3", "7") if kind == "int" else self.pick("true", "false")

    def value(self, leaves: list[tuple[str, str]], depth: int) -> tuple[str, str]:
        if depth == 0 or not self.draw(st.integers(0, 3)):
            return self.pick(*leaves) if self.draw(st.integers(0, 4)) else (self.literal("float"), "float")
        a, ka = self.value(leaves, depth - 1)
        if self.draw(st.booleans()):
            return self.unary(a, ka)
        b, kb = self.value(leaves, depth - 1)
        return self.binary(a, ka, b, kb)

    def unary(self, a: str, kind: str) -> tuple[str, str]:
        if kind == "bool":
            return (f"(!{a})", "bool") if self.draw(st.booleans()) else (f"({a} ? 2.5 : -1.0)", "float")
        if kind == "int":
            choice = self.pick("neg", "abs", "float", "test", "cast")
            return {
                "neg": (f"(-{a})", "int"),
                "abs": (f"abs({a})", "int"),
                "float": (f"float({a})", "float"),
                "test": (f"({a} > {self.literal('int')})", "bool"),
                "cast": (f"{self.pick('int8', 'int64', 'uint8', 'int16')}({a})", "int"),
            }[choice]
        if self.exact:
            cast = self.pick("int32", "int8", "uint8", "int64")
            return self.pick(
                (f"(-{a})", "float"), (f"abs({a})", "float"), (f"sqrt(abs({a}))", "float"), (f"floor({a})", "float"),
                (f"({a} < {self.literal('float')})", "bool"), (f"{cast}({a})", "int"),
                (f"{self.pick('half', 'bfloat16', 'double', 'float')}({a})", "float"),
            )  # fmt: skip
        function = self.pick("tanh", "sigmoid", "sin", "cos", "erf", "atan")
        return self.pick((f"{function}({a})", "float"), (f"exp(-abs({a}))", "float"), (f"log(1.5 + abs({a}))", "float"))

    def binary(self, a: str, ka: str, b: str, kb: str) -> tuple[str, str]:
        if ka == kb == "bool":
            return f"({a} {self.pick('&&', '||', '==', '!=')} {b})", "bool"
        kind = "float" if "float" in (ka, kb) else "int"
        choices = ("+", "-", "*", "/", "%", "min", "max", "<", "==", "select")
        choice = self.pick(*choices) if self.exact or kind == "int" else self.pick("+", "-", "*", "min", "max")
        if choice in ("min", "max"):
            return f"{choice}({a}, {b})", kind
        if choice in ("<", "=="):
            return f"({a} {choice} {b})", "bool"
        if choice == "select":
            return f"({a} <= {b} ? {a} : {b})", kind
        if choice == "%" and kind == "float":
            choice = "-"
        return f"({a} {choice} {b})", kind

    def kind_of(self, dtype: str) -> str:
        return "bool" if dtype == "bool" else "int" if "int" in dtype else "float"

    # --- statements ---

    def leaf(self, tensor: Tensor, subscripts: list[str]) -> tuple[str, str]:
        return f"{tensor.name}({', '.join(subscripts)})", self.kind_of(tensor.dtype)

    def variables(self, dims: tuple[str, ...], prefix: str = "i") -> list[str]:
        return [f"{prefix}{k}" for k in range(len(dims))]

    def typed(self, value: tuple[str, str]) -> str:
        """The value cast to a type we know, so that later statements know it too; the type is returned in front."""
        text, kind = value
        dtype = self.pick(*FLOATS) if kind == "float" else self.pick(*INTEGERS) if kind == "int" else "bool"
        return f"{dtype} {dtype}({text})"

    def statement(self) -> None:
        pattern = self.pick(
            self.map, self.map, self.reduce, self.reduce, self.window, self.lookup, self.scatter,
            self.scan, self.block, self.boundary, self.triangle, self.strided, self.position, self.concat,
        )  # fmt: skip
        pattern(f"T{len(self.lines)}")

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def map(self, name: str) -> None:
        first = self.some_input()
        names = self.variables(first.dims)
        leaves = [self.leaf(first, names)]
        for tensor in self.tensors:
            if tensor is not first and set(tensor.dims) <= set(first.dims):
                leaves.append(self.leaf(tensor, [names[first.dims.index(d)] for d in tensor.dims]))
        dtype, value = self.typed(self.value(leaves, 3)).split(" ", 1)
        order = self.draw(st.permutations(range(len(names))))
        left = ", ".join(names[k] for k in order)
        self.emit(f"{name}({left}) = {value} + {dtype}({leaves[0][0]})" if dtype != "bool" else
                  f"{name}({left}) = {value} || bool({leaves[0][0]})")  # fmt: skip
        self.finish(name, dtype, tuple(first.dims[k] for k in order))

    def reduce(self, name: str) -> None:
        first = self.some_input()
        names = self.variables(first.dims)
        kept = [k for k in range(len(names)) if self.draw(st.booleans())]
        dtype, value = self.typed(self.value([self.leaf(first, names)], 1)).split(" ", 1)
        op = self.pick("+=!", "+=!", "min=!", "max=!", "+=", "*=!")
        if dtype == "bool":
            op = self.pick("min=!", "max=!")
        if len(kept) == len(names) - 1 and dtype != "bool" and self.draw(st.integers(0, 3)) == 0:
            gone = next(k for k in range(len(names)) if k not in kept)
            if self.extent(first.dims[gone]) > 0:
                op, dtype = self.pick("argmin=!", "argmax=!"), "int32"
        left = f"({', '.join(names[k] for k in kept)})" if kept else ""
        guard = f"{dtype}({self.leaf(first, names)[0]})"
        body = value if op.startswith("arg") or dtype == "bool" else f"min({value}, {guard})"
        if dtype == "bool" or op.startswith("arg"):
            body = f"({value} == {value}) && bool({self.leaf(first, names)[0]})" if dtype == "bool" else (
                self.leaf(first, names)[0])  # fmt: skip
        self.emit(f"{name}{left} {op} {body}")
        dims = tuple(first.dims[k] for k in kept) if kept else None
        self.finish(name, dtype, dims, is_sum=op[0] in "+*")

    def window(self, name: str) -> None:
        image = self.some_input(1)
        if image.dtype == "bool":
            return self.map(name)
        width = self.draw(st.integers(1, 3))
        kernel = self.new_input(self.pick("float32", image.dtype), (str(width),))
        if self.extent(image.dims[0]) < width:
            return self.map(name)
        self.emit(f"{name}(i) +=! {image.name}(i + k) * {kernel.name}(k)")
        self.finish(name, "unknown", None)

    def strided(self, name: str) -> None:
        t = self.some_input(1)
        step, shift = self.draw(st.integers(1, 3)), self.draw(st.integers(0, 2))
        if self.extent(t.dims[0]) < shift:
            return self.map(name)
        self.emit(f"{name}(i) = {t.name}({step}*i + {shift})" if self.draw(st.booleans()) else
                  f"{name}({step}*i + {shift}) = {t.name}(i)")  # fmt: skip
        self.finish(name, t.dtype, None)

    def lookup(self, name: str) -> None:
        table = self.some_input(2)
        rows = self.extent(table.dims[0])
        length = self.size()
        if rows == 0 and self.extent(length) > 0:
            return self.map(name)
        index = self.new_input(self.pick("int32", "int64", "uint8"), (length,))
        self.indices[index.name] = rows
        self.tensors.remove(index)
        self.emit(f"{name}(i, j) = {table.name}({index.name}(i), j)")
        self.finish(name, table.dtype, (length, table.dims[1]))

    def scatter(self, name: str) -> None:
        source = self.some_input(2)
        if source.dtype == "bool":
            return self.map(name)
        rows = self.size()
        if self.extent(rows) == 0 and self.extent(source.dims[0]) > 0:
            return self.map(name)
        index = self.new_input(self.pick("int32", "int64"), (source.dims[0],))
        self.indices[index.name] = self.extent(rows)
        self.tensors.remove(index)
        shape = self.new_input("int32", (rows,))
        self.tensors.remove(shape)
        op = self.pick("+=!", "+=", "max=!", "=")
        self.emit(f"{name}(r, j) = {source.dtype}(0) where r in 0:{rows}, j in 0:{source.dims[1]}")
        self.emit(f"{name}({index.name}(i), j) {op} {source.name}(i, j)")
        self.finish(name, source.dtype, (rows, source.dims[1]), is_sum=True)

    def scan(self, name: str) -> None:
        t = self.some_input(2)
        if t.dtype == "bool":
            return self.map(name)
        n, m = t.dims
        along_first = self.draw(st.booleans())
        if self.extent(n if along_first else m) == 0:
            return self.map(name)
        op = self.pick("{p} + {v}", "max({p}, {v})", "{p} - {v}")
        if along_first:
            self.emit(f"{name}(0, j) = {t.name}(0, j)")
            step = op.format(p=f"{name}(i-1, j)", v=f"{t.name}(i, j)")
            self.emit(f"{name}(i, j) = {step} where i in 1:{n}")
            if self.extent(m) == 0:
                self.finish(name, t.dtype, None)
                return None
        else:
            self.emit(f"{name}(i, 0) = {t.name}(i, 0)")
            step = op.format(p=f"{name}(i, j-1)", v=f"{t.name}(i, j)")
            self.emit(f"{name}(i, j) = {step} where j in 1:{m}")
        self.finish(name, t.dtype, None)
        return None

    def block(self, name: str) -> None:
        """A state that goes on from step to step, a reduction of it, and what each step or the one before it gave."""
        source = self.some_input(2)
        if source.dtype == "bool":
            return self.map(name)
        steps, width = source.dims
        dtype, state, best = source.dtype, f"{name}_s", f"{name}_m"
        back = self.draw(st.booleans())
        after_first = not back and self.draw(st.booleans()) and self.extent(steps) > 0
        before = f"{name}(t-1, i)" if after_first else None
        self.emit(f"{state}(i) = {source.name}(0, i)" if before else f"{state}(i) = {dtype}(1) where i in 0:{width}")
        if before:
            self.emit(f"{name}(0, i) = {state}(i)")
        old = f"{source.name}(t, i) {self.pick('+', '-', '*')} {self.pick(state + '(i)', before or '1')}"
        row = f"{name}_r(i) = {dtype}({old})"
        inner = [row, f"{best} {self.pick('max=!', 'min=!')} {self.pick(state, f'{name}_r')}(i)"]
        inner.append(f"{state}(i) = {dtype}({self.pick(f'{name}_r(i) - {best}', f'max({name}_r(i), {best})')})")
        inner.append(f"{name}({f'{steps}-1-t' if back else 't'}, i) = {state}(i)")
        self.emit(f"for t in {1 if before else 0}:{steps} {{ {'; '.join(inner)} }}")
        self.finish(name, dtype, None if before else source.dims)
        return None

    def boundary(self, name: str) -> None:
        t = self.some_input(self.pick(1, 2))
        if any(self.extent(d) == 0 for d in t.dims):
            return self.map(name)
        names = self.variables(t.dims)
        shifts = [self.pick("-2", "-1", "+0", "+1", "+3") for _ in names]
        mode = self.pick("zero", "edge", "wrap", "reflect", "1")
        if t.dtype == "bool" and mode in ("1",):
            mode = "edge"
        inside = ", ".join(f"{v} {s[0]} {s[1:]}" for v, s in zip(names, shifts))
        ranges = ", ".join(f"{v} in 0:{d}" for v, d in zip(names, t.dims))
        self.emit(f"{name}({', '.join(names)}) = {t.name}({inside}) where {ranges}, {t.name} outside {mode}")
        self.finish(name, t.dtype, t.dims)
        return None

    def triangle(self, name: str) -> None:
        t = self.some_input(2)
        if t.dtype == "bool" or self.extent(t.dims[0]) > self.extent(t.dims[1]):
            return self.map(name)
        op = self.pick("+=!", "max=!")
        self.emit(f"{name}(i) {op} {t.name}(i, j) where j in 0:i+1")
        self.finish(name, t.dtype, (t.dims[0],), is_sum=op[0] == "+")
        return None

    def position(self, name: str) -> None:
        t = self.some_input(1)
        self.emit(f"{name}(i) = i > 0 ? {t.name}(i-1) : {t.name}(i) where i in 0:{t.dims[0]}")
        self.finish(name, t.dtype, t.dims)

    def concat(self, name: str) -> None:
        a, b = self.some_input(1), self.some_input(1)
        dtype = self.pick(*FLOATS)
        self.emit(f"{name}(i) = {dtype}({a.name}(i))")
        self.emit(f"{name}(i + {a.dims[0]}) = {dtype}({b.name}(i))")
        self.finish(name, dtype, None)


def lay_out(draw: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same elements in another memory layout."""
    layout = draw(st.sampled_from(["c", "c", "fortran", "sliced", "reversed", "padded", "broadcast"]))
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "sliced":
        wide = np.zeros(tuple(2 * n + 1 for n in array.shape), array.dtype)
        view = wide[tuple(slice(0, 2 * n, 2) for n in array.shape)]
        view[...] = array
        return view
    if layout == "reversed":
        flipped = array[(slice(None, None, -1),) * array.ndim].copy()
        return flipped[(slice(None, None, -1),) * array.ndim]
    if layout == "padded":
        wide = np.zeros(tuple(n + 3 for n in array.shape), array.dtype)
        view = wide[tuple(slice(1, n + 1) for n in array.shape)]
        view[...] = array
        return view
    if layout == "broadcast" and array.size:
        return np.broadcast_to(array[:1], array.shape)
    return array


def make_array(draw: Any, writer: Writer, tensor: Tensor) -> np.ndarray[Any, Any]:
    shape = tuple(map(writer.extent, tensor.dims))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if tensor.name in writer.indices:
        return rng.integers(0, max(1, writer.indices[tensor.name]), shape).astype(tensor.dtype)
    if tensor.dtype == "bool":
        return lay_out(draw, rng.integers(0, 2, shape).astype(bool))
    if "int" in tensor.dtype:
        info = np.iinfo(tensor.dtype)
        low, high = max(info.min, -20), min(info.max, 20)
        return lay_out(draw, rng.integers(low, high, shape, endpoint=True).astype(tensor.dtype))
    values = rng.standard_normal(shape) * 2
    if draw(st.integers(0, 5)) == 0 and values.size:
        values.reshape(-1)[0] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    return lay_out(draw, values.astype(numpy_type(tensor.dtype)))


@st.composite
def programs(draw: Any) -> RandomProgram:
    writer = Writer(draw)
    for _ in range(draw(st.integers(1, 3))):
        writer.statement()
    params = ", ".join(f"{t.dtype}({','.join(t.dims)}) {t.name}" for t in writer.inputs)
    last = writer.outputs[-1]
    outputs = [o for o in dict.fromkeys(writer.outputs) if o == last or draw(st.booleans())]
    used = {d for t in writer.inputs for d in t.dims if not d.isdigit()}
    body = "\n".join(f"    {line}" for line in writer.lines)
    text = f"def f({params}) -> ({', '.join(outputs)}) {{\n{body}\n}}"
    assert used <= set(writer.sizes)
    return RandomProgram(text, writer.exact, {t.name: make_array(draw, writer, t) for t in writer.inputs})
