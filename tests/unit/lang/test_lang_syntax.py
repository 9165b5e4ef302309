"""From text to syntax: what parses, how tightly operators bind, and the stored tables."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from weft.ir import parser
from weft.ir.errors import LanguageError
from weft.ir.parse_tables import Grammar
from weft.ir.span import Source
from weft.lang import ast, syntax
from weft.lang.reader import MAX_DEPTH
from weft.ops import library

LOOPS = Grammar(Path(parser.__file__).with_name("loops.lark"))


def parse(text: str) -> list[ast.Definition]:
    return syntax.parse_text(Source("<test>", text))


def statements(body: str) -> tuple[ast.Statement, ...]:
    return parse(f"def f(float(N) A) -> (B) {{\n{body}\n}}")[0].statements


def show(e: ast.Expr) -> str:
    """Fully parenthesized."""
    match e:
        case ast.Name(text=text):
            return text
        case ast.Integer(value=value) | ast.Real(value=value):
            return str(value)
        case ast.SizeOf(tensor=tensor, dimension=dimension):
            return f"{tensor.text}.{dimension}"
        case ast.Apply(name=name, args=args):
            return f"{name.text}({','.join(map(show, args))})"
        case ast.Unary(op=op, operand=operand):
            return f"({op}{show(operand)})"
        case ast.Binary(op=op, left=left, right=right):
            return f"({show(left)}{op}{show(right)})"
        case ast.Ternary(condition=c, then=t, otherwise=o):
            return f"({show(c)}?{show(t)}:{show(o)})"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a + b * c - d", "((a+(b*c))-d)"),
        ("a / b % c // d", "(((a/b)%c)//d)"),
        ("a || b && c == d + 1", "(a||(b&&(c==(d+1))))"),
        ("a ? b : c ? d : e", "(a?b:(c?d:e))"),
        ("-a * !b", "((-a)*(!b))"),
        ("- - a", "(-(-a))"),
        ("(a < b) == c", "((a<b)==c)"),
        ("(a + b) * c", "((a+b)*c)"),
        ("A.0 + B.12", "(A.0+B.12)"),
        (".5 + 1. + 1e3 + 2.5e-1f + 0x1F", "((((0.5+1.0)+1000.0)+0.25)+31)"),
        ("1e999", "inf"),
        ("f(a, g(), )", "f(a,g())"),
        ("whereabouts + defined + inside + existsx + outsider + info + nano", None),
    ],
)
def test_expressions(text: str, shown: str | None) -> None:
    (statement,) = statements(f"B = {text}")
    assert isinstance(statement, ast.Assign)
    if shown is not None:
        assert show(statement.value) == shown
    else:
        assert [n.text for n in ast.names_in(statement.value)] == text.split(" + ")


@pytest.mark.parametrize(
    "op", ["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!", "argmin=!", "argmax=!"]
)
def test_assignments(op: str) -> None:
    (statement,) = statements(f"B(i) {op} A(i)")
    assert isinstance(statement, ast.Assign)
    assert statement.initialize == op.endswith("!")
    assert statement.op == (op.rstrip("!").rstrip("=") or "=")


def test_not_after_equals() -> None:
    (statement,) = statements("B(i) =! A(i)")
    assert isinstance(statement, ast.Assign)
    assert (statement.op, statement.initialize, show(statement.value)) == ("=", False, "(!A(i))")


def test_a_name_then_a_tuple_is_two_statements() -> None:
    first, second = statements("x = y\n(a, b) = g(x)")
    assert isinstance(first, ast.Assign)
    assert show(first.value) == "y"
    assert isinstance(second, ast.AssignTuple)
    assert [t.text for t in second.targets] == ["a", "b"]


def test_an_access_then_a_comparison_is_one_expression() -> None:
    (statement,) = statements("B(i) = x(a, b) == 3 ? 1 : 0")
    assert isinstance(statement, ast.Assign)
    assert show(statement.value) == "((x(a,b)==3)?1:0)"


def test_clauses() -> None:
    (statement,) = statements(
        "B(i) = A(k)\n  where i in N ? 0 : 1:N,\n  k = i + 1, exists A(i), A outside zero # comment\n ;"
    )
    assert isinstance(statement, ast.Assign)
    kinds = [type(c) for c in statement.clauses]
    assert kinds == [ast.Range, ast.Let, ast.Exists, ast.Outside]


def test_outputs_with_and_without_parentheses() -> None:
    assert parse("def f(float A) -> B { B = A }")[0].outputs == parse("def f(float A) -> (B) { B = A }")[0].outputs


def test_spans_are_exact() -> None:
    (statement,) = statements("  B(i) = A(i) + foo(i, 2)")
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Binary)
    span = statement.value.right.span
    assert (span.line, span.source.line(2)[span.column - 1 : span.end - 1]) == (2, "foo(i, 2)")


def test_spans_agree_with_every_kind_of_line_end() -> None:
    text = "def f(float(N) A) -> (B) {\r\n# \x0b tab\x0c\n  B(i) = foo }"
    (definition,) = parse(text)
    (statement,) = definition.statements
    assert isinstance(statement, ast.Assign)
    span = statement.value.span
    assert span.source.line(span.line)[span.column - 1 : span.end - 1] == "foo"


def test_long_chains_are_refused_before_anything_recurses() -> None:
    ok = "+".join(["A(i)"] * (MAX_DEPTH - 2))
    assert statements(f"B(i) = {ok}")
    for text in (
        "+".join(["A(i)"] * 5000),
        "-" * 5000 + "1",
        "A(" * 500 + "i" + ")" * 500,
        "1?" * 500 + "1" + ":1" * 500,
    ):
        with pytest.raises(LanguageError, match="nested too deeply"):
            statements(f"B(i) = {text}")


def test_any_number_of_parentheses() -> None:
    (statement,) = statements("B(i) = " + "(" * 3000 + "1" + ")" * 3000)
    assert isinstance(statement, ast.Assign)
    assert show(statement.value) == "1"


@pytest.mark.parametrize("grammar", [syntax.GRAMMAR, LOOPS], ids=["whiteboard", "loops"])
def test_stored_tables_are_those_of_the_grammar(grammar: Grammar) -> None:
    """After a change of a grammar: python -m weft.ir.parse_tables weft/*/*.lark"""
    stored = json.loads(grammar.tables.read_text(encoding="utf-8"))
    made = json.loads(grammar.make_tables())
    assert stored["stamp"].split()[-1] == made["stamp"].split()[-1]
    assert grammar.load_tables(grammar.text) is not None


def test_stored_tables_parse_like_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [library.source(name)[0] for name in library.names()]
    by_tables = [parse(text) for text in texts]
    monkeypatch.setattr(Grammar, "load_tables", lambda self, text: None)
    syntax._parser.cache_clear()
    by_grammar = [parse(text) for text in texts]
    syntax._parser.cache_clear()
    assert by_tables == by_grammar


def test_tables_of_another_grammar_are_not_used() -> None:
    assert syntax.GRAMMAR.load_tables('start: "x"') is None


def test_damaged_tables_are_not_used(tmp_path: Any) -> None:
    text = syntax.GRAMMAR.text
    grammar = Grammar(tmp_path / "whiteboard.lark")
    for damage in (None, "", "{", "[]", '{"stamp": 1}'):
        if damage is not None:
            grammar.tables.write_text(damage)
        assert grammar.load_tables(text) is None


def test_two_threads_parse_at_once() -> None:
    errors: list[object] = []

    def work(name: str) -> None:
        for _ in range(30):
            (d,) = parse(f"def {name}(float(N) A) -> (B) {{ B(i) = A(i) }}")
            if d.name.span.source.text.find(name) < 0:
                errors.append(d)

    threads = [threading.Thread(target=work, args=(f"name{k}",)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
