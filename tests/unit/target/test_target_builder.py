"""The LLVM text builder: what it writes is what LLVM reads."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from weft.ir.dtype import bfloat16, bool_, float16, float32, int8
from weft.target.cpu.builder import Module
from weft.target.cpu.llvm_values import (
    Value,
    bits_of,
    constant,
    element_align,
    element_of,
    lanes_of,
    llvm_type,
    mangled,
    vector,
)


def parse(module: Module) -> str:
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    return str(parsed)


@pytest.mark.parametrize(
    ("type", "element", "lanes", "bits"),
    [("float", "float", 1, 32), ("<16 x float>", "float", 16, 32), ("<4 x i1>", "i1", 4, 1), ("ptr", "ptr", 1, 64)],
)
def test_types_come_apart(type: str, element: str, lanes: int, bits: int) -> None:
    assert (element_of(type), lanes_of(type), bits_of(type)) == (element, lanes, bits)
    assert vector(element, lanes) == type


def test_llvm_types_of_element_types() -> None:
    assert [llvm_type(t) for t in (bool_, int8, float16, bfloat16, float32.with_lanes(8))] == [
        "i1", "i8", "half", "bfloat", "<8 x float>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type", "number", "text"),
    [
        ("float", 0.1, "0x3FB99999A0000000"),
        ("double", 0.1, "0x3FB999999999999A"),
        ("float", 1e39, "0x7FF0000000000000"),
        ("half", 1.5, "0xH3E00"),
        ("bfloat", 1.00390625, "0xR3F80"),
        ("i8", -3, "-3"),
        ("i1", 1, "true"),
        ("<4 x float>", 2.0, "splat (float 0x4000000000000000)"),
    ],
)
def test_constants_are_exact(type: str, number: float, text: str) -> None:
    assert constant(type, number).text == text


def test_loop_with_phi_and_vector_body_is_valid() -> None:
    module = Module()
    b = module.function("scale", "void", [("ptr noalias", "x"), ("i64", "n"), ("<4 x float>", "by")])
    loop, done, before = b.new_label("loop"), b.new_label("done"), b.label
    b.block(loop)
    i = b.phi("i64", [(constant("i64", 0), before)])
    address = b.gep("float", b.argument("x"), i)
    value = b.fma(b.load("<4 x float>", address), b.argument("by"), constant("<4 x float>", 1.0))
    b.store(b.select(b.fcmp("olt", value, constant(value.type, 0.0)), b.fneg(value), value), address)
    following = b.add(i, constant("i64", 4))
    b.add_incoming(i, following, b.label)
    b.cond_branch(b.icmp("slt", following, b.argument("n")), loop, done)
    b.block(done)
    b.ret()
    text = parse(module)
    assert "phi i64 [ 0, %entry ]" in text
    assert "declare <4 x float> @llvm.fma.v4f32" in text


def test_vector_instructions_are_valid() -> None:
    module = Module()
    b = module.function("f", "<8 x i32>", [("float", "x"), ("<4 x double>", "y")])
    wide = b.splat(b.argument("x"), 8)
    halves = b.shuffle(wide, None, [0, 1, 2, -1])
    mixed = b.fadd(b.fpext(halves, "double"), b.argument("y"))
    narrow = b.float_to_integer(b.fptrunc(mixed, "float"), "i32", signed=True)
    b.ret(b.shuffle(narrow, b.insert(narrow, b.extract(narrow, 2), 0), list(range(8))))
    assert "llvm.fptosi.sat.v4i32.v4f32" in parse(module)


def test_calls_to_functions_of_the_module_are_not_declared() -> None:
    module = Module()
    inner = module.function("inner", "i32", [], linkage="internal")
    inner.ret(constant("i32", 3))
    outer = module.function("outer", "i32", [])
    outer.call("memset", "ptr", [outer.alloca("i8", 16), constant("i32", 0), constant("i64", 16)])
    outer.ret(outer.call("inner", "i32", []))
    assert "declare i32 @inner" not in module.text()
    assert "declare ptr @memset(ptr, i32, i64)" in parse(module)


def test_names_of_intrinsics_and_alignment() -> None:
    assert [mangled(t) for t in ("<8 x half>", "double", "<2 x ptr>", "i1")] == ["v8f16", "f64", "v2p0", "i1"]
    assert [element_align(t) for t in ("<8 x float>", "i1", "double", "half")] == [4, 1, 8, 2]


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(KeyError):
        Module().function("f", "void", []).argument("x")


def test_values_print_with_their_type() -> None:
    assert Value("%x", "<2 x float>").typed == "<2 x float> %x"
