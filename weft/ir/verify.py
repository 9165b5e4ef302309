"""The rules of the loop program, checked: `verify` finds every violation and reports them together.

Constructors already keep expressions well typed; what is checked here needs the surroundings:
names, declarations, who may write what, and which statement may stand in which loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import AddressOf, Call, Const, Expr, Var
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS
from weft.ir.printer import print_kernel, print_stmt
from weft.ir.span import Span
from weft.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Block,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Kernel,
    Let,
    Region,
    Return,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
)
from weft.ir.verify_expr import (
    Declared,
    Problem,
    Report,
    check_assert,
    check_atomic,
    check_expr,
    check_lanes,
)
from weft.ir.visit import children, loads, stores, walk

Role = Literal["parameter", "loop", "let", "iterator", "axis"]
_CONCURRENT = ("parallel", "vector", "block", "thread")


def verify(kernel: Kernel) -> None:
    """Raises one `ProgramError` that lists everything wrong with ``kernel``."""
    try:
        problems = find_problems(kernel)
    except RecursionError:
        raise ProgramError("the program is nested too deeply to verify", span=kernel.span) from None
    if not problems:
        return
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    notes = [(str(i), p.render()) for i, p in enumerate(problems, 1)]
    first = next((p.span for p in problems if p.span is not None), kernel.span)
    raise ProgramError(f"kernel `{kernel.name}` is not a valid program: {count}", span=first, notes=notes)


def find_problems(kernel: Kernel) -> list[Problem]:
    """Everything wrong with ``kernel``, in program order."""
    checker = Verifier(kernel)
    checker.check_signature()
    checker.check(kernel.body)
    return checker.problems


@dataclass(frozen=True)
class Surroundings:
    """What encloses a statement: its loops, outermost first, and how many concurrent ones there are."""

    loops: tuple[str, ...] = ()

    def inside(self, kind: str) -> Surroundings:
        return Surroundings((*self.loops, kind))

    @property
    def fences(self) -> int:
        return sum(kind in _CONCURRENT for kind in self.loops)

    def has(self, *kinds: str) -> bool:
        return any(kind in kinds for kind in self.loops)


class Verifier:
    """One pass over a kernel with the names in scope and the enclosing loops."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.problems: list[Problem] = []
        self.vars: dict[str, Declared] = {}
        self.buffers: dict[str, Buffer] = {}
        #: Variables of enclosing statements that a block body must not use.
        self.hidden: set[str] = set()
        self.writable: set[str] = set(kernel.outputs)
        self.around = Surroundings()
        self.where: Stmt | Kernel = kernel

    # Reporting and scopes

    def problem(self, text: str, span: Span | None = None) -> None:
        here = self.where
        lines = (print_kernel(here) if isinstance(here, Kernel) else print_stmt(here)).splitlines()
        line = lines[0].strip().removesuffix("{").strip() if lines else "{ }"
        self.problems.append(Problem(text, line, span or here.span))

    @contextmanager
    def binding(self, variables: Iterable[Var], role: Role) -> Iterator[None]:
        """``variables`` are in scope inside the ``with``."""
        saved = dict(self.vars)
        for v in variables:
            self.check_new_name(v.name, role)
            self.vars[v.name] = Declared(v, role, self.around.fences)
        try:
            yield
        finally:
            self.vars = saved

    @contextmanager
    def within(self, kind: str) -> Iterator[None]:
        saved = self.around
        self.around = saved.inside(kind)
        try:
            yield
        finally:
            self.around = saved

    def check_new_name(self, name: str, role: str) -> None:
        if not name:
            self.problem(f"a {role} has an empty name")
        elif name in self.vars or name in self.buffers or name in self.hidden:
            self.problem(f"`{name}` is bound again although an enclosing statement already binds it")

    # The signature

    def check_signature(self) -> None:
        kernel = self.kernel
        if not kernel.name:
            self.problem("the kernel has an empty name")
        for p in kernel.params:
            self.check_new_name(p.name, "parameter")
            if isinstance(p, Var):
                self.vars[p.name] = Declared(p, "parameter", 0)
                if p.type.lanes > 1:
                    self.problem(f"parameter `{p.name}` is a vector; scalars and buffers can be passed")
            else:
                self.buffers[p.name] = p
        for b in kernel.buffers:
            self.check_buffer(b)
            if b.scope not in ("global", "constant"):
                self.problem(f"parameter `{b.name}` is in {b.scope} scope; parameters are global or constant")
        self.check_outputs()

    def check_outputs(self) -> None:
        kernel = self.kernel
        for name in kernel.outputs:
            if name not in self.buffers:
                self.problem(f"output `{name}` is not a buffer parameter")
            elif self.buffers[name].scope == "constant":
                self.problem(f"output `{name}` is in constant scope")
        order = [b.name for b in kernel.buffers if b.name in kernel.outputs]
        if sorted(order) == sorted(kernel.outputs) and order != list(kernel.outputs):
            self.problem("the outputs are not in the order of the parameters")
        elif len(set(kernel.outputs)) != len(kernel.outputs):
            self.problem("an output is named twice")

    def check_buffer(self, b: Buffer) -> None:
        if b.dtype.lanes > 1:
            self.problem(f"buffer `{b.name}` holds vectors; buffers hold scalar elements")
        for e in (*b.shape, *(b.strides or ())):
            self.check_exprs(e)
        for size in b.shape:
            if isinstance(size, Const) and size.value < 0:
                self.problem(f"buffer `{b.name}` has the negative size {size.value}")
        if b.scope == "register" and not all(isinstance(size, Const) for size in b.shape):
            self.problem(f"register buffer `{b.name}` has a size that is not a constant")

    # Statements

    def check(self, s: Stmt) -> None:
        saved, self.where = self.where, s
        try:
            self.check_stmt(s)
        finally:
            self.where = saved

    def check_stmt(self, s: Stmt) -> None:
        match s:
            case Seq():
                for part in s.body:
                    self.check(part)
            case For():
                self.check_loop(s)
            case While():
                self.check_exprs(s.condition)
                with self.within("while"):
                    self.check(s.body)
            case If():
                self.check_exprs(s.condition)
                self.check(s.then)
                if s.otherwise is not None:
                    self.check(s.otherwise)
            case Let():
                self.check_exprs(s.value)
                with self.binding((s.var,), "let"):
                    self.check(s.body)
            case Alloc():
                self.check_alloc(s)
            case Tensorized():
                self.check_hardware(s.intrinsic)
                self.check(s.body)
            case Block():
                self.check_block(s)
            case _:
                self.check_simple(s)

    def check_simple(self, s: Stmt) -> None:
        match s:
            case Assign():
                self.check_exprs(s.value)
                self.check_assignable(s.var)
            case Store() | Atomic():
                self.check_write(s)
            case Break() | Continue():
                self.check_exit("break" if isinstance(s, Break) else "continue")
            case Return():
                if self.around.has("parallel", "vector"):
                    self.problem("return inside a parallel or vector loop, whose iterations are not threads")
            case Barrier():
                self.check_barrier(s)
            case Evaluate(call=Call(name=name)) if name in HARDWARE:
                self.check_hardware_call(s)
            case Evaluate(call=Call(name=name, args=args)) if name in HINTS:
                self.check_exprs(*args)
                if len(args) != 1 or not isinstance(args[0], AddressOf):
                    self.problem(f"`{name}` takes one address")
            case _:
                check_assert(self.report, s)
                self.check_exprs(*(n for n in children(s) if isinstance(n, Expr)))

    def check_loop(self, s: For) -> None:
        self.check_exprs(s.lo, s.hi)
        refused = _REFUSED_INSIDE.get(s.kind, ())
        for kind in self.around.loops:
            if kind in refused:
                self.problem(f"{_article(s.kind)} loop inside {_article(kind)} loop")
                break
        with self.within(s.kind), self.binding((s.var,), "loop"):
            self.check(s.body)

    def check_alloc(self, s: Alloc) -> None:
        b = s.buffer
        self.check_new_name(b.name, "buffer")
        self.check_buffer(b)
        saved, writable = dict(self.buffers), set(self.writable)
        self.buffers[b.name] = b
        self.writable.add(b.name)
        self.check(s.body)
        self.buffers, self.writable = saved, writable

    def check_assignable(self, var: Var) -> None:
        known = self.vars.get(var.name)
        if known is None:
            self.problem(f"`{var.name}` is assigned but no enclosing let makes it", var.span)
        elif known.role != "let":
            self.problem(f"`{var.name}` is assigned but it is a {known.role} variable, not a let", var.span)
        elif known.var != var:
            self.problem(f"`{var.name}` is a {known.var.type}, used as {var.type}", var.span)
        elif known.fences != self.around.fences:
            self.problem(f"`{var.name}` is assigned across a concurrent loop: its let is outside", var.span)

    def check_write(self, s: Store | Atomic) -> None:
        name = s.buffer.name
        self.check_exprs(*s.indices, s.value)
        self.check_declared(s.buffer, s.span)
        check_lanes(self.report, s)
        if name in self.buffers and name not in self.writable:
            self.problem(f"`{name}` is written but it is not an output")
        elif s.buffer.scope == "constant":
            self.problem(f"`{name}` is written but it is in constant scope")
        if isinstance(s, Atomic):
            check_atomic(self.report, s)
            if s.expected is not None:
                self.check_exprs(s.expected)
            if s.result is not None:
                self.check_assignable(s.result)

    def check_hardware(self, name: str) -> None:
        if name not in HARDWARE:
            self.problem(f"`{name}` is not a declared hardware intrinsic")
        elif self.around.has("vector"):
            self.problem(f"the hardware intrinsic `{name}` inside a vector loop")

    def check_hardware_call(self, s: Evaluate) -> None:
        self.check_hardware(s.call.name)
        self.check_exprs(*s.call.args)
        hardware = HARDWARE[s.call.name]
        wrong = hardware.find_problem(s.call.args)
        if wrong is not None:
            self.problem(wrong)
            return
        for param, arg in zip(hardware.meaning.params, s.call.args):
            written = isinstance(arg, AddressOf) and param.name in hardware.meaning.outputs
            if isinstance(arg, AddressOf) and written and arg.buffer.name not in self.writable:
                self.problem(f"`{arg.buffer.name}` is written but it is not an output")

    def check_exit(self, word: str) -> None:
        loops = self.around.loops
        if not loops:
            self.problem(f"{word} outside a loop")
        elif loops[-1] in _CONCURRENT:
            self.problem(f"{word} would leave {_article(loops[-1])} loop, whose iterations are concurrent")

    def check_barrier(self, s: Barrier) -> None:
        if self.around.has("vector"):
            self.problem("a barrier inside a vector loop")
        elif s.scope == "grid" and not self.around.has("thread", "block"):
            self.problem("a grid barrier outside block and thread loops")
        elif s.scope != "grid" and not self.around.has("thread"):
            self.problem(f"a {s.scope} barrier outside thread loops")

    def check_block(self, s: Block) -> None:
        for i in s.iters:
            self.check_exprs(i.lo, i.hi, i.binding)
            for what, e in (("variable", i.var), ("range", i.lo), ("range", i.hi), ("binding", i.binding)):
                if e.dtype != dt.index:
                    self.problem(f"the {what} of iterator `{i.var.name}` is {e.dtype}; iterators are int64")
        outer, hidden, around = self.vars, self.hidden, self.around
        self.vars = {n: d for n, d in outer.items() if d.role == "parameter"}
        self.hidden = hidden | (outer.keys() - self.vars.keys())
        # A break must not leave the block; which concurrent loops it runs in still matters inside.
        self.around = Surroundings(tuple(k for k in around.loops if k in _CONCURRENT))
        with self.binding((i.var for i in s.iters), "iterator"):
            self.check_regions(s)
            for part in (s.init, s.body):
                if part is not None:
                    self.check(part)
        self.vars, self.hidden, self.around = outer, hidden, around

    def check_regions(self, s: Block) -> None:
        for r in (*s.reads, *s.writes):
            self.check_region(r)
        parts: list[Stmt] = [s.body] if s.init is None else [s.init, s.body]
        own = {n.buffer.name for p in parts for n in walk(p) if isinstance(n, Alloc)}
        written = {n.buffer.name for p in parts for n in stores(p)}
        updated = {n.buffer.name for p in parts for n in stores(p) if isinstance(n, Atomic)}
        read = {n.buffer.name for p in parts for n in loads(p)} | updated
        for verb, used, regions in (("reads", read, s.reads), ("writes", written, s.writes)):
            declared = {r.buffer.name for r in regions}
            # What a block writes it may read back without saying so: an update is one access.
            if verb == "reads":
                declared |= {r.buffer.name for r in s.writes}
            for name in sorted(used - declared - own):
                self.problem(f"block `{s.name}` {verb} `{name}` but does not declare it")

    def check_region(self, r: Region) -> None:
        self.check_declared(r.buffer, None)
        if not len(r.starts) == len(r.extents) == r.buffer.rank:
            self.problem(f"a region of `{r.buffer.name}` does not have {r.buffer.rank} dimensions")
        self.check_exprs(*r.starts, *r.extents)
        for e in (*r.starts, *r.extents):
            if e.dtype != dt.index:
                self.problem(f"a region of `{r.buffer.name}` has a bound of type {e.dtype}; bounds are int64")

    # Expressions and names

    @property
    def report(self) -> Report:
        return self.problem

    def check_exprs(self, *parts: Expr) -> None:
        for e in parts:
            check_expr(self, e)

    def check_var(self, v: Var) -> None:
        known = self.vars.get(v.name)
        if known is None and v.name in self.hidden:
            self.problem(f"`{v.name}` is a variable outside the block; a block uses its iterators and scalars", v.span)
        elif known is None:
            self.problem(f"`{v.name}` is not in scope", v.span)
        elif known.var != v:
            self.problem(f"`{v.name}` is a {known.var.type}, used as {v.type}", v.span)

    def check_declared(self, b: Buffer, span: Span | None) -> None:
        known = self.buffers.get(b.name)
        if known is None:
            self.problem(f"buffer `{b.name}` is not in scope", span)
        elif known != b:
            self.problem(f"buffer `{b.name}` is used with another type, shape, layout or scope than declared", span)


#: Loops that must not enclose a loop of this kind.
_REFUSED_INSIDE: dict[str, tuple[str, ...]] = {
    "parallel": ("vector", "thread"),
    "block": ("parallel", "vector", "thread"),
    "thread": ("parallel", "vector"),
}


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "unroll" else f"a {kind}"
