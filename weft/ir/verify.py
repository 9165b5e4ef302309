"""The rules of the loop program, checked: `verify` finds every violation and reports them together.

Constructors already keep expressions well typed; what is checked here needs the surroundings:
names, declarations, who may write what, and which statement may stand in which loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir import stmt as st
from weft.ir.ahead import why_not_ahead
from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import AddressOf, Call, Const, Expr, Reduce, Var
from weft.ir.hardware import ACROSS_THREADS, BULK_COPY, HARDWARE
from weft.ir.intrinsics import HINTS
from weft.ir.printer import print_kernel, print_stmt
from weft.ir.span import Span
from weft.ir.verify_block import check_block
from weft.ir.verify_expr import Problem, Report, check_assert, check_atomic, check_expr, check_lanes
from weft.ir.verify_place import REFUSED_INSIDE, is_in_place
from weft.ir.verify_scope import CONCURRENT, Role, Scope, found_in_order, outermost_scope
from weft.ir.visit import children, walk


def verify(kernel: st.Kernel) -> None:
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


def find_problems(kernel: st.Kernel) -> list[Problem]:
    """Everything wrong with ``kernel``, in program order."""
    quick = Verifier(kernel, places=False, anew=False)
    if quick.problems_of_kernel() or find_misplaced(kernel):
        return Verifier(kernel).problems_of_kernel()
    return []


def find_misplaced(kernel: st.Kernel) -> list[Problem]:
    """What is wrong with ``kernel`` where that can only be the loops that statements stand in: only kinds changed."""
    return [] if is_in_place(kernel.body) else Verifier(kernel, names=False).problems_of_kernel()


class Verifier:
    """One pass over a kernel with the names in scope and the enclosing loops.

    Of the rules, those about ``names`` depend on what is declared around a statement, those about ``places`` on
    the loops around it. Unless it looks ``anew``, it passes by statements found in order in the same scope before:
    quick, but not all problems are told then.
    """

    def __init__(self, kernel: st.Kernel, *, names: bool = True, places: bool = True, anew: bool = True) -> None:
        self.kernel = kernel
        self.names = names
        self.places = places
        self.anew = anew
        self.problems: list[Problem] = []
        self.scope = Scope({}, {}, frozenset())
        #: Variables of enclosing statements that a block body must not use.
        self.hidden: frozenset[str] = frozenset()
        #: The loops around, outermost first, and for let variables how many concurrent ones there are.
        self.loops: tuple[str, ...] = ()
        self.lets: dict[str, int] = {}
        self.where: st.Stmt | st.Kernel = kernel

    def problems_of_kernel(self) -> list[Problem]:
        self.check_signature()
        self.check(self.kernel.body)
        return self.problems

    # Reporting and scopes

    def problem(self, text: str, span: Span | None = None) -> None:
        here = self.where
        lines = (print_kernel(here) if isinstance(here, st.Kernel) else print_stmt(here)).splitlines()
        line = lines[0].strip().removesuffix("{").strip() if lines else "{ }"
        self.problems.append(Problem(text, line, span or here.span))

    def inside(self, scope: Scope, body: st.Stmt, loop: str | None = None) -> None:
        """Checks ``body`` in ``scope`` and, where it is given, one more loop."""
        outer, loops = self.scope, self.loops
        self.scope = scope
        if loop is not None:
            self.loops = (*loops, loop)
        self.check(body)
        self.scope, self.loops = outer, loops

    def bind(self, variables: Sequence[Var], role: Role) -> Scope:
        """The scope inside, in which ``variables`` are new."""
        if not self.names:
            return self.scope
        self.check_new_names([v.name for v in variables], role)
        return self.scope.bind(variables, role)

    def check_new_names(self, names: Sequence[str], role: str) -> None:
        if not self.names:
            return
        for place, name in enumerate(names):
            if not name:
                self.problem(f"a {role} has an empty name")
            elif name in names[:place] or self.scope.binds(name) or name in self.hidden:
                self.problem(f"`{name}` is bound again although an enclosing statement already binds it")

    def is_inside(self, *kinds: str) -> bool:
        return any(kind in kinds for kind in self.loops)

    @property
    def fences(self) -> int:
        """How many concurrent loops are around."""
        return sum(kind in CONCURRENT for kind in self.loops)

    # The signature

    def check_signature(self) -> None:
        kernel = self.kernel
        if not self.names:
            return
        if not kernel.name:
            self.problem("the kernel has an empty name")
        self.check_new_names([p.name for p in kernel.params], "parameter")
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
            if not isinstance(e, (Const, Var)) and any(isinstance(n, Reduce) for n in walk(e)):
                self.problem(f"buffer `{b.name}` has a reduction in its size; a let variable can hold that first")
        for size in b.shape:
            if isinstance(size, Const) and size.value < 0:
                self.problem(f"buffer `{b.name}` has the negative size {size.value}")
        if b.scope == "register" and not all(isinstance(size, Const) for size in b.shape):
            self.problem(f"register buffer `{b.name}` has a size that is not a constant")

    # Statements

    def check(self, s: st.Stmt) -> None:
        known = None if self.anew else found_in_order(s)
        if known is not None and known.scope is not None and self.scope.agrees(known.scope, s):
            known.scope = self.scope
            return
        saved, self.where, before = self.where, s, len(self.problems)
        self.check_stmt(s)
        self.where = saved
        if known is not None and len(self.problems) == before:
            known.scope = self.scope

    def check_stmt(self, s: st.Stmt) -> None:
        match s:
            case st.Seq():
                for stmt in s.body:
                    self.check(stmt)
            case st.For():
                self.check_loop(s)
            case st.While():
                self.check_exprs(s.condition)
                self.inside(self.scope, s.body, "while")
            case st.If():
                self.check_exprs(s.condition)
                self.check(s.then)
                if s.otherwise is not None:
                    self.check(s.otherwise)
            case st.Let():
                self.check_let(s)
            case st.Alloc():
                self.check_alloc(s)
            case st.Tensorized():
                self.check_hardware(s.intrinsic)
                self.check(s.body)
            case st.Block():
                check_block(self, s)
            case _:
                self.check_simple(s)

    def check_simple(self, s: st.Stmt) -> None:
        match s:
            case st.Assign():
                self.check_exprs(s.value)
                self.check_assignable(s.var)
            case st.Store() | st.Atomic():
                self.check_write(s)
            case st.Break() | st.Continue() | st.Return() | st.Barrier():
                self.check_leaving(s)
            case st.Evaluate(call=Call(name=name)) if name in HARDWARE:
                self.check_hardware_call(s)
            case st.Evaluate(call=Call(name=name, args=args)) if name in HINTS:
                self.check_exprs(*args)
                wanted = _HINT_TYPES[HINTS[name]]
                given = tuple(map(type, args))
                if given != wanted if wanted is not None else len(args) != 2 or given[1] is not Const:
                    self.problem(f"`{name}` takes {HINTS[name]}")
            case _:
                if self.names:
                    check_assert(self.report, s)
                self.check_exprs(*(n for n in children(s) if isinstance(n, Expr)))

    def check_leaving(self, s: st.Stmt) -> None:
        if not self.places:
            return
        match s:
            case st.Return() if self.is_inside("parallel", "vector"):
                self.problem("return inside a parallel or vector loop, whose iterations are not threads")
            case st.Barrier():
                self.check_barrier(s)
            case st.Break() | st.Continue():
                self.check_exit("break" if isinstance(s, st.Break) else "continue")

    def check_loop(self, s: st.For) -> None:
        self.check_exprs(s.lo, s.hi, *(() if s.backward is None else (s.backward,)))
        if s.backward is not None and s.kind not in ("serial", "unroll"):
            self.problem(f"the iterations of {_article(s.kind)} loop have no order that could be turned around")
        refused = REFUSED_INSIDE.get(s.kind, ())
        if self.places and refused:
            kind = next((kind for kind in self.loops if kind in refused), None)
            if kind is not None:
                self.problem(f"{_article(s.kind)} loop inside {_article(kind)} loop")
        why = why_not_ahead(s) if self.names and s.ahead is not None else None
        if why is not None:
            self.problem(f"part of the body cannot run ahead: {why}")
        self.inside(self.bind((s.var,), "loop"), s.body, s.kind)

    def check_let(self, s: st.Let) -> None:
        self.check_exprs(s.value)
        outer = self.lets
        self.lets = {**outer, s.var.name: self.fences}
        self.inside(self.bind((s.var,), "let"), s.body)
        self.lets = outer

    def check_alloc(self, s: st.Alloc) -> None:
        b = s.buffer
        if not self.names:
            self.check(s.body)
            return
        self.check_new_names((b.name,), "buffer")
        self.check_buffer(b)
        self.inside(self.scope.allocate(b), s.body)

    def check_assignable(self, var: Var) -> None:
        declared = self.scope.vars.get(var.name)
        if not self.names:
            if self.lets.get(var.name, self.fences) != self.fences:
                self.problem(f"`{var.name}` is assigned across a concurrent loop: its let is outside", var.span)
        elif declared is None:
            self.problem(f"`{var.name}` is assigned but no enclosing let makes it", var.span)
        elif declared.role != "let":
            self.problem(f"`{var.name}` is assigned but it is a {declared.role} variable, not a let", var.span)
        elif declared.var != var:
            self.problem(f"`{var.name}` is a {declared.var.type}, used as {var.type}", var.span)
        elif self.places and self.lets[var.name] != self.fences:
            self.problem(f"`{var.name}` is assigned across a concurrent loop: its let is outside", var.span)

    def check_write(self, s: st.Store | st.Atomic) -> None:
        if self.names:
            self.check_written(s)
        if isinstance(s, st.Atomic):
            if s.expected is not None:
                self.check_exprs(s.expected)
            if s.result is not None:
                self.check_assignable(s.result)

    def check_written(self, s: st.Store | st.Atomic) -> None:
        name = s.buffer.name
        self.check_exprs(*s.indices, s.value)
        self.check_declared(s.buffer, s.span)
        check_lanes(self.report, s)
        if name in self.scope.buffers and name not in self.scope.writable:
            self.problem(f"`{name}` is written but it is not an output")
        elif s.buffer.scope == "constant":
            self.problem(f"`{name}` is written but it is in constant scope")
        if isinstance(s, st.Atomic):
            check_atomic(self.report, s)

    def check_hardware(self, name: str) -> None:
        if name not in HARDWARE and name not in (*ACROSS_THREADS, BULK_COPY):
            self.problem(f"`{name}` is not a declared hardware intrinsic")
        elif self.places and self.is_inside("vector"):
            self.problem(f"the hardware intrinsic `{name}` inside a vector loop")

    def check_hardware_call(self, s: st.Evaluate) -> None:
        self.check_hardware(s.call.name)
        if not self.names:
            return
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
        loops = self.loops
        if not loops:
            self.problem(f"{word} outside a loop")
        elif loops[-1] in CONCURRENT:
            self.problem(f"{word} would leave {_article(loops[-1])} loop, whose iterations are concurrent")

    def check_barrier(self, s: st.Barrier) -> None:
        if self.is_inside("vector"):
            self.problem("a barrier inside a vector loop")
        elif s.scope == "grid" and not self.is_inside("thread", "block"):
            self.problem("a grid barrier outside block and thread loops")
        elif s.scope != "grid" and not self.is_inside("thread"):
            self.problem(f"a {s.scope} barrier outside thread loops")

    # Expressions and names

    @property
    def report(self) -> Report:
        return self.problem

    def check_exprs(self, *parts: Expr) -> None:
        if not self.names:
            return
        for e in parts:
            if type(e) is not Const:
                check_expr(self, e)

    def check_var(self, v: Var) -> None:
        declared = self.scope.vars.get(v.name)
        if declared is None and v.name in self.hidden:
            self.problem(f"`{v.name}` is a variable outside the block; a block uses its iterators and scalars", v.span)
        elif declared is None:
            self.problem(f"`{v.name}` is not in scope", v.span)
        elif declared.var is not v and declared.var != v:
            self.problem(f"`{v.name}` is a {declared.var.type}, used as {v.type}", v.span)

    def check_declared(self, b: Buffer, span: Span | None) -> None:
        declared = self.scope.buffers.get(b.name)
        if declared is None:
            self.problem(f"buffer `{b.name}` is not in scope", span)
        elif declared is not b and declared != b:
            self.problem(f"buffer `{b.name}` is used with another type, shape, layout or scope than declared", span)


_HINT_TYPES: dict[str, tuple[type, ...] | None] = {
    "one address": (AddressOf,),
    "one number": (Const,),
    "a count and a number": None,
    "nothing": (),
}


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "unroll" else f"a {kind}"
