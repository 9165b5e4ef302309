"""The language that the runtime's own machine code is written in: a little of Python's syntax, made into LLVM text.

Every value is a word of 64 bits, an address or a number::

    def find(items: List, wanted):
        for i in range(items.count):
            if items.first[i] == wanted:
                return i
        return -1

Annotations name a structure, whose fields are read and written by name; ``a[i]`` is word number ``i`` from the address
``a`` on. Names are variables, constants, or stand for the address of a function or of memory that the module has or is
given. A variable that is called is the address of a C function that returns an int. Comparisons are signed, ``>>`` is
not; ``and`` and ``or`` look at their right side only where it matters. Functions called ``weft_…`` are seen outside.

Built in are ``room(n)``, an array of ``n`` words while the function runs; ``below(a, b)``, which compares without
signs; ``single(x)``, the bits of a double as those of a float; and what several threads may do to a word at once:
``atomic_load(at)``, ``atomic_store(at, x)``, ``atomic_add(at, x)``, ``atomic_or``, ``atomic_and`` and ``atomic_swap``,
which give the value before, and ``atomic_replace(at, old, new)``, which says whether it did.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from weft.ir.errors import InternalError
from weft.runtime.native_module import NativeModule

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem", ast.LShift: "shl",
    ast.RShift: "lshr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}
_UPDATES = {"atomic_add": "add", "atomic_or": "or", "atomic_and": "and", "atomic_swap": "xchg"}
#: How a value of a narrow type becomes a word.
_WIDEN = {"i1": "zext", "i8": "zext", "i32": "sext", "ptr": "ptrtoint", "double": "bitcast"}


def translate(module: NativeModule) -> str:
    """The whole module as LLVM text."""
    lines = [f"declare {types.replace('(', f'@{name}(')}" for name, types in module.functions.items()]
    lines += [f"@{name} = external global i8" for name in module.objects]
    lines += [f"@{name} = global [{n} x i64] zeroinitializer, align 64" for name, n in module.memory.items()]
    defined = [f for f in ast.parse(module.source).body if isinstance(f, ast.FunctionDef)]
    own = frozenset(f.name for f in defined)
    return "\n".join([*lines, *(_Function(module, own, f).text() for f in defined)])


class _Function:
    """Writes one function; variables are memory, which LLVM turns into registers."""

    def __init__(self, module: NativeModule, own: frozenset[str], node: ast.FunctionDef) -> None:
        self.module, self.own, self.node = module, own, node
        self.params = [a.arg for a in node.args.args]
        notes = [(a.arg, a.annotation) for a in node.args.args]
        assigned = [n.target for n in ast.walk(node) if isinstance(n, (ast.AnnAssign, ast.For))]
        assigned += [t for n in ast.walk(node) if isinstance(n, ast.Assign) for t in n.targets]
        notes += [(n.target.id, n.annotation) for n in ast.walk(node) if isinstance(n, ast.AnnAssign)]  # type: ignore[union-attr]
        self.kinds = {name: note.id for name, note in notes if isinstance(note, ast.Name)}
        self.variables = dict.fromkeys([*self.params, *(t.id for t in assigned if isinstance(t, ast.Name))])
        self.rooms: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.ended = False
        #: Where `continue` and `break` go.
        self.loops: list[tuple[str, str]] = []

    def text(self) -> str:
        self._statements(self.node.body)
        self._end("ret i64 0")
        head = [f"  %{name}.at = alloca i64" for name in self.variables]
        head += [f"  store i64 %{name}, ptr %{name}.at" for name in self.params]
        linkage = "" if self.node.name.startswith("weft_") else "internal "
        params = ", ".join(f"i64 %{name}" for name in self.params)
        opening = f"define {linkage}i64 @{self.node.name}({params}) {{"
        return "\n".join([opening, *head, *self.rooms, *self.lines, "}"])

    # -- lines and labels

    def _new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}.{self.count}"

    def _value(self, text: str) -> str:
        name = f"%{self._new('t')}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _end(self, text: str) -> None:
        """The last instruction of a block, unless it has one."""
        if not self.ended:
            self.lines.append(f"  {text}")
        self.ended = True

    def _begin(self, label: str) -> None:
        self._end(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.ended = False

    # -- statements

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                self._assign(target, self.value(ast.BinOp(ast.Name(target.id), op, value)))
            case ast.Return(value=value):
                self._end(f"ret i64 {0 if value is None else self.value(value)}")
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(test, body, orelse)
            case ast.While(test=test, body=body):
                self._loop(test, body, [])
            case ast.For(target=ast.Name() as target, iter=ast.Call(args=[count]), body=body):
                self._assign(target, "0")
                step = ast.AugAssign(ast.Name(target.id), ast.Add(), ast.Constant(1))
                self._loop(ast.Compare(ast.Name(target.id), [ast.Lt()], [count]), body, [step])
            case ast.Continue() | ast.Break():
                self._end(f"br label %{self.loops[-1][isinstance(node, ast.Break)]}")
            case _:
                raise self._unknown(node)

    def _assign(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            self.lines.append(f"  store i64 {value}, ptr %{target.id}.at")
            return
        at, kind = self._place(target)
        if kind != "i64":
            value = self._value(f"trunc i64 {value} to {kind}")
        self.lines.append(f"  store {kind} {value}, ptr {at}")

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        yes, no, after = self._new("yes"), self._new("no"), self._new("after")
        self._branch(test, yes, no)
        for label, inner in ((yes, body), (no, orelse)):
            self._begin(label)
            self._statements(inner)
            self._end(f"br label %{after}")
        self._begin(after)

    def _loop(self, test: ast.expr, body: Sequence[ast.stmt], step: Sequence[ast.stmt]) -> None:
        again, inside, following, after = (self._new(k) for k in ("again", "inside", "following", "after"))
        self._begin(again)
        self._branch(test, inside, after)
        self._begin(inside)
        self.loops.append((following, after))
        self._statements(body)
        self.loops.pop()
        self._begin(following)
        self._statements(step)
        self._end(f"br label %{again}")
        self._begin(after)

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """On to ``yes`` where ``test`` is not 0, else to ``no``."""
        match test:
            case ast.BoolOp(op=op, values=[*first, last]):
                for part in first:
                    more = self._new("more")
                    self._branch(part, *((more, no) if isinstance(op, ast.And) else (yes, more)))
                    self._begin(more)
                self._branch(last, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._branch(operand, no, yes)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = self.value(left), self.value(right)
                self._end(
                    f"br i1 {self._value(f'icmp {_COMPARISONS[type(op)]} i64 {a}, {b}')}, label %{yes}, label %{no}"
                )
            case ast.Compare(left=left, ops=[op, *ops], comparators=[right, *rest]):
                pair = ast.Compare(left, [op], [right])
                self._branch(ast.BoolOp(ast.And(), [pair, ast.Compare(right, ops, rest)]), yes, no)
            case _:
                self._end(f"br i1 {self._value(f'icmp ne i64 {self.value(test)}, 0')}, label %{yes}, label %{no}")

    # -- values

    def value(self, node: ast.expr) -> str:
        """The operand that ``node`` is."""
        match node:
            case ast.Constant(value=int() as number):
                return str(int(number))
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._value(f"sub i64 0, {self.value(operand)}")
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._value(f"xor i64 -1, {self.value(operand)}")
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.value(left), self.value(right)
                return self._value(f"{_OPERATORS[type(op)]} i64 {a}, {b}")
            case ast.Attribute() | ast.Subscript():
                at, kind = self._place(node)
                return self._widened(self._value(f"load {kind}, ptr {at}"), kind)
            case ast.Call(func=function, args=args):
                return self._call(ast.unparse(function), args)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                return self._chosen(node, ast.Constant(1), ast.Constant(0))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(test, body, orelse)
        raise self._unknown(node)

    def _chosen(self, test: ast.expr, one: ast.expr, other: ast.expr) -> str:
        target = ast.Name(self._new("chosen"))
        self.variables[target.id] = None
        self._if(test, [ast.Assign([target], one)], [ast.Assign([target], other)])
        return self.value(target)

    def _name(self, node: ast.expr, name: str) -> str:
        module = self.module
        if name in self.variables:
            return self._value(f"load i64, ptr %{name}.at")
        if name in module.constants:
            return str(module.constants[name])
        if name in self.own or name in module.objects or name in module.memory:
            return f"ptrtoint (ptr @{name} to i64)"
        raise self._unknown(node)

    def _place(self, node: ast.expr) -> tuple[str, str]:
        """The pointer to what ``node`` says, and its type."""
        match node:
            case ast.Subscript(value=base, slice=index):
                offset, kind = self.value(ast.BinOp(index, ast.Mult(), ast.Constant(8))), "i64"
            case ast.Attribute(value=ast.Name(id=name) as base, attr=attr) if name in self.kinds:
                place, kind = self.module.structures[self.kinds[name]][attr]
                offset = str(place)
            case _:
                raise self._unknown(node)
        return self._pointer(self._value(f"add i64 {self.value(base)}, {offset}")), kind

    def _pointer(self, word: str) -> str:
        return self._value(f"inttoptr i64 {word} to ptr")

    def _widened(self, value: str, kind: str) -> str:
        return value if kind == "i64" else self._value(f"{_WIDEN[kind]} {kind} {value} to i64")

    # -- calls

    def _call(self, name: str, args: Sequence[ast.expr]) -> str:
        if name == "room":
            size = ast.literal_eval(self.value(args[0]))
            self.rooms.append(f"  %{self._new('room')} = alloca [{size} x i64], align 64")
            return self._value(f"ptrtoint ptr %room.{self.count} to i64")
        given = [self.value(a) for a in args]
        if name == "below":
            return self._widened(self._value(f"icmp ult i64 {given[0]}, {given[1]}"), "i1")
        if name == "single":
            narrow = self._value(f"fptrunc double {self._value(f'bitcast i64 {given[0]} to double')} to float")
            return self._value(f"zext i32 {self._value(f'bitcast float {narrow} to i32')} to i64")
        if name.startswith("atomic_"):
            return self._atomic(name, self._pointer(given[0]), given[1:])
        if name in self.module.functions:
            return self._foreign(name, given)
        called = ", ".join(f"i64 {v}" for v in given)
        if name in self.variables:
            function = self._pointer(self.value(ast.Name(name)))
            return self._widened(self._value(f"call i32 {function}({called})"), "i32")
        if name not in self.own:
            raise self._unknown(ast.Name(name))
        return self._value(f"call i64 @{name}({called})")

    def _atomic(self, name: str, at: str, given: Sequence[str]) -> str:
        if name == "atomic_load":
            return self._value(f"load atomic i64, ptr {at} seq_cst, align 8")
        if name == "atomic_store":
            self.lines.append(f"  store atomic i64 {given[0]}, ptr {at} seq_cst, align 8")
            return "0"
        if name == "atomic_replace":
            pair = self._value(f"cmpxchg ptr {at}, i64 {given[0]}, i64 {given[1]} seq_cst seq_cst")
            return self._widened(self._value(f"extractvalue {{ i64, i1 }} {pair}, 1"), "i1")
        return self._value(f"atomicrmw {_UPDATES[name]} ptr {at}, i64 {given[0]} seq_cst")

    def _foreign(self, name: str, given: Sequence[str]) -> str:
        """A call of a function with types of its own."""
        result, _, params = self.module.functions[name].rstrip(")").partition(" (")
        types = [t for t in params.split(", ") if t not in ("", "...")]
        types += ["ptr"] * (len(given) - len(types))
        passed = ", ".join(f"{kind} {self._narrowed(v, kind)}" for v, kind in zip(given, types))
        variadic = f"({params}) " if "..." in params else ""
        call = f"call {result} {variadic}@{name}({passed})"
        if result == "void":
            self.lines.append(f"  {call}")
            return "0"
        return self._widened(self._value(call), result)

    def _narrowed(self, word: str, kind: str) -> str:
        if kind == "i64":
            return word
        return self._pointer(word) if kind == "ptr" else self._value(f"trunc i64 {word} to {kind}")

    def _unknown(self, node: ast.AST) -> InternalError:
        return InternalError(f"`{ast.unparse(node)}` in `{self.node.name}` is not in the language of native code")
