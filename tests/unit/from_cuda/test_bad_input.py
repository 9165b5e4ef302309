"""What cannot be read or run is told in words, with its place: each kind of bad input with all that is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program


def said(source: str) -> list[str]:
    """The lines that tell why a kernel ``k`` cannot be read as a grid."""
    with pytest.raises(weft.Error) as told:
        weft.cuda.kernel(source, "k").show()
    return [line.strip() for line in str(told.value).splitlines() if line.strip(" ^")]


def said_of_program(folder: Path, source: str) -> str:
    (folder / "program.cu").write_text(source)
    with pytest.raises(weft.Error) as told:
        build_program(read_options([str(folder / "program.cu"), "-rdc=true", "-o", str(folder / "program")]))
    return str(told.value).replace(str(folder), "")


def test_syntax_errors() -> None:
    assert said("__global__ void k(int *x) {\n  x[0] = 1\n  y = 2;\n}") == [
        "error: expected ';' after expression",
        "source.cu:2     x[0] = 1",
        "also:  source.cu:3: use of undeclared identifier 'y'",
    ]


def test_headers_that_are_missing_are_named_where_something_of_them_is(tmp_path: Path) -> None:
    assert said('#include "sizes.h"\n__global__ void k(int *x) { x[0] = SIZE; }') == [
        "error: use of undeclared identifier 'SIZE'",
        "source.cu:2     __global__ void k(int *x) { x[0] = SIZE; }",
        "why:   the header `sizes.h` was not found: name its folder by include=[...], or -I",
    ]
    weft.cuda.kernel('#include "of_the_host.h"\n__global__ void k(int *x) { x[0] = 1; }', "k").show()
    told = said_of_program(tmp_path, '#include "sizes.h"\nint main() {}\n')
    assert "error: 'sizes.h' file not found" in told
    assert "/program.cu:1:10: fatal error:" in told


def test_a_trap_ends_a_launch_with_an_error_that_names_its_line() -> None:
    kernel = weft.cuda.kernel("__global__ void k(int *x) {\n  if (x[threadIdx.x] > 2) __trap();\n}", "k")
    kernel((1,), (4,), (np.array([0, 1, 2, 2], np.int32),))
    with pytest.raises(weft.Error, match="the kernel ended itself by __trap") as caught:
        kernel((1,), (4,), (np.arange(4, dtype=np.int32),))
    assert "source.cu:2" in str(caught.value)


def test_goto_is_named_and_what_does_the_same() -> None:
    assert said("__global__ void k(int *x) {\n  if (x[0]) goto end;\n  x[0] = 1;\nend:\n  x[1] = 2;\n}") == [
        "error: kernel `k` cannot be run on a CPU: "
        "`goto`, which whole grids do not have: an `if`, `break` or `return` does the same",
        "source.cu:2     if (x[0]) goto end;",
        "also:  source.cu:4: a label for `goto`",
    ]


def test_all_reasons_are_told_at_once() -> None:
    source = """__device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
    struct Shape { __device__ virtual int sides() const { return 0; } };
    __global__ void k(int *x, const Shape *s) {
      x[0] = f(7);
      x[1] = s->sides();
      asm("mbarrier.init.b64 [%0], 1;" :: "l"(x));
      asm volatile("{\\n\\twgmma.fence.sync.aligned;\\n}" ::: "memory");
    }"""
    first, _, *others = said(source)
    assert first == "error: kernel `k` cannot be run on a CPU: `f` calls itself"
    ptx = ", of which not every instruction is known here"
    assert [o for o in others if o.startswith("also")] == [
        "also:  source.cu:5: the virtual function `sides`",
        f"also:  source.cu:6: the PTX `mbarrier.init.b64 [%0], 1;`{ptx}",
        f"also:  source.cu:7: the PTX `{{ wgmma.fence.sync.aligned; }}`{ptx}",
    ]


def test_what_is_refused_as_a_grid_runs_thread_by_thread() -> None:
    source = "__device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
    x = np.zeros(1, np.int32)
    weft.cuda.kernel(source + "__global__ void k(int *x) { x[0] = f(7); }", "k")((1,), (1,), (x,))
    assert x[0] == 13


def test_kernels_that_launch_kernels(tmp_path: Path) -> None:
    source = "__global__ void a(int *x) {}\n__global__ void k(int *x) {\n  a<<<1, 1>>>(x);\n}\n"
    why = "there are launches in code of the device:"
    assert said(source) == [
        "error: kernels that launch kernels are not supported",
        f"why:   {why} source.cu:3",
        "help:  launch it from the host, or call what it does as a __device__ function",
    ]
    assert f"why:   {why} /program.cu:3\n" in said_of_program(
        tmp_path, source + "int main() { k<<<1, 1>>>(nullptr); }\n"
    )


def test_instructions_that_only_a_gpu_has(tmp_path: Path) -> None:
    source = '__global__ void k(int *x) { asm("mbarrier.init.b64 [%0], 1;" :: "l"(x)); }\nint main() {}\n'
    told = said_of_program(tmp_path, source)
    assert "error: device code has instructions that only a GPU has" in told
    assert "contains the PTX `mbarrier.init.b64 [$0], 1;`" in told
