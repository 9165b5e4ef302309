"""What kernels do besides arithmetic, as whole grids: textures, surfaces, printf, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_programs import run

import weft
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.prints import printed_text
from weft.from_cuda.program import build_program


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
