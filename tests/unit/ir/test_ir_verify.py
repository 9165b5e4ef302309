"""Each rule of the loop program, broken alone; and all together in one message."""

from __future__ import annotations

import dataclasses

import pytest

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import Binary, Broadcast, Call, Compare, Const, Expr, Load, Ramp, Reduce, Select, Var, idx
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Alloc, Assign, Atomic, Block, Break, For, Iter, Kernel, Let, Region, Seq, Stmt, Store
from weft.ir.verify import find_problems, verify

A = Buffer("A", dt.float32, (idx(8),))
C = Buffer("C", dt.float32, (idx(8),))
i, j, x = Var("i"), Var("j"), Var("x")
ONE = Const(1.0, dt.float32)


def problems(body: str, signature: str = "n: int64, A: float32[8], I: int32[8], out C: float32[8], out D: int32[8]"):
    return [p.text for p in find_problems(parse_kernel(f"kernel f({signature}) {{ {body} }}"))]


def problems_of(body: Stmt, *params: Buffer | Var, outputs: tuple[str, ...] = ("C",)) -> list[str]:
    return [p.text for p in find_problems(Kernel("f", params or (A, C), outputs, body))]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("for i in 0:8 { for i in 0:8 { C[i] = 1.0 } }", "`i` is bound again"),
        ("for A in 0:8 { C[A] = 1.0 }", "`A` is bound again"),
        ("let n: float32 = 1.0 C[0] = n", "`n` is bound again"),
        ("alloc C: float32[4] C[0] = 1.0", "`C` is bound again"),
        ("A[0] = 1.0", "`A` is written but it is not an output"),
        ("alloc K: float32[4] in constant K[0] = 1.0", "`K` is written but it is in constant scope"),
        ("break", "break outside a loop"),
        ("if n > 0 { continue }", "continue outside a loop"),
        ("parallel i in 0:8 { break }", "break would leave a parallel loop"),
        ("for k in 0:4 { thread i in 0:8 { continue } }", "continue would leave a thread loop"),
        ("parallel i in 0:8 { return }", "return inside a parallel or vector loop"),
        ("vector i in 0:8 { return }", "return inside a parallel or vector loop"),
        ("n = 3", "`n` is assigned but it is a parameter variable"),
        ("for i in 0:3 { i = 3 }", "`i` is assigned but it is a loop variable"),
        ("let y: int64 = 0 parallel i in 0:8 { y = i }", "`y` is assigned across a concurrent loop"),
        ("let y: int64 = 0 vector i in 0:8 { y = i }", "`y` is assigned across a concurrent loop"),
        ("let y: int32 = 0_i32 thread i in 0:8 { y = atomic D[0] += 1_i32 }", "`y` is assigned across a concurrent"),
        ("parallel i in 0:2 { thread t in 0:8 { C[t] = 1.0 } }", "a thread loop inside a parallel loop"),
        ("thread t in 0:2 { block b in 0:8 { C[b] = 1.0 } }", "a block loop inside a thread loop"),
        ("vector v in 0:2 { parallel p in 0:8 { C[p] = 1.0 } }", "a parallel loop inside a vector loop"),
        ("barrier(block)", "a block barrier outside thread loops"),
        ("block b in 0:2 { barrier(warp) }", "a warp barrier outside thread loops"),
        ("barrier(grid)", "a grid barrier outside block and thread loops"),
        ("thread t in 0:8 { vector v in 0:2 { barrier(block) } }", "a barrier inside a vector loop"),
        ("C[ramp(0, 1, 4)] = 1.0", "1 values are stored to 4 elements of `C`"),
        ("C[0] = broadcast(1.0, 4)", "4 values are stored to 1 elements of `C`"),
        ("C[0] = sinus.float32(1.0)", "`sinus` is not an intrinsic"),
        ("C[0] = pow(1.0)", "`pow` takes 2 arguments, got 1"),
        ("C[0] = pow(1.0, 1.0_f64)", "the arguments of `pow` differ in type: float32, float64"),
        ("C[0] = float32(exp(3))", "`exp` does not take int64"),
        ("C[0] = exp.float32(1.0_f64)", "`exp` gives float64, declared as float32"),
        ("call exp(1)", "`exp` does not take int64"),
        ("for i in 0:8 { block B(v spatial 0:8 = i) writes C[v] { C[i] = 1.0 } }", "`i` is a variable outside"),
        ("for i in 0:8 { block B(i spatial 0:8 = i) writes C[i] { C[i] = 1.0 } }", "`i` is bound again"),
        ("block B() { C[0] = 1.0 }", "block `B` writes `C` but does not declare it"),
        ("block B() writes C[0] { C[0] = A[0] }", "block `B` reads `A` but does not declare it"),
        ("for i in 0:8 { block B() writes C[0] { break } }", "break outside a loop"),
        ("block B() writes C[] { C[0] = 1.0 }", "a region of `C` does not have 1 dimensions"),
        ("alloc R: float32[n] in register R[0] = 1.0", "register buffer `R` has a size that is not a constant"),
        ("alloc R: float32[-3] R[0] = 1.0", "buffer `R` has the negative size -3"),
        (
            "alloc R: float32[reduce(+; r in 0:3; r)] R[0] = 1.0",
            "buffer `R` has a reduction in its size; a let variable can hold that first",
        ),
        ("alloc R: float32x4[3] return", "buffer `R` holds vectors"),
        ('assert n > 0, "{0} and {1}", n', "the message of an assert mentions {1} but has 1 values"),
        ("atomic C[0] &= 1.0", "atomic `&` on float32"),
        ("C[0] = float32(reduce(+; r in 0:3; true))", "a reduction by `+` of bools"),
        ("C[0] = reduce(+; n in 0:3; 1.0)", "`n` is bound again"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found(body: str, found: str) -> None:
    listed = problems(body)
    assert len(listed) == 1
    assert listed[0].startswith(found)


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0:8 { C[i] = A[i] } for i in 0:8 { C[i] = C[i] + 1.0 }",
        "block b in 0:4 { alloc S: float32[8] in shared thread t in 0:8 { S[t] = A[t] barrier(block) C[t] = S[0] } }",
        "block b in 0:4 { for k in 0:2 { thread t in 0:8 { if t > 3 { return } C[t] = 1.0 } } }",
        "let y: int64 = 0 while y < 8 { y = y + 1 if y == 3 { continue } C[y] = 1.0 }",
        "parallel i in 0:8 { let y: float32 = 0.0 for k in 0:8 { y = y + A[k] } C[i] = y }",
        "for i in 0:8 { block B(v spatial 0:8 = i, r reduce 0:n = 0) reads A[v] writes C[v] "
        "{ init { C[v] = 0.0 } C[v] = C[v] + A[v] } }",
        "C[0] = reduce(+; r in 0:3, s in 0:r; A[r + s])",
        "C[ramp(0, 1, 4)] = A[ramp(0, 2, 4)]",
        "let y: int32 = 0_i32 y = atomic D[0] cas= 1_i32 if 0_i32",
        "thread t in 0:8 { barrier(warp) } block b in 0:2 { barrier(grid) }",
    ],
)
def test_a_valid_program_passes(body: str) -> None:
    assert problems(body) == []


