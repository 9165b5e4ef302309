"""Which type each expression has, and what index variables are worth."""

from __future__ import annotations

import pytest

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Cast, Compare, Const, Load, Select, Var
from weft.lang.parse import parse_programs
from weft.tensor.program import Statement

PARAMS = (
    "float(N) F, double(N) D, half(N) H, bfloat16(N) G, int(N) I, int64(N) L, uint8(N) U, uint32(N) V, bool(N) B,"
    " int S, float a"
)


def statement(body: str) -> Statement:
    return parse_programs(f"def f({PARAMS}) -> (O) {{ {body} }}")["f"].statements[-1]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("F(i) + D(i)", "float64"),
        ("H(i) + F(i)", "float32"),
        ("H(i) + G(i)", "float32"),
        ("H(i) * I(i)", "float16"),
        ("H(i) * 0.5 + 1", "float16"),
        ("G(i) * (1.0 / 3)", "bfloat16"),
        ("D(i) * 0.1", "float64"),
        ("I(i) + L(i)", "int64"),
        ("U(i) + V(i)", "uint32"),
        ("U(i) + 1", "int32"),
        ("I(i) + V(i)", "int32"),
        ("I(i) / 2", "int32"),
        ("I(i) / 2.0", "float32"),
        ("B(i) + B(i)", "int32"),
        ("B(i) && F(i)", "bool"),
        ("F(i) < I(i)", "bool"),
        ("!F(i)", "bool"),
        ("-U(i)", "uint8"),
        ("i", "int32"),
        ("F(i) * i", "float32"),
        ("L(i) + i", "int64"),
        ("N", "int32"),
        ("int64(i)", "int64"),
        ("B(i) ? H(i) : 0.0", "float16"),
        ("B(i) ? 1 : F(i)", "float32"),
        ("max(H(i), 0)", "float16"),
        ("fmax(H(i), 0.25)", "float16"),
        ("exp(I(i))", "float32"),
        ("sqrt(D(i))", "float64"),
        ("abs(I(i))", "int32"),
        ("isnan(F(i))", "bool"),
        ("bit_and(U(i), U(i))", "uint8"),
        ("F(i) % 2", "float32"),
        ("int(F(i))", "int32"),
        ("uint(F(i))", "uint32"),
        ("half(F(i))", "float16"),
        ("3000000000 + I(i)", "int64"),
        ("0.5", "float32"),
        ("true", "bool"),
        ("S", "int32"),
        ("a", "float32"),
    ],
)
def test_type(value: str, dtype: str) -> None:
    assert statement(f"O(i) = {value} where i in 0:N").value.dtype.name == dtype


def test_index_arithmetic_stays_in_int64_until_it_meets_a_value() -> None:
    value = statement("O(i) = F(i) * (i + 1)").value
    assert isinstance(value, Binary)
    assert value.right == Cast(dt.float32, Binary("+", Var("i"), Const(1, dt.int64)))


def test_comparisons_of_index_variables_are_in_int64() -> None:
    value = statement("O(i) = i > 0 ? F(i - 1) : 0 where i in 0:N").value
    assert isinstance(value, Select)
    assert value.condition == Compare(">", Var("i"), Const(0, dt.int64))


def test_subscripts_are_int64() -> None:
    value = statement("O(i) = F(I(i) + S)").value
    assert isinstance(value, Load)
    (index,) = value.indices
    assert isinstance(index, Binary)
    assert isinstance(index.left, Cast)
    assert index.left.operand.dtype == dt.int32
    assert index.right == Cast(dt.int64, Var("S", dt.int32))


def test_integer_division_rounds_down() -> None:
    quotient, rest = (statement(f"O(i) = I(i) {op} 3").value for op in "/%")
    assert isinstance(quotient, Binary)
    assert isinstance(rest, Binary)
    assert (quotient.op, rest.op) == ("//", "%")


def test_an_explicit_cast_to_int32_is_kept() -> None:
    value = statement("O(i) = L(i) + int(L(i))").value
    assert isinstance(value, Binary)
    assert isinstance(value.right, Cast)
    assert isinstance(value.right.operand, Cast)
    assert value.right.operand.dtype == dt.int32


def test_literals_take_the_type_of_their_tensor() -> None:
    for t, value in (("uint8", "255"), ("int8", "-128"), ("half", "0.1"), ("double", "0.1"), ("half", "1.0/3")):
        program = parse_programs(f"def f() -> ({t}(3) O) {{ O(i) = {value} }}")["f"]
        assert program.statements[0].value.dtype == program.outputs[0].dtype
    with pytest.raises(LanguageError, match="cannot put int32 into uint8"):
        parse_programs("def f() -> (uint8(3) O) { O(i) = 256 }")


def test_a_double_literal_keeps_its_digits() -> None:
    value = statement("O(i) = D(i) * 0.1").value
    assert isinstance(value, Binary)
    assert value.right == Const(0.1, dt.float64)


def test_index_values_beyond_int32_reach_wide_types_whole() -> None:
    program = parse_programs("def f() -> (int64(3) O) { O(i) = i * 3000000000 }")["f"]
    assert program.statements[0].value == Binary("*", Var("i"), Const(3000000000, dt.int64))
