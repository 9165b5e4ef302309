"""The rules of the loop program, checked: `verify` finds every violation and reports them together.

Constructors already keep expressions well typed; what is checked here needs the surroundings:
names, declarations, who may write what, and which statement may stand in which loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import AddressOf, Call, Const, Expr, Load, Var
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
    Problem,
    Report,
    check_assert,
    check_atomic,
    check_expr,
    check_lanes,
)
from weft.ir.verify_scope import CONCURRENT, Scope, found_in_order, outermost_scope
from weft.ir.visit import children, fact, walk


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


class Verifier:
    """One pass over a kernel with the names in scope and the enclosing loops."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.problems: list[Problem] = []
        self.scope = Scope({}, {}, frozenset(kernel.outputs))
        self.where: Stmt | Kernel = kernel

    # Reporting and scopes

    def problem(self, text: str, span: Span | None = None) -> None:
        here = self.where
        lines = (print_kernel(here) if isinstance(here, Kernel) else print_stmt(here)).splitlines()
        line = lines[0].strip().removesuffix("{").strip() if lines else "{ }"
        self.problems.append(Problem(text, line, span or here.span))

    def inside(self, scope: Scope, *parts: Stmt) -> None:
        """Checks ``parts`` in ``scope``."""
        outer, self.scope = self.scope, scope
        for s in parts:
            self.check(s)
        self.scope = outer

    def check_new_names(self, names: Iterable[str], role: str) -> None:
        seen: set[str] = set()
        for name in names:
            if not name:
                self.problem(f"a {role} has an empty name")
            elif name in seen or self.scope.binds(name):
                self.problem(f"`{name}` is bound again although an enclosing statement already binds it")
            seen.add(name)

    # The signature

    def check_signature(self) -> None:
        kernel = self.kernel
        if not kernel.name:
            self.problem("the kernel has an empty name")
        self.check_new_names((p.name for p in kernel.params), "parameter")
        for p in kernel.scalars:
            if p.type.lanes > 1:
                self.problem(f"parameter `{p.name}` is a vector; scalars and buffers can be passed")
        self.scope = outermost_scope(kernel.params, kernel.outputs, tuple((h.name, h.text) for h in HARDWARE.values()))
        for b in kernel.buffers:
            self.check_buffer(b)
            if b.scope not in ("global", "constant"):
                self.problem(f"parameter `{b.name}` is in {b.scope} scope; parameters are global or constant")
        self.check_outputs()

    def check_outputs(self) -> None:
        kernel = self.kernel
        for name in kernel.outputs:
            if name not in self.scope.buffers:
                self.problem(f"output `{name}` is not a buffer parameter")
            elif self.scope.buffers[name].scope == "constant":
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
        if found_in_order(s).scope is self.scope:
            return
        saved, self.where, before = self.where, s, len(self.problems)
        self.check_stmt(s)
        self.where = saved
        if len(self.problems) == before:
            found_in_order(s).scope = self.scope

    def check_stmt(self, s: Stmt) -> None:
        match s:
            case Seq():
                for part in s.body:
                    self.check(part)
            case For():
                self.check_loop(s)
            case While():
                self.check_exprs(s.condition)
                self.inside(self.scope.bind((), "loop", "while"), s.body)
            case If():
                self.check_exprs(s.condition)
                self.check(s.then)
                if s.otherwise is not None:
                    self.check(s.otherwise)
            case Let():
                self.check_exprs(s.value)
                self.check_new_names((s.var.name,), "let")
                self.inside(self.scope.bind((s.var,), "let"), s.body)
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
                if self.scope.has("parallel", "vector"):
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
        for kind in self.scope.loops:
            if kind in refused:
                self.problem(f"{_article(s.kind)} loop inside {_article(kind)} loop")
                break
        self.check_new_names((s.var.name,), "loop")
        self.inside(self.scope.bind((s.var,), "loop", s.kind), s.body)

    def check_alloc(self, s: Alloc) -> None:
        b = s.buffer
        self.check_new_names((b.name,), "buffer")
        self.check_buffer(b)
        self.inside(self.scope.allocate(b), s.body)

    def check_assignable(self, var: Var) -> None:
        known = self.scope.vars.get(var.name)
        if known is None:
            self.problem(f"`{var.name}` is assigned but no enclosing let makes it", var.span)
        elif known.role != "let":
            self.problem(f"`{var.name}` is assigned but it is a {known.role} variable, not a let", var.span)
        elif known.var != var:
            self.problem(f"`{var.name}` is a {known.var.type}, used as {var.type}", var.span)
        elif known.fences != self.scope.fences:
            self.problem(f"`{var.name}` is assigned across a concurrent loop: its let is outside", var.span)

    def check_write(self, s: Store | Atomic) -> None:
        name = s.buffer.name
        self.check_exprs(*s.indices, s.value)
        self.check_declared(s.buffer, s.span)
        check_lanes(self.report, s)
        if name in self.scope.buffers and name not in self.scope.writable:
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
        elif self.scope.has("vector"):
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
            if isinstance(arg, AddressOf) and written and arg.buffer.name not in self.scope.writable:
                self.problem(f"`{arg.buffer.name}` is written but it is not an output")

    def check_exit(self, word: str) -> None:
        loops = self.scope.loops
        if not loops:
            self.problem(f"{word} outside a loop")
        elif loops[-1] in CONCURRENT:
            self.problem(f"{word} would leave {_article(loops[-1])} loop, whose iterations are concurrent")

    def check_barrier(self, s: Barrier) -> None:
        if self.scope.has("vector"):
            self.problem("a barrier inside a vector loop")
        elif s.scope == "grid" and not self.scope.has("thread", "block"):
            self.problem("a grid barrier outside block and thread loops")
        elif s.scope != "grid" and not self.scope.has("thread"):
            self.problem(f"a {s.scope} barrier outside thread loops")

    def check_block(self, s: Block) -> None:
        for i in s.iters:
            self.check_exprs(i.lo, i.hi, i.binding)
            for what, e in (("variable", i.var), ("range", i.lo), ("range", i.hi), ("binding", i.binding)):
                if e.dtype != dt.index:
                    self.problem(f"the {what} of iterator `{i.var.name}` is {e.dtype}; iterators are int64")
        outer = self.scope
        self.scope = outer.block()
        self.check_new_names((i.var.name for i in s.iters), "iterator")
        self.scope = self.scope.bind([i.var for i in s.iters], "iterator")
        self.check_regions(s)
        for part in (s.init, s.body):
            if part is not None:
                self.check(part)
        self.scope = outer

    def check_regions(self, s: Block) -> None:
        for r in (*s.reads, *s.writes):
            self.check_region(r)
        own, read, written = _touched(s)
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
        known = self.scope.vars.get(v.name)
        if known is None and v.name in self.scope.hidden:
            self.problem(f"`{v.name}` is a variable outside the block; a block uses its iterators and scalars", v.span)
        elif known is None:
            self.problem(f"`{v.name}` is not in scope", v.span)
        elif known.var is not v and known.var != v:
            self.problem(f"`{v.name}` is a {known.var.type}, used as {v.type}", v.span)

    def check_declared(self, b: Buffer, span: Span | None) -> None:
        known = self.scope.buffers.get(b.name)
        if known is None:
            self.problem(f"buffer `{b.name}` is not in scope", span)
        elif known is not b and known != b:
            self.problem(f"buffer `{b.name}` is used with another type, shape, layout or scope than declared", span)


@fact
def _touched(s: Block) -> tuple[set[str], set[str], set[str]]:
    """The names of the buffers that ``s`` makes, reads and writes."""
    own, read, written = set(), set(), set()
    for part in (s.body,) if s.init is None else (s.init, s.body):
        for n in walk(part):
            if isinstance(n, Load):
                read.add(n.buffer.name)
            elif isinstance(n, Alloc):
                own.add(n.buffer.name)
            elif isinstance(n, (Store, Atomic)):
                written.add(n.buffer.name)
                if isinstance(n, Atomic):
                    read.add(n.buffer.name)
    return own, read, written


#: Loops that must not enclose a loop of this kind.
_REFUSED_INSIDE: dict[str, tuple[str, ...]] = {
    "parallel": ("vector", "thread"),
    "block": ("parallel", "vector", "thread"),
    "thread": ("parallel", "vector"),
}


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "unroll" else f"a {kind}"