def test_variables_and_buffers_must_be_declared_as_they_are_used() -> None:
    assert problems_of(Store(C, (i,), ONE)) == ["`i` is not in scope"]
    body = For(i, idx(0), idx(8), "serial", Store(C, (i,), Load(Buffer("B", dt.float32, (idx(8),)), (i,))))
    assert problems_of(body) == ["buffer `B` is not in scope"]
    other = Buffer("C", dt.float32, (idx(9),))
    assert problems_of(Store(other, (idx(0),), ONE))[0].startswith("buffer `C` is used with another type, shape")
    narrow = Let(Var("x", dt.int32), Const(1, dt.int32), Store(C, (x,), ONE))
    assert problems_of(narrow) == ["`x` is a int32, used as int64"]
    assert problems_of(Assign(x, idx(1))) == ["`x` is assigned but no enclosing let makes it"]


def test_lanes_must_agree() -> None:
    square = Buffer("C", dt.float32, (idx(8), idx(8)))
    mixed = Store(square, (Ramp(idx(0), idx(1), 2), Ramp(idx(0), idx(1), 4)), Broadcast(ONE, 4))
    assert problems_of(mixed, A, square) == ["the indices of `C` have different numbers of lanes: [2, 4]"]
    condition = Broadcast(Const(True, dt.bool_), 2)
    chosen = Select(condition, Broadcast(ONE, 4), Broadcast(ONE, 4))
    assert problems_of(Store(C, (Ramp(idx(0), idx(1), 4),), chosen)) == ["a select has 2 conditions for 4 values"]
    vector = Atomic("+", C, (Ramp(idx(0), idx(1), 4),), ONE)
    assert problems_of(vector) == ["an atomic on a vector of elements of `C`"]


def test_iterators_and_regions_are_int64() -> None:
    narrow = Const(0, dt.int32)
    block = Block(
        "B", (Iter(x, idx(0), idx(8), "spatial", narrow),), (), (Region(C, (narrow,), (idx(1),)),), None, Seq(())
    )
    assert problems_of(block) == [
        "the binding of iterator `x` is int32; iterators are int64",
        "a region of `C` has a bound of type int32; bounds are int64",
    ]


