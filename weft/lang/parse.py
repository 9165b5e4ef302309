"""Texts to tensor programs."""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import LanguageError
from weft.ir.span import Source
from weft.lang import ast
from weft.lang.elaborate import Elaborator
from weft.lang.syntax import parse_text
from weft.tensor.program import TensorProgram


def parse_programs(text: str, name: str = "<define>", float_type: DType = dt.float32) -> dict[str, TensorProgram]:
    """The programs of a text by name, in order; ``float_type`` is what ``float`` stands for."""
    source = Source(name, text)
    definitions = name_definitions(parse_text(source))
    return {d.name.text: Elaborator(definitions, source, float_type).program(d) for d in definitions.values()}


def name_definitions(parsed: list[ast.Definition]) -> dict[str, ast.Definition]:
    definitions: dict[str, ast.Definition] = {}
    for d in parsed:
        if d.name.text in definitions:
            first = definitions[d.name.text].name.span
            raise LanguageError(
                f"`{d.name.text}` is defined twice", span=d.name.span, why=f"it was first defined on line {first.line}"
            )
        definitions[d.name.text] = d
    return definitions
