"""The full text of the errors of define, operator and settings; those of the language have their own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from call_programs import MM

import weft
from weft.ir.errors import ArgumentError, Error, LanguageError, ShapeError

DEFINE_CASES: dict[str, tuple[Callable[[], Any], type[Error], str]] = {
    "not_text": (
        lambda: weft.define(3),
        ArgumentError,
        (
            "error: define takes the text of a program, not an int\n"
            '  help:  weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }")'
        ),
    ),
    "bytes": (
        lambda: weft.define(MM.encode()),
        ArgumentError,
        (
            "error: define takes the text of a program, not a bytes\n"
            '  help:  weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }")'
        ),
    ),
    "name": (
        lambda: weft.define(MM, name=3),
        ArgumentError,
        ("error: name= takes a text, not an int"),
    ),
    "entry_kind": (
        lambda: weft.define(MM, entry=3),
        ArgumentError,
        ("error: entry= takes a text, not an int"),
    ),
    "no_such_entry": (
        lambda: weft.define(MM, entry="nn"),
        LanguageError,
        ("error: <define> does not define `nn`\n  why:   it defines mm"),
    ),
    "checks": (
        lambda: weft.define(MM, checks=True),
        ArgumentError,
        ('error: checks=True is not known\n  help:  use checks="on" or checks="off"'),
    ),
    "empty": (
        lambda: weft.define(""),
        LanguageError,
        (
            "error: there is no definition in the text\n"
            "  why:   a program is one `def` or several\n"
            "  help:  write `def name(float(N) A) -> (B) { B(i) = A(i) }`"
        ),
    ),
    "operator_inputs": (
        lambda: weft.operator(3, []),
        ArgumentError,
        ("error: the inputs of an operator are a list, not an int\n  help:  weft.operator([A, B], [C])"),
    ),
    "threads_zero": (
        lambda: weft.set_num_threads(0),
        ArgumentError,
        ("error: cannot use 0 threads\n  why:   the number of threads is a whole number from 1 on"),
    ),
    "threads_text": (
        lambda: weft.set_num_threads("2"),
        ArgumentError,
        ("error: cannot use '2' threads\n  why:   the number of threads is a whole number from 1 on"),
    ),
    "threads_bool": (
        lambda: weft.set_num_threads(True),
        ArgumentError,
        ("error: cannot use True threads\n  why:   the number of threads is a whole number from 1 on"),
    ),
    "unknown_range": (
        lambda: weft.define("def f(float(N) X) -> (Y) {\n  Y(i,j) = X(i)\n}"),
        LanguageError,
        (
            "error: unknown range of index variable `j`\n"
            "  <define>:2      Y(i,j) = X(i)\n"
            "                      ^\n"
            "  why:   no access to a tensor of known size mentions `j`\n"
            "  help:  add `where j in 0:...` with the range you mean"
        ),
    ),
    "reduction_with_set": (
        lambda: weft.define("def f(float(N,M) X) -> (Y) {\n  Y(i) = X(i,j)\n}"),
        LanguageError,
        (
            "error: `=` with reduction variable `j`\n"
            "  <define>:2      Y(i) = X(i,j)\n"
            "                             ^\n"
            "  why:   `j` is not on the left, so every value of it would overwrite `Y` again\n"
            "  help:  say how to combine the values: `+=!` sums from zero, `+=` adds to what is there"
        ),
    ),
    "reads_outside": (
        lambda: weft.define("def f(float(N) X) -> (Y) {\n  Y(i) = X(i+1) where i in 0:N\n}"),
        ShapeError,
        (
            "error: `X(i+1)` reads outside `X`\n"
            "  <define>:2      Y(i) = X(i+1) where i in 0:N\n"
            "                         ^^^^^^\n"
            "  why:   at i=N-1: index N of dimension 0, which has size N\n"
            "  help:  give the range: `where i in 0:N-1`, or say what is there: `where X outside zero`"
        ),
    ),
}


@pytest.mark.parametrize("name", DEFINE_CASES)
def test_a_wrong_definition_is_told_in_full(name: str) -> None:
    wrong, kind, message = DEFINE_CASES[name]
    with pytest.raises(Error) as caught:
        wrong()
    assert str(caught.value) == message
    assert type(caught.value) is kind
