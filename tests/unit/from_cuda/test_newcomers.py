"""What programs of strangers asked for first: patterns that become whole grids, functions of libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_programs import build, run

import weft

PATTERNS = Path(__file__).with_name("patterns.cu")


def test_patterns_that_were_refused_are_whole_grids(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", PATTERNS.read_text()))
    found = run(program, WEFT_CUDA_TIMES=str(tmp_path / "times"))
    expected = ["-2 12", "496 255 1", "1 38", "39", "2 13 41"]
    assert found.stdout.splitlines() == expected
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.splitlines() == expected
    times = (line.split() for line in (tmp_path / "times").read_text().splitlines())
    assert {name: threads for name, _, threads, _ in times} == dict.fromkeys(
        ("_Z3addv", "_Z6reducePKfPf", "_Z5ticksPl", "_Z8literalsP7double2Pi", "_Z5alignPfS_", "_Z5tablePf"), "0"
    )


def test_a_number_made_from_a_pointer_that_shares_its_memory() -> None:
    text = PATTERNS.read_text()
    source = text[text.index("template <class T> __device__ bool") : text.index("__global__ void table")]
    kernel = weft.cuda.kernel("#include <cstdint>\n" + source, "align")
    memory = np.zeros(16, np.float32)
    start = -memory.ctypes.data // 4 % 4  # where a multiple of 16 bytes begins
    for first, added in ((start, 1), (start + 1, 2)):
        x = memory[first : first + 8]
        x[:] = range(8)
        kernel((1,), (8,), (x, x))
        assert x.tolist() == [i + added for i in range(8)]


LIBRARIES = Path(__file__).with_name("library_types.cu")


def test_functions_of_libraries_that_were_not_there(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", LIBRARIES.read_text()))
    found = run(program)
    assert found.stdout.splitlines() == ["21 1 -2 0.5 448 -3 57344", "0 0 0 0", "15", "15"]
    # What a library does not do is told, once.
    assert found.stderr.splitlines() == [
        "weft: cublasLtMatmul does not support these types, orders or epilogues here: it does nothing and gives "
        "CUBLAS_STATUS_NOT_SUPPORTED (15)"
    ]


def test_threads_that_wait_for_what_others_write(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", Path(__file__).with_name("spinning.cu").read_text()))
    expected = ["116 17", "16 17", "64", "512 8", "255 0", "32640"]
    for threads in ("1", "2"):
        found = run(program, WEFT_CUDA_TIMES=str(tmp_path / "times"), WEFT_NUM_THREADS=threads)
        assert found.stdout.splitlines() == expected
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.splitlines() == expected
    times = (line.split() for line in (tmp_path / "times").read_text().splitlines())
    whole = {name for name, _, threads, _ in times if threads == "0"}
    assert "_Z7countedPVf" in whole
    assert not whole & {"_Z5chainPViPi", "_Z9backwardsPViPi", "_Z10in_a_blockPVi", "_Z4meetPjPiS0_"}


def test_lanes_that_part_and_meet_in_branches_are_whole_grids(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", Path(__file__).with_name("parted_lanes.cu").read_text()))
    found = run(program, WEFT_CUDA_TIMES=str(tmp_path / "times"))
    assert found.stdout.splitlines() == ["1 3 3000", "120 632 2016 0 1", "496"]
    # Thread by thread, volatile accesses of a warp are not in step: its last kernel is left out.
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.splitlines()[:2] == found.stdout.splitlines()[:2]
    times = (line.split() for line in (tmp_path / "times").read_text().splitlines())
    assert {threads for _, _, threads, _ in times} == {"0"}


SHIFTS = """
#include <cstdio>
static const int most = 1 << 31;
__global__ void k(int *x, int n) {
  int t = threadIdx.x, *to = x + 9 * t;
  to[0] = __popc(most >> t);
  to[1] = (1 << 31) >> t;
  to[2] = (1 << (31 - t)) < 0;
  to[3] = (n << t) >> 1;
  to[4] = ((n * 777 + t) << 16) >> 16;
  to[5] = (t << 31) >> 31;
  to[6] = ((t - 40) << 24) >> 28;
  to[7] = (int)((unsigned)most >> t);
  to[8] = ((1 << t) - 1) & 255;
}
int main() {
  int *x;
  cudaMallocManaged(&x, 288 * 4);
  k<<<1, 32>>>(x, 123);
  cudaDeviceSynchronize();
  for (int i = 0; i < 288; i++) printf("%d ", x[i]);
}
"""


def test_ints_shifted_up_to_their_sign(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", SHIFTS))

    def int32(value: int) -> int:
        return (value + (1 << 31)) % (1 << 32) - (1 << 31)

    expected = [
        value
        for t in range(32)
        for value in (
            t + 1, -(1 << 31) >> t, int(t == 0), int32(123 << t) >> 1, int32((123 * 777 + t) << 16) >> 16,
            int32(t << 31) >> 31, int32((t - 40) << 24) >> 28, int32(1 << (31 - t)), (int32(1 << t) - 1) & 255,
        )
    ]  # fmt: skip
    for environment in ({}, {"WEFT_CUDA_SERIAL": "1"}):
        assert [int(x) for x in run(program, **environment).stdout.split()] == expected
