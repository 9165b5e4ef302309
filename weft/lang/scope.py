"""What the names of a definition stand for while its statements are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import SCALAR_TYPES, DType
from weft.ir.errors import LanguageError, did_you_mean
from weft.ir.expr import Expr, Var
from weft.lang import ast
from weft.tensor.build import ProgramBuilder

_ALIASES = {"int": dt.int32, "uint": dt.uint32, "half": dt.float16, "double": dt.float64}
#: Words other languages start a statement with; here they read as the type of a temporary.
_KEYWORDS = {
    "return": "outputs are assigned: `B(i) = ...`; nothing is returned",
    "let": "a temporary is just assigned: `T(i) = ...`",
    "var": "a temporary is just assigned: `T(i) = ...`",
}


@dataclass
class Scope:
    """The names of one definition; a definition that another calls has its own scope on the caller's builder.

    ``tensors`` gives the builder's name of a tensor, ``sizes`` what a size is, ``scalars`` the value of a
    scalar parameter, ``declared`` the stated types of outputs and temporaries. ``callers`` are the
    definitions being read, outermost first; ``float_type`` is what ``float`` means.
    """

    builder: ProgramBuilder
    definitions: Mapping[str, ast.Definition]
    callers: tuple[str, ...]
    float_type: DType = dt.float32
    #: every name that a called definition mentions
    own_names: frozenset[str] = frozenset()
    tensors: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, Expr] = field(default_factory=dict)
    scalars: dict[str, Expr] = field(default_factory=dict)
    declared: dict[str, DType] = field(default_factory=dict)
    #: the variables of the blocks that are open
    steps: dict[str, Var] = field(default_factory=dict)

    @property
    def is_called(self) -> bool:
        return len(self.callers) > 1

    def knows(self, name: str) -> bool:
        return name in self.tensors or name in self.sizes or name in self.scalars

    def tensor(self, name: ast.Name) -> Buffer:
        """The tensor called ``name`` as known so far."""
        known = self.tensors.get(name.text, name.text)
        buffer = self.builder.buffer(known)
        return buffer if buffer is not None else self.builder.access(known, (), name.span).buffer

    def target_type(self, name: str) -> DType | None:
        """The element type of a tensor that is stated or follows from what was written to it."""
        if name in self.declared:
            return self.declared[name]
        buffer = self.builder.buffer(self.tensors.get(name, name))
        return None if buffer is None else buffer.dtype

    def element_type(self, name: str) -> DType | None:
        """The type a name stands for."""
        if name == "float":
            return self.float_type
        return _ALIASES.get(name) or SCALAR_TYPES.get(name)

    def parse_type(self, name: ast.Name) -> DType:
        dtype = self.element_type(name.text)
        if dtype is None:
            raise LanguageError(
                f"unknown type `{name.text}`",
                span=name.span,
                why="the types are " + ", ".join(type_names()),
                help=_KEYWORDS.get(name.text) or did_you_mean(name.text, type_names()),
            )
        return dtype

    def index_variable(self, name: ast.Name) -> Var:
        """The index variable ``name``; in a called definition it steps aside for the caller's names."""
        text = name.text
        if text in self.steps:
            return self.steps[text]
        if self.is_called and self.builder.kind(text) is not None:
            while self.builder.kind(text) is not None or text in self.own_names:
                text += "_"
        return Var(text, span=name.span)

    def fresh_tensor(self, name: str) -> str:
        """The builder's name for a new temporary: its own, or in a called definition one the caller does not use."""
        if not self.is_called:
            return name
        base = candidate = f"{self.callers[-1]}_{name}"
        count = 1
        while self.builder.kind(candidate) is not None:
            count += 1
            candidate = f"{base}_{count}"
        return candidate


def type_names() -> list[str]:
    return ["float", "double", "half", "int", "uint", *SCALAR_TYPES]
