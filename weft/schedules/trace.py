"""A schedule as data: the steps taken, as text that reads back.

::

    numerics = "strict"
    m_o, m_i = split("m", 14, tail="guard")
    reorder("m_o", "n", "m_i")

Names on the left are what the step made. A trace replays on another program of the same form
(other sizes, say): where that program gets other names, later steps follow them. ``form = "normal"`` behind the
numerics says that the program was in its normal form when the steps began, not as it was written.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from weft.ir.errors import ScheduleError
from weft.ir.numerics import NUMERICS
from weft.ir.numerics import Numerics as Numerics
from weft.ir.quick_init import replace
from weft.ir.span import Source, Span

#: What a step's arguments are made of: names and texts, numbers, and lists and tables of them.
Plain: TypeAlias = Any
Form = Literal["written", "normal"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a primitive; ``made`` are the names it made."""

    name: str
    args: tuple[Plain, ...] = ()
    kwargs: tuple[tuple[str, Plain], ...] = ()
    made: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [print_plain(a) for a in self.args] + [f"{k}={print_plain(v)}" for k, v in self.kwargs]
        made = f"{', '.join(self.made)} = " if self.made else ""
        return f"{made}{self.name}({', '.join(parts)})"

    def renamed(self, names: Mapping[str, str]) -> Step:
        """The step with what earlier steps made called by other names."""
        args = tuple(_renamed(a, names) for a in self.args)
        return replace(self, args=args, kwargs=tuple((k, _renamed(v, names)) for k, v in self.kwargs))


def _renamed(value: Plain, names: Mapping[str, str]) -> Plain:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return tuple(_renamed(v, names) for v in value)
    return {k: _renamed(v, names) for k, v in value.items()} if isinstance(value, dict) else value


def print_plain(value: Plain) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(print_plain, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{print_plain(k)}: {print_plain(v)}" for k, v in value.items()) + "}"
    return repr(value)


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of a schedule, the numerics they were allowed under and the form of the program they begin with."""

    steps: tuple[Step, ...] = ()
    numerics: Numerics = "strict"
    form: Form = "written"

    def __str__(self) -> str:
        return "\n".join([*self._heading(), *map(str, self.steps)]) + "\n"

    def _heading(self) -> list[str]:
        form = [f'form = "{self.form}"'] if self.form != "written" else []
        return [f'numerics = "{self.numerics}"', *form]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __add__(self, other: Trace) -> Trace:
        """The steps of both, under the freer numerics of the two."""
        return Trace(self.steps + other.steps, max(self.numerics, other.numerics, key=NUMERICS.index), self.form)

    def then(self, step: Step) -> Trace:
        return replace(self, steps=(*self.steps, step))

    def span(self, position: int) -> Span:
        """Where step ``position`` (from 0) stands in the printed trace."""
        text = str(self.steps[position])
        return Span(Source("trace", str(self)), position + len(self._heading()) + 1, 1, len(text) + 1)


def parse_trace(text: str, name: str = "trace") -> Trace:
    """The trace that ``text`` is the printed form of; names made earlier may stand without quotes."""
    text = textwrap.dedent(text)
    source = Source(name, text)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        column = error.offset or 1
        span = Span(source, error.lineno or 1, column, max(column + 1, error.end_offset or 0))
        raise ScheduleError("this is not a trace", span=span, why=error.msg) from None
    heading: dict[str, Any] = {}
    steps: list[Step] = []
    for node in tree.body:
        found = _parse_heading(node, source)
        if found is not None:
            heading.update(found)
        else:
            steps.append(_parse_step(node, source))
    return Trace(tuple(steps), **heading)


#: What may stand before the steps, and what it can be.
_HEADING: Mapping[str, tuple[str, ...]] = {"numerics": NUMERICS, "form": get_args(Form)}


def _parse_heading(node: ast.stmt, source: Source) -> dict[str, str] | None:
    match node:
        case ast.Assign(targets=[ast.Name(id="numerics" | "form" as name)], value=ast.Constant(value=value)):
            if value in _HEADING[name]:
                return {name: value}
            raise _not_a_step(node, source, f"{_PLURAL[name]} are {' or '.join(_HEADING[name])}")
    return None


_PLURAL = {"numerics": "numerics", "form": "forms"}


def _parse_step(node: ast.stmt, source: Source) -> Step:
    made: tuple[str, ...] = ()
    match node:
        case ast.Assign(targets=[ast.Name(id=single)], value=ast.Call() as call):
            made = (single,)
        case ast.Assign(targets=[ast.Tuple(elts=several)], value=ast.Call() as call):
            made = tuple(n.id for n in several if isinstance(n, ast.Name))
        case ast.Expr(value=ast.Call() as call):
            pass
        case _:
            raise _not_a_step(node, source, 'a step is a call, as in `m_o, m_i = split("m", 4)`')
    if not isinstance(call.func, ast.Name) or any(k.arg is None for k in call.keywords):
        raise _not_a_step(node, source, 'a step is a call, as in `m_o, m_i = split("m", 4)`')
    args = tuple(_parse_plain(a, source) for a in call.args)
    kwargs = tuple((str(k.arg), _parse_plain(k.value, source)) for k in call.keywords)
    return Step(call.func.id, args, kwargs, made)


def _parse_plain(node: ast.expr, source: Source) -> Plain:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_parse_plain(e, source) for e in node.elts)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _not_a_step(node, source, "arguments are names, numbers, texts, and lists of them") from None


def _not_a_step(node: ast.stmt | ast.expr, source: Source, why: str) -> ScheduleError:
    same_line = node.end_lineno == node.lineno and node.end_col_offset is not None
    end = (node.end_col_offset or 0) + 1 if same_line else len(source.line(node.lineno)) + 1
    return ScheduleError(
        "this is not a step of a trace", span=Span(source, node.lineno, node.col_offset + 1, end), why=why
    )
