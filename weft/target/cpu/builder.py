"""LLVM IR as text, one line per instruction: types, constants, blocks, functions, a module.

Text handed to LLVM's parser is ten times cheaper to make than objects of a binding, and it is
what ``show("llvm")`` prints::

    module = Module()
    b = module.function("twice", "float", [("float", "x")])
    b.ret(b.fadd(b.argument("x"), b.argument("x")))
    module.text()

Every value carries its LLVM type, so the same calls build scalar and vector code; pointers are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from weft.ir.span import Span
from weft.target.cpu.line_tables import LineTable
from weft.target.cpu.llvm_values import Value, constant, element_align, element_of, lanes_of, mangled, vector


@dataclass(frozen=True, slots=True)
class Features:
    """What the machine does in one instruction; without it LLVM would call a C library that is not there."""

    fma: bool = True
    rounding: bool = True
    vector_bits: int = 512
    scaling: bool = False  # p * 2^n (AVX-512)
    tables: bool = False  # one of 16 float32, in each lane (AVX-512)


#: Any x86-64 has these, and no more.
BASELINE = Features(fma=False, rounding=False, vector_bits=128)


@dataclass(slots=True)
class Module:
    """Functions under construction, and what they import."""

    features: Features = field(default_factory=Features)
    header: list[str] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)
    functions: dict[str, Builder] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)
    lines: LineTable | None = None

    def function(
        self, name: str, returns: str, params: Sequence[tuple[str, str]], *, linkage: str = "", attributes: str = ""
    ) -> Builder:
        """Start a function; a parameter is (type with its attributes, name without %)."""
        self.functions[name] = Builder(self, name, returns, tuple(params), linkage, attributes)
        return self.functions[name]

    def declare(self, name: str, returns: str, arguments: Iterable[str]) -> None:
        self.declarations.setdefault(name, f"declare {returns} @{name}({', '.join(arguments)})")

    def text(self) -> str:
        bodies = [f.text() for f in self.functions.values()]
        declares = [line for name, line in self.declarations.items() if name not in self.functions]
        lines = self.lines.footer() if self.lines is not None else []
        return "\n".join([*self.header, *bodies, *declares, *self.footer, *lines, ""])


def _arithmetic(op: str) -> Callable[[Builder, Value, Value], Value]:
    return lambda b, left, right: b.binary(op, left, right)


def _conversion(op: str) -> Callable[[Builder, Value, str], Value]:
    return lambda b, value, type: b.convert(op, value, type)


class Builder:
    """Appends instructions to the current block of one function."""

    def __init__(
        self,
        module: Module,
        name: str,
        returns: str,
        params: tuple[tuple[str, str], ...],
        linkage: str,
        attributes: str,
    ) -> None:
        self.module = module
        self.features = module.features
        self.name, self.returns, self.params = name, returns, params
        self.linkage, self.attributes = linkage, attributes
        self.label = "entry"
        self.terminated = False
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._count = 0
        self._labels: dict[str, int] = {}
        self._phis: dict[str, tuple[int, list[tuple[Value, str]]]] = {}
        self._known: dict[str, Value] = {}
        self._known_vectors: dict[str, Value] = {}
        self._arriving: dict[str, dict[str, Value]] = {}
        #: What was loaded since memory last changed.
        self._loaded: dict[str, Value] = {}
        #: Values of whatever the user of the builder wants to find again, for as long as `_loaded` holds.
        self.shared: dict[object, Value] = {}
        #: Single floats that were halves, by their names: what these were.
        self._halves: dict[str, Value] = {}
        #: From which line on code belongs to which place of the source, where that is asked for.
        self.marks: list[tuple[int, Span]] = []

    # -- the function ---------------------------------------------------------------------------

    def argument(self, name: str) -> Value:
        for type, param in self.params:
            if param == name:
                return Value(f"%{name}", type.split()[0] if not type.startswith("<") else type[: type.index(">") + 1])
        raise KeyError(name)

    def text(self) -> str:
        params = ", ".join(f"{type} %{name}" for type, name in self.params)
        linkage = f"{self.linkage} " if self.linkage else ""
        attributes = f" {self.attributes}" if self.attributes else ""
        table = self.module.lines
        of_head, lines = ("", self._lines) if table is None else table.function(self._lines, self.marks)
        head = f"define {linkage}{self.returns} @{self.name}({params}){attributes}{of_head} {{"
        return "\n".join([head, "entry:", *self._allocas, *lines, "}"])

    def mark(self, span: Span) -> None:
        """What follows belongs to ``span``."""
        self.marks.append((len(self._lines), span))

    # -- blocks ---------------------------------------------------------------------------------

    def new_label(self, hint: str = "b") -> str:
        count = self._labels.get(hint, 0)
        self._labels[hint] = count + 1
        return f"{hint}.{count}"

    def block(self, label: str) -> None:
        """Start block ``label``, falling through into it when the current one has no end yet."""
        if not self.terminated:
            self.branch(label)
        self._lines.append(f"{label}:")
        self.label = label
        self.terminated = False
        # What every way here has computed; a loop's way back comes through its own start. Vectors are computed
        # anew: they are many, and registers for them few.
        self._known = dict(self._arriving.get(label, ()))
        self._known_vectors = {}
        self._forget()

    def is_target(self, label: str) -> bool:
        """Whether some block goes to ``label`` already."""
        return label in self._arriving

    def _go(self, label: str) -> None:
        others = self._arriving.get(label)
        at_hand = self._known
        if others is not None:
            at_hand = {text: value for text, value in others.items() if at_hand.get(text) is value}
        self._arriving[label] = at_hand

    def branch(self, label: str, metadata: str = "") -> None:
        self._go(label)
        self._end(f"br label %{label}{metadata}")

    def cond_branch(self, condition: Value, then: str, otherwise: str, metadata: str = "") -> None:
        self._go(then)
        self._go(otherwise)
        self._end(f"br i1 {condition.text}, label %{then}, label %{otherwise}{metadata}")

    def ret(self, value: Value | None = None) -> None:
        self._end("ret void" if value is None else f"ret {value.typed}")

    def phi(self, type: str, incoming: Sequence[tuple[Value, str]]) -> Value:
        """A phi at the start of the current block; edges known later come by ``add_incoming``."""
        value = self.fresh(type)
        self._phis[value.text] = (len(self._lines), list(incoming))
        self._lines.append("")
        self._write_phi(value)
        return value

    def add_incoming(self, phi: Value, value: Value, label: str) -> None:
        self._phis[phi.text][1].append((value, label))
        self._write_phi(phi)

    def _write_phi(self, phi: Value) -> None:
        line, incoming = self._phis[phi.text]
        edges = ", ".join(f"[ {value.text}, %{label} ]" for value, label in incoming)
        self._lines[line] = f"  {phi.text} = phi {phi.type} {edges}"

    def _end(self, line: str) -> None:
        self._lines.append("  " + line)
        self.terminated = True

    # -- instructions ---------------------------------------------------------------------------

    def fresh(self, type: str) -> Value:
        self._count += 1
        return Value(f"%v{self._count}", type)

    def emit(self, type: str, instruction: str) -> Value:
        """Append an instruction whose result has ``type`` and that may change memory."""
        self._forget()
        return self._append(type, instruction)

    def _append(self, type: str, instruction: str) -> Value:
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {instruction}")
        return Value(name, type)

    def _forget(self) -> None:
        """Memory is no longer what it was."""
        if self._loaded:
            self._loaded = {}
        if self.shared:
            self.shared = {}

    def pure(self, type: str, instruction: str) -> Value:
        """As `emit`, for an instruction that depends on its operands alone: a value at hand is not computed again."""
        at_hand = self._known_vectors if type[0] == "<" else self._known
        kept = at_hand.get(instruction)
        if kept is None:
            kept = at_hand[instruction] = self._append(type, instruction)
        return kept

    def reading(self, type: str, instruction: str) -> Value:
        """As `pure`, for an instruction that depends on memory too."""
        kept = self._loaded.get(instruction)
        if kept is None:
            kept = self._loaded[instruction] = self._append(type, instruction)
        return kept

    def emit_void(self, instruction: str) -> None:
        self._forget()
        self._lines.append("  " + instruction)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        return self.pure(a.type, f"{op} {a.type} {a.text}, {b.text}")

    fadd, fsub, fmul, fdiv = map(_arithmetic, ("fadd", "fsub", "fmul", "fdiv"))
    add, sub, mul, sdiv, udiv = map(_arithmetic, ("add", "sub", "mul", "sdiv", "udiv"))
    srem, urem, and_, or_, xor = map(_arithmetic, ("srem", "urem", "and", "or", "xor"))
    shl, lshr, ashr = map(_arithmetic, ("shl", "lshr", "ashr"))

    def fneg(self, a: Value) -> Value:
        return self.pure(a.type, f"fneg {a.typed}")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b + c: rounded once where the machine has it, twice elsewhere (see math.rounding for an exact one)."""
        if self.features.fma:
            return self.intrinsic("fma", a, b, c)
        return self.fadd(self.fmul(a, b), c)

    def not_(self, a: Value) -> Value:
        return self.xor(a, constant(a.type, 1 if a.element == "i1" else -1))

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.pure(vector("i1", a.lanes), f"icmp {predicate} {a.type} {a.text}, {b.text}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.pure(vector("i1", a.lanes), f"fcmp {predicate} {a.type} {a.text}, {b.text}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.pure(a.type, f"select {condition.typed}, {a.typed}, {b.typed}")

    # -- conversions (``type`` is the result's element type; lanes follow the operand) -------------

    def convert(self, op: str, a: Value, type: str) -> Value:
        target = vector(element_of(type), a.lanes)
        made = a if target == a.type else self.pure(target, f"{op} {a.typed} to {target}")
        if a.type == "half":
            self._halves[made.text] = a
        return made

    sext, zext, trunc, fpext, fptrunc = map(_conversion, ("sext", "zext", "trunc", "fpext", "fptrunc"))
    sitofp, uitofp = map(_conversion, ("sitofp", "uitofp"))
    #: Poison outside the integer's range: only where the range is known.
    fptosi, fptoui = map(_conversion, ("fptosi", "fptoui"))

    def bitcast(self, a: Value, type: str) -> Value:
        """The same bits as ``type``; a bare element type keeps the lanes."""
        target = vector(type, a.lanes) if lanes_of(type) == 1 else type
        return a if target == a.type else self.pure(target, f"bitcast {a.typed} to {target}")

    def float_to_integer(self, a: Value, type: str, *, signed: bool) -> Value:
        """Saturates, NaN to 0; of vectors LLVM converts one lane after the other."""
        target = vector(element_of(type), a.lanes)
        name = f"llvm.fpto{'si' if signed else 'ui'}.sat.{mangled(target)}.{mangled(a.type)}"
        return self.call(name, target, [a], pure=True)

    def ptrtoint(self, a: Value, type: str = "i64") -> Value:
        return self.convert("ptrtoint", a, type)

    # -- memory ---------------------------------------------------------------------------------

    def load(
        self, type: str, pointer: Value, align: int | None = None, metadata: str = "", *, pure: bool = False
    ) -> Value:
        """``align`` in bytes; an element's own size when not given (a larger wrong one faults).

        ``pure``: of memory that nothing changes.
        """
        text = f"load {type}, ptr {pointer.text}, align {align or element_align(type)}{metadata}"
        return self.pure(type, text) if pure else self.reading(type, text)

    def store(self, value: Value, pointer: Value, align: int | None = None, metadata: str = "") -> None:
        align = align or element_align(value.type)
        self.emit_void(f"store {value.typed}, ptr {pointer.text}, align {align}{metadata}")

    def gep(self, element: str, pointer: Value, index: Value, *, inbounds: bool = True) -> Value:
        """Address of ``pointer[index]`` in units of ``element``; a vector index gives a vector of pointers."""
        word = "getelementptr inbounds" if inbounds else "getelementptr"
        return self.pure(vector("ptr", index.lanes), f"{word} {element}, ptr {pointer.text}, {index.typed}")

    def alloca(self, type: str, count: int = 1, align: int | None = None) -> Value:
        """Stack space for ``count`` of ``type``, taken once, at the function's entry."""
        slot = self.fresh("ptr")
        size = f", i64 {count}" if count != 1 else ""
        self._allocas.append(f"  {slot.text} = alloca {type}{size}, align {align or element_align(type)}")
        return slot

    # -- vectors --------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        if lanes == 1:
            return value
        type = vector(value.type, lanes)
        if not value.text.startswith("%"):
            return Value(f"splat ({value.typed})", type)
        if value.text in self._halves:
            # Converted in all lanes: of a single one LLVM would wait for what was beside it in its register.
            return self.fpext(self.splat(self._halves[value.text], lanes), "float")
        first = self.pure(type, f"insertelement {type} poison, {value.typed}, i64 0")
        return self.pure(type, f"shufflevector {first.typed}, {type} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, value: Value, lane: int | Value) -> Value:
        return self.pure(value.element, f"extractelement {value.typed}, {_lane(lane)}")

    def insert(self, value: Value, item: Value, lane: int | Value) -> Value:
        return self.pure(value.type, f"insertelement {value.typed}, {item.typed}, {_lane(lane)}")

    def shuffle(self, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes picked from ``a`` then ``b``; -1 is any value."""
        mask = ", ".join(f"i32 {n}" if n >= 0 else "i32 poison" for n in lanes)
        other = b.typed if b is not None else f"{a.type} poison"
        type = f"<{len(lanes)} x {a.element}>"
        return self.pure(type, f"shufflevector {a.typed}, {other}, <{len(lanes)} x i32> <{mask}>")

    # -- calls ----------------------------------------------------------------------------------

    def call(
        self, name: str, returns: str, arguments: Sequence[Value], *, pure: bool = False, reads: bool = False
    ) -> Value:
        """Call ``name``, declaring it when the module does not define it. For ``void``, the value is not to be used.

        A ``pure`` function gives the same for the same arguments and does nothing else; one that only ``reads``
        does so while memory stays as it is.
        """
        self.module.declare(name, returns, (a.type for a in arguments))
        text = f"call {returns} @{name}({', '.join(a.typed for a in arguments)})"
        if returns == "void":
            self.emit_void(text)
            return Value("void", "void")
        return self.pure(returns, text) if pure else self.reading(returns, text) if reads else self.emit(returns, text)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """``llvm.name.type(arguments)``, overloaded on the first argument and of its type."""
        first = arguments[0].type
        return self.call(f"llvm.{name}.{mangled(first)}", first, arguments, pure=True)


def _lane(lane: int | Value) -> str:
    return f"i64 {lane}" if isinstance(lane, int) else lane.typed