def test_the_signature_is_checked() -> None:
    nothing = Seq(())
    assert problems_of(nothing, A, A, outputs=()) == [
        "`A` is bound again although an enclosing statement already binds it"
    ]
    assert problems_of(nothing, A, outputs=("Z",)) == ["output `Z` is not a buffer parameter"]
    assert problems_of(nothing, A, C, outputs=("C", "A")) == ["the outputs are not in the order of the parameters"]
    assert problems_of(nothing, A, outputs=("A", "A")) == ["an output is named twice"]
    shared = Buffer("S", dt.float32, (idx(8),), scope="shared")
    assert problems_of(nothing, shared, outputs=())[0].startswith("parameter `S` is in shared scope")
    constant = Buffer("S", dt.float32, (idx(8),), scope="constant")
    assert problems_of(nothing, constant, outputs=("S",)) == ["output `S` is in constant scope"]
    vector = Var("v", dt.int32.with_lanes(4))
    assert problems_of(nothing, vector, outputs=())[0].startswith("parameter `v` is a vector")
    sized = Buffer("S", dt.float32, (Var("N"),))
    assert problems_of(nothing, sized, outputs=()) == ["`N` is not in scope"]
    assert problems_of(nothing, Var(""), outputs=()) == ["a parameter has an empty name"]


def test_expressions_of_other_layers_are_refused() -> None:
    class Foreign(Expr):
        span = None

        @property
        def dtype(self) -> dt.DType:
            return dt.float32

    foreign = dataclasses.dataclass(frozen=True)(Foreign)()
    assert problems_of(Store(C, (idx(0),), foreign)) == ["Foreign is not an expression of loop programs"]


def test_deep_programs_are_refused_in_words() -> None:
    body: Stmt = Break()
    for _ in range(600):
        body = Seq((body,))
    with pytest.raises(ProgramError, match="nested too deeply to verify"):
        verify(Kernel("f", (C,), ("C",), body))


def test_all_problems_are_listed_with_their_places() -> None:
    text = "kernel f(A: float32[8], out C: float32[8]) {\n  A[0] = 1.0\n  break\n}\n"
    with pytest.raises(ProgramError) as caught:
        verify(parse_kernel(text, "f.loops"))
    assert str(caught.value) == (
        "error: kernel `f` is not a valid program: 2 problems\n"
        "  f.loops:2       A[0] = 1.0\n"
        "                  ^^^^^^^^^^\n"
        "  1:     `A` is written but it is not an output, in: A[0] = 1.0 (f.loops:2)\n"
        "  2:     break outside a loop, in: break (f.loops:3)"
    )


def test_a_reduction_sees_its_axes_only_inside() -> None:
    total = Reduce("+", (), Load(A, (j,)))
    assert problems_of(Store(C, (idx(0),), total)) == ["`j` is not in scope"]
    assert problems_of(Store(C, (idx(0),), Select(Compare("<", j, idx(3)), ONE, ONE))) == ["`j` is not in scope"]
    call = Call("exp", (Binary("+", ONE, ONE),), dt.float32)
    assert problems_of(Store(C, (idx(0),), call)) == []


def test_a_statement_in_order_elsewhere_is_looked_at_again_where_a_name_means_something_else() -> None:
    def temporary(name: str, size: int = 8) -> Buffer:
        return Buffer(name, dt.float32, (idx(size),))

    inner = For(i, idx(0), idx(8), "serial", Seq((Store(temporary("T"), (i,), ONE), Store(C, (i,), ONE))))
    inside = For(j, idx(0), idx(2), "serial", inner)
    assert not problems_of(Alloc(temporary("T"), inside))
    assert not problems_of(Alloc(temporary("U"), Alloc(temporary("T"), inside)))
    assert problems_of(inside) == ["buffer `T` is not in scope"]
    assert "another type, shape, layout or scope" in problems_of(Alloc(temporary("T", 9), inside))[0]
    again = problems_of(For(i, idx(0), idx(2), "serial", Alloc(temporary("T"), inside)))
    assert again == ["`i` is bound again although an enclosing statement already binds it"]
    constant = dataclasses.replace(temporary("T"), scope="constant")
    assert problems_of(Alloc(constant, inside))
    assert not problems_of(Alloc(temporary("T"), inside))


def test_what_a_block_declares_and_sizes_of_temporaries_are_names_too() -> None:
    region = Region(Buffer("T", dt.float32, (idx(8),)), (idx(0),), (idx(1),))
    block = Block("b", (), (region,), (Region(C, (idx(0),), (idx(1),)),), None, Store(C, (idx(0),), ONE))
    assert not problems_of(Alloc(region.buffer, block))
    assert problems_of(block) == ["buffer `T` is not in scope"]
    sized = Alloc(Buffer("S", dt.float32, (x,)), Store(C, (idx(0),), ONE))
    assert not problems_of(For(x, idx(0), idx(4), "serial", sized))
    assert problems_of(For(j, idx(0), idx(4), "serial", sized)) == ["`x` is not in scope"]
