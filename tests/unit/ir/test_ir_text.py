"""The text form: what it looks like, what the parser refuses and how it says so."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Select, Unary, Var, idx
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr, print_kernel, print_name, print_stmt
from weft.ir.stmt import Barrier, If, Let, Return, Seq, Store
from weft.ir.verify import verify

EVERYTHING = """\
kernel everything(n: int64, alpha: float64, A: float32[n, 32] strides [64, -1], T: int8[16] in constant, \
out C: float32[n, 48], out hits: int32[]) {
  assert n > 0, "n is {0}, \\"positive\\" is needed", n
  for m in 0:n {
    parallel j in 0:48 {
      block matmul(vm spatial 0:n = m, vj spatial 0:48 = j, vk reduce 0:32 = 0)
          reads A[vm, 0 +: 32]
          writes C[vm, vj]
      {
        init {
          C[vm, vj] = 0.0
        }
        C[vm, vj] = C[vm, vj] + A[vm, vk] * float32(alpha)
      }
    }
  }
  block b in 0:4 {
    alloc S: float32[64] in shared
    thread t in 0:64 {
      alloc r: float32[2] in register
      let x: float32 = A[b % n, t // 2]
      let old: int32 = 0_i32
      S[t] = x
      barrier(block)
      if S[63 - t] < x && !(x == inf) {
        old = atomic hits[] += 1_i32
      } else if isnan(x) {
        return
      } else {
        old = atomic hits[] cas= 7_i32 if old
      }
      unroll u in 0:2 {
        r[u] = x > 0.0 ? -x : nan
      }
      while old < 10_i32 {
        old = old + 1_i32
        if old == 5_i32 {
          continue
        }
        break
      }
    }
  }
  vector v in 0:12 {
    C[0, ramp(v * 4, 1, 4)] = broadcast(-0.0, 4) + shuffle([A[0, ramp(0, 2, 4)]], [3, 2, 1, 0])
  }
  C[0, 0] = reduce(+; k in 0:32, l in 0:k; float32(min(T[k % 16], -128_i8) & ~1_i8)) * (1.0 + 2.0)
  call exp(alpha)
}
"""


def test_a_program_of_every_node_kind_prints_as_it_was_written(golden: Callable[[str, str], None]) -> None:
    kernel = parse_kernel(EVERYTHING)
    verify(kernel)
    assert print_kernel(kernel) == EVERYTHING
    golden("loops_everything.txt", print_kernel(kernel))


x, y, b = Var("x"), Var("y"), Var("b", dt.bool_)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (x - (y - x), "x - (y - x)"),
        (x - y - x, "x - y - x"),
        ((x + y) * x, "(x + y) * x"),
        (-(x * y), "-(x * y)"),
        (-x * y, "-x * y"),
        (Unary("-", idx(3)), "-(3)"),
        (Unary("-", idx(-3)), "--3"),
        (idx(-3), "-3"),
        (Const(-(2**63), dt.int64), "-9223372036854775808"),
        (Const(0.1, dt.float32), "0.1"),
        (Const(-0.0, dt.float32), "-0.0"),
        (Const(1e16, dt.float64), "1e+16_f64"),
        (Const(math.inf, dt.float32), "inf"),
        (Const(-math.inf, dt.bfloat16), "-inf_bf16"),
        (Const(0.5, dt.float8_e4m3fn), "0.5_f8_e4m3fn"),
        (Const(math.inf, dt.float8_e5m2.with_lanes(4)), "inf_f8_e5m2x4"),
        (Const(math.nan, dt.float16), "nan_f16"),
        (Const(7, dt.uint8), "7_u8"),
        (Const(7, dt.int32.with_lanes(4)), "7_i32x4"),
        (Const(True, dt.bool_.with_lanes(8)), "true_x8"),
        (Binary("min", x, y), "min(x, y)"),
        (Binary("tdiv", x, y), "tdiv(x, y)"),
        (Cast(dt.float32, x), "float32(x)"),
        (Select(b, x, Select(b, y, x)), "b ? x : b ? y : x"),
        (Select(Select(b, b, b), x, y), "(b ? b : b) ? x : y"),
        (Compare("==", Compare("<", x, y), b), "(x < y) == b"),
        (Binary("&&", b, Binary("||", b, b)), "b && (b || b)"),
        (Binary("<<", x, x + y), "x << x + y"),
        (Binary("|", x, Binary("&", x, y)), "x | x & y"),
    ],
)
def test_operators_have_as_few_parentheses_as_they_need(e: Expr, text: str) -> None:
    assert print_expr(e) == text
    target = {"bool": "B", "int": "I"}.get(e.dtype.kind, "F")
    types = f"x: int64, y: int64, b: bool, out {target}: {e.dtype.scalar}[4]"
    at = "0" if e.dtype.lanes == 1 else f"ramp(0, 1, {e.dtype.lanes})"
    store = parse_kernel(f"kernel f({types}) {{ {target}[{at}] = {text} }}").body
    assert isinstance(store, Store)
    assert store.value == e


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain_1", "plain_1"),
        ("for", "`for`"),
        ("float32", "`float32`"),
        ("inf", "`inf`"),
        ("info", "info"),
        ("nano", "nano"),
        ("a b", "`a b`"),
        ("C.best", "`C.best`"),
        ("`", "`\\u0060`"),
        ("é", "`\\u00e9`"),
        ("4x", "`4x`"),
    ],
)
def test_odd_names_stand_in_backticks(name: str, text: str) -> None:
    assert print_name(name) == text
    kernel = parse_kernel(f"kernel {text}({text}: int64, out A: int64[1]) {{ A[0] = {text} }}")
    assert kernel.name == name
    assert kernel.params[0].name == name


def test_let_and_alloc_reach_to_the_end_unless_braced() -> None:
    signature = "kernel f(out A: int64[4]) "
    open_ended = parse_kernel(signature + "{ let x: int64 = 1 A[0] = x A[1] = x }").body
    braced = parse_kernel(signature + "{ let x: int64 = 1 { A[0] = x } A[1] = 2 }").body
    assert isinstance(open_ended, Let)
    assert isinstance(open_ended.body, Seq)
    assert isinstance(braced, Seq)
    assert print_stmt(open_ended) == "let x: int64 = 1\nA[0] = x\nA[1] = x"
    assert print_stmt(braced) == "let x: int64 = 1 {\n  A[0] = x\n}\nA[1] = 2"


def test_sequences_keep_their_structure() -> None:
    for body in (Seq(()), Seq((Return(),)), Seq((Seq((Return(), Barrier())),)), Seq((Return(), Seq((Seq(()),))))):
        kernel = parse_kernel("kernel f(b: bool) { }")
        nested = If(b, body, Seq(()))
        again = type(kernel)("f", kernel.params, (), nested)
        assert parse_kernel(print_kernel(again)) == again


def test_comments_and_layout_do_not_matter() -> None:
    kernel = parse_kernel("kernel f(out A: int64[1]){A[0]=1 # one\n#two\n}")
    assert print_kernel(kernel) == "kernel f(out A: int64[1]) {\n  A[0] = 1\n}\n"


def test_nodes_know_where_they_were_read() -> None:
    kernel = parse_kernel("kernel f(out A: int64[2]) {\n  A[0] = 1\n  A[1] = A[0] + 2\n}", "f.loops")
    assert isinstance(kernel.body, Seq)
    second = kernel.body.body[1]
    assert isinstance(second, Store)
    assert second.span is not None
    assert (str(second.span), second.span.column, second.span.end) == ("f.loops:3", 3, 18)
    assert second.value.span is not None
    assert (second.value.span.column, second.value.span.end) == (10, 18)


F = "kernel f(n: int64, A: float32[8]) "


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("", "the text ends too early", "expected `kernel`"),
        ("kernel f(", "the text ends too early", "expected a name or `)` or `out`"),
        (F + "{ A[0] @ 1 }", "unexpected `@`", "expected `=`"),
        (F + "{ for 3 }", "unexpected `3`", "expected a name"),
        (F + "{ x = 3 }", "unknown variable `x`", "no loop, let or parameter around it makes it"),
        (F + "{ A[0] = A }", "unknown variable `A`", "it is a buffer, used without indices"),
        (F + "{ B[0] = 1.0 }", "unknown buffer `B`", "no parameter or alloc around it declares it"),
        (F + "{ A[0] = 1 }", "cannot build a store to A", "it holds float32; got int64"),
        (F + "{ A[0, 1] = 1.0 }", "cannot build a store of A", "it has 1 dimensions; got 2"),
        (F + "{ A[0] = 1.0 + 1 }", "cannot build `+`", "operand types differ; got float32, int64"),
        (F + "{ A[0] = foo(1.0) }", "unknown function `foo`", None),
        (F + "{ A[0] = 300_i8 }", "cannot build a constant", "300 does not fit int8"),
        (F + "{ A[0] = 1.5_i8 }", "`1.5_i8` is not a number", "1.5 is not a int8"),
        (F + "{ A[0] = 1_i7 }", "`i7` is not a type", "a number has a type such as i32, u8, bf16 or f64"),
        (F + "{ A[0] = +1.0 }", "`+` stands between two operands", None),
        (F + "{ A[0] = `\\q` }", "this is not a string", "escapes are those of JSON"),
        (F + "{ A[0] = " + "9" * 5000 + " }", "this number is too long", None),
        (F + "{ for i in 0:1.0 { } }", "cannot build a loop", "loops run over int64; got float32"),
        (F + "{ A[0] = broadcast(1.0, 1) }", "cannot build a broadcast", "a scalar and 2 lanes; got float32"),
        (F + "{ A[0] = broadcast(1.0, 2.5) }", "`2.5` is not a number of lanes", None),
        (F + "{ A[0] = float32x1(1.0) }", "`float32x1` is not a type", "a vector has at least 2 lanes"),
    ],
)
def test_what_is_not_a_program_is_refused(text: str, what: str, why: str | None) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_kernel(text)
    assert caught.value.what == what
    assert caught.value.why == why
    assert caught.value.span is not None


@pytest.mark.parametrize("inner", ["(" * 3000 + "1" + ")" * 3000, "-" * 3000 + "1", "1" + " + 1" * 3000])
def test_nesting_too_deep_for_python_is_an_error_in_words(inner: str) -> None:
    with pytest.raises(LanguageError, match="nested too deeply to read"):
        parse_kernel(f"kernel f(out A: int64[1]) {{ A[0] = {inner} }}")


def test_an_error_points_at_its_place() -> None:
    with pytest.raises(LanguageError) as caught:
        parse_kernel("kernel f(out A: float32[8]) {\n  for i in 0:8 {\n    A[i] = B[i] * 2.0\n  }\n}", "f.loops")
    assert str(caught.value) == (
        "error: unknown buffer `B`\n"
        "  f.loops:3       A[i] = B[i] * 2.0\n"
        "                         ^\n"
        "  why:   no parameter or alloc around it declares it"
    )
