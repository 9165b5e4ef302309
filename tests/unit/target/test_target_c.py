"""The C target: its text, and that built programs do what the interpreter says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_compiled import Runner, check_against_interpreter, needs_c_compiler

import weft
from weft.ir.errors import Error, TargetError
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.target.c.lower import emit_kernel
from weft.target.c.toolchain import find_compiler
from weft.target.cpu.host import NAMED

AVX2 = NAMED["x86-64-avx2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES = [*INTEGERS, "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "bool"]
MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def body_of(text: str, name: str) -> str:
    start = text.index(f"int32_t {name}_kernel(")
    return text[start : text.index("\n}\n", start) + 2]


def test_text_reads_like_the_loop_program() -> None:
    kernel = parse_kernel(
        "kernel scale(X: float32[n, 8], s: float32, out Y: float32[n, 8], n: int64) {\n"
        "  parallel row in 0:n {\n"
        "    vector lane in 0:8 { Y[row, lane] = X[row, lane] * s }\n"
        "  }\n"
        "}"
    )
    assert body_of(emit_kernel(kernel, AVX2), "scale") == (
        "int32_t scale_kernel(const float *restrict X, float s, float *restrict Y, long long n, "
        "long long *weft_record) {\n"
        "  (void)weft_record;\n"
        "  // <text>:2: parallel row in 0:n {\n"
        "  #pragma omp parallel for schedule(static)\n"
        "  for (long long row = 0; row < n; ++row) {\n"
        "    // <text>:3: vector lane in 0:8 { Y[row, lane] = X[row, lane] * s }\n"
        "    #pragma omp simd\n"
        "    for (long long lane = 0; lane < 8; ++lane) {\n"
        "      Y[row * 8 + lane] = X[row * 8 + lane] * s;\n"
        "    }\n"
        "  }\n"
        "  return 0;\n"
        "}"
    )


@needs_c_compiler
@pytest.mark.parametrize("numerics", ["strict", "fast"])
def test_the_file_builds_alone(tmp_path: Path, numerics: Any) -> None:
    """As its first line says, with no warning of a usual compiler."""
    text = weft.define(MATMUL, numerics=numerics).show("c", np.ones((40, 30), "f4"), np.ones((30, 50), "f4"))
    (tmp_path / "mm.c").write_text(text)
    flags = ["-O3", "-march=native", "-fopenmp", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-c", "mm.c", "-o", "mm.o"]
    done = subprocess.run([*find_compiler(), *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_c_compiler
@pytest.mark.parametrize("source", TYPES)
def test_conversions(source: str) -> None:
    outputs = [(f"Y{n}", name) for n, name in enumerate(TYPES)]
    params = ", ".join(f"out {y}: {name}[97]" for y, name in outputs)
    casts = " ".join(f"{y}[i] = {name}(X[i])" for y, name in outputs)
    check_against_interpreter(f"kernel k(X: {source}[97], {params}) {{ for i in 0:97 {{ {casts} }} }}", target="c")


@needs_c_compiler
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operations_are_total(name: str) -> None:
    ops = ["+", "-", "*", "//", "%", "tdiv", "tmod", "<<", ">>", "&", "|", "^", "min", "max"]
    lines = [f"Y[{n}, i] = {_apply(op)}" for n, op in enumerate(ops)]
    kernel = parse_kernel(
        f"kernel k(A: {name}[81], B: {name}[81], out Y: {name}[16, 81]) {{ for i in 0:81 {{"
        f" {' '.join(lines)} Y[14, i] = -A[i] Y[15, i] = popcount(A[i]) }} }}"
    )
    info = np.iinfo(name)
    values = np.array([0, 1, 2, 3, 7, info.max, info.min, info.max - 1, info.min // 2], name)
    left, right = np.repeat(values, 9), np.tile(values, 9)
    check_against_interpreter(kernel, args=[left, right, np.zeros((16, 81), name)], target="c")


def _apply(op: str) -> str:
    return f"{op}(A[i], B[i])" if op.isalpha() else f"A[i] {op} B[i]"


@needs_c_compiler
@pytest.mark.parametrize("name", TYPES)
def test_atomics(name: str) -> None:
    """Elements updated by every iteration of parallel loops; sums of small whole numbers are exact."""
    bits = "" if "float" in name or name == "bool" else "atomic Y[3] &= X[i] atomic Y[4] |= X[i] atomic Y[5] ^= X[i]"
    sums = "" if name == "bool" else "atomic Y[0] += X[i]"
    kernel = parse_kernel(
        f"kernel k(X: {name}[50], out Y: {name}[8]) {{ parallel i in 0:50 {{ {sums} atomic Y[1] min= X[i]"
        f" atomic Y[2] max= X[i] {bits} atomic Y[6] exchange= X[49] atomic Y[7] cas= X[49] if X[0] }} }}"
    )
    x = (np.arange(50) % 4 == 1).astype(to_numpy(kernel.buffers[0].dtype))
    check_against_interpreter(kernel, args=[x, np.zeros(8, x.dtype)], target="c")


@needs_c_compiler
def test_a_failed_assert_returns_its_number_and_values() -> None:
    kernel = parse_kernel(
        "kernel k(I: int64[n], out Y: float32[n], n: int64) {"
        ' parallel i in 0:n { assert I[i] >= 0 && I[i] < 10, "index {0} at {1}", I[i], i }'
        " alloc T: float32[n] { for i in 0:n { T[i] = 1.0 } for i in 0:n {"
        ' assert I[i] != 5, "five at {0}", i Y[i] = T[i] } } }'
    )
    runner = Runner(kernel, target="c")
    indices, out = np.arange(5), np.zeros(5, np.float32)
    assert runner(indices, out, 5) == 0
    assert out.tolist() == [1.0] * 5
    assert runner(np.array([1, 2, 77, 3, 4]), out, 5) == 1
    assert runner.record[:2].tolist() == [77, 2]
    assert runner(np.array([1, 5, 5, 3, 4]), out, 5) == 2
    assert runner.record[0] == 1


@needs_c_compiler
@pytest.mark.parametrize(
    "text",
    [
        # A temporary on the heap, and one that is not there at once.
        "kernel k(X: float32[n], out Y: float32[n], n: int64) { alloc T: float32[n, 3000] {"
        " parallel i in 0:n { for j in 0:3000 { T[i, j] = X[i] + float32(j) } }"
        " for i in 0:n { Y[i] = T[i, 2999] } } }",
        # Early ends, of loops and of the kernel.
        "kernel k(X: int32[40], out Y: int32[40]) { alloc T: int32[40, 4000] { for i in 0:40 { T[i, 0] = X[i]"
        " if X[i] < 0_i32 { continue } Y[i] = T[i, 0] if X[i] > 1000_i32 { return } } } }",
        "kernel k(X: int32[40], out Y: int32[40]) { let n: int64 = 0 { while n < 9 { Y[n] = X[n] n = n + 2 } } }",
        # GPU form: blocks, threads, memory that they share, barriers, a thread that returns.
        "kernel k(X: float32[100], out Y: float32[100]) { block b in 0:4 { alloc S: float32[32] in shared {"
        " thread t in 0:32 { if b * 32 + t < 100 { S[t] = X[b * 32 + t] } barrier(block)"
        " if b * 32 + t >= 100 { return } Y[b * 32 + t] = S[t // 4 * 4] + S[0] } } } }",
        "kernel k(X: float16[64], s: bfloat16, out Y: bfloat16[64]) { alloc T: float16[8] in register {"
        " for i in 0:8 { vector j in 0:8 { T[j] = X[i * 8 + j] * float16(s) }"
        " vector j in 0:8 { Y[i * 8 + j] = bfloat16(T[j]) + s } } } }",
    ],
)
def test_programs(text: str) -> None:
    check_against_interpreter(text, target="c")


@needs_c_compiler
def test_memory_that_is_not_there() -> None:
    kernel = parse_kernel(
        "kernel k(X: float32[4], out Y: float32[4], n: int64) { parallel i in 0:4 { alloc T: float32[n] {"
        " T[n - 1] = 1.0 T[0] = X[i] Y[i] = T[n - 1] } } }"
    )
    assert Runner(kernel, target="c")(np.zeros(4, np.float32), np.zeros(4, np.float32), 1 << 59) == -1


@needs_c_compiler
def test_operators_and_kernels_run_as_c() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((65, 33), np.float32), rng.standard_normal((33, 70), np.float32)
    mm = weft.define(MATMUL, target="c")
    for _ in range(4):  # compiled, then through the fast call
        np.testing.assert_allclose(mm(a, b), a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mm.bind(B=b)(a), mm(a, b))
    assert "#pragma omp parallel for" in mm.show("c", a, b)
    assert "#include" in mm.with_schedule("naive").show("c", a, b)
    look = weft.define("def look(float(N) X, int32(M) I) -> (Y) { Y(i) = X(I(i)) }", target="c")
    with pytest.raises(Error, match=r"I\[2\] = 9, but X has 4 elements"):
        look(a[0, :4].copy(), np.int32([0, 1, 9]))
    twice = weft.kernel(
        "kernel t(X: float32[8], out Y: float32[8]) { for i in 0:8 { Y[i] = X[i] + X[i] } }", target="c"
    )
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    twice(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    x = np.ones(3, np.float32)
    op = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }", target="c")
    with pytest.raises(TargetError) as caught:
        op(x)
    assert str(caught.value) == (
        "error: the C target needs a C compiler, and there is none\n"
        "  why:   looked for cc, gcc, clang on PATH\n"
        "  help:  install gcc or clang, or set CC to a compiler"
    )
    assert "#include" in op.show("c", x)  # text needs none
    monkeypatch.setenv("CC", "nocc -x")
    with pytest.raises(TargetError, match="CC=nocc -x is not a command"):
        op(x)


@needs_c_compiler
def test_the_compiler_that_cc_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    assert shutil.which("cc") is None or find_compiler() == [shutil.which("cc")]
    real = find_compiler()[0]
    monkeypatch.setenv("CC", f"{real} -DWEFT=1")
    assert find_compiler() == [real, "-DWEFT=1"]
    assert weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) + 1 }", target="c")(np.ones(3, np.float32))[0] == 2


def test_arrays_elsewhere_are_refused() -> None:
    op = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }", target="cuda")
    with pytest.raises(Error) as caught:
        op(np.ones(3, np.float32))
    assert str(caught.value) == (
        'error: f is for target="cuda", and its arrays are on `cpu`\n'
        "  why:   such code takes arrays on a `cuda` device\n"
        "  help:  pass arrays that are there, or leave target= out to run where the arrays are"
    )
