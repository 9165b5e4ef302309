"""What kernels do besides arithmetic, as whole grids: textures, surfaces, printf, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_programs import run

import weft
from weft.from_cuda import grid_code
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.prints import printed_text
from weft.from_cuda.program import build_program
from weft.from_cuda.unit import read_unit
from weft.ir.errors import UnsupportedError


def test_textures_surfaces_and_printf_are_the_same_as_thread_by_thread(tmp_path: Path) -> None:
    source = Path(__file__).parent / "textures_and_prints.cu"
    (program,) = build_program(read_options([str(source), "-o", str(tmp_path / "program")]))
    found = run(program, WEFT_CUDA_TIMES=str(tmp_path / "times"))
    assert found.stdout == run(program, WEFT_CUDA_SERIAL="1").stdout
    times = (line.split() for line in (tmp_path / "times").read_text().splitlines())
    by_threads = {name: int(threads) for name, _, threads, _ in times if threads != "0"}
    # Bytes that are read as numbers up to 1, and a surface that is read and written by two names, are no whole grids.
    assert by_threads == {"_Z5bytesyPf": 1, "_Z8surfacesyyii": 1}


PRINTS = r"""
#include <cstdio>
__global__ void k(const float *x, int n) {
  int i = threadIdx.x;
  int given = 0;
  if (i < n) given = printf("%d|%-6.2f|%5s|%x|%lld|%c|%%|%+d|%*d|\n", i, x[i], "ab", 255, -1ll << 40, 'x', 3, 4, i);
  __syncthreads();
  if (i == 0) printf("%d\n", given);
}
"""


def test_printf_from_python(capsys: pytest.CaptureFixture[str]) -> None:
    k = weft.cuda.kernel(PRINTS, "k")
    k((1,), (4,), (np.array([1.5, -2.25, 3.125, 0], np.float32), 2))
    lines = [f"{i}|{x:<6.2f}|   ab|ff|{-1 << 40}|x|%|+3|{i:4d}|" for i, x in ((0, 1.5), (1, -2.25))]
    assert capsys.readouterr().out.splitlines() == [*lines, "9"]


def test_what_has_no_room_is_lost() -> None:
    assert printed_text([6, 1, 0, 7, 0, 0, 8], ["%d;"]) == "8;7;"
    assert printed_text([9, 1, 0, 7, 0, 0], ["%d;"]).startswith("7;(more was printed")


def test_strings_that_are_not_spelled_out_are_refused() -> None:
    source = "#include <cstdio>\n__global__ void k(const char *x, int *y) { printf(x); y[0] = 1; }"
    with pytest.raises(weft.UnsupportedError, match="a string that the source does not spell out"):
        weft.cuda.kernel(source, "k").show()


TABLES = """
struct Pair { short a; float b; };
__device__ float look(int i) {
  static const float table[40] = {1, 2.5f, -3, 4, 8};
  static const Pair pairs[10] = {{1, 2.f}, {3, 4.f}};
  return table[i % 6] + pairs[i % 3].a * pairs[i % 2].b;
}
__global__ void k(float *y, int n) {
  static const char name[] = "ab\\n";
  const int rows[9][3] = {{1, 2, 3}, {4, 5}, {n * 0 + 6}};
  constexpr long long few[2] = {7, 8};
  Pair own[5] = {{1, 2.f}, {3, 4.f}};
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float *p = rows[1][1] == 5 ? nullptr : y;
  if (i < n && !p) y[i] = look(i) + name[i % 4] + few[i & 1] + own[i % 3].a;
}
"""


def test_tables_of_constants_are_read_by_all_threads() -> None:
    k = weft.cuda.kernel(TABLES, "k")
    y, i = np.zeros(60, np.float32), np.arange(60)
    k((2,), (32,), (y, 60))
    table, name = np.array([1, 2.5, -3, 4, 8, 0]), np.array([97, 98, 10, 0])
    pairs = np.array([1, 3, 0])[i % 3] * np.array([2.0, 4.0])[i % 2]
    np.testing.assert_array_equal(y, table[i % 6] + pairs + name[i % 4] + 7 + i % 2 + np.array([1, 3, 0])[i % 3])
    text = k.show()
    assert "table: float32[40]" in text
    assert "alloc table" not in text


def test_kernels_too_large_to_wait_for_run_thread_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_code, "MOST_NODES", 10)
    unit = read_unit("__global__ void k(int *x) { x[threadIdx.x] = 2 * x[threadIdx.x] + 1; }", host_too=False)
    with pytest.raises(UnsupportedError, match=r"too large .* whole grid(?s:.*)more than 10"):
        grid_code.compile_grid(unit, "_Z1kPi", "any")
