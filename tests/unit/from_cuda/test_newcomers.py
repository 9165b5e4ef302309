"""What programs of strangers asked for first: patterns that become whole grids, functions of libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_programs import build, run

import weft
from weft.cli.main import main as weft_main

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


DIRECTED = """
#include <cstdio>
__global__ void k(const long long *x, float *f, double *d) {
  int i = threadIdx.x;
  f[9 * i] = __ll2float_rd(x[i]), f[9 * i + 1] = __ll2float_ru(x[i]), f[9 * i + 2] = __ll2float_rz(x[i]);
  int y = (int)x[i];
  f[9 * i + 3] = __int2float_rd(y), f[9 * i + 4] = __int2float_ru(y), f[9 * i + 5] = __int2float_rz(y);
  f[9 * i + 6] = __ull2float_rd(x[i]), f[9 * i + 7] = __ull2float_ru(x[i]);
  f[9 * i + 8] = __uint2float_ru((unsigned)x[i]);
  d[3 * i] = __ll2double_rd(x[i]), d[3 * i + 1] = __ll2double_ru(x[i]), d[3 * i + 2] = __ll2double_rz(x[i]);
}
int main() {
  long long *x, given[] = {VALUES};
  float *f;
  double *d;
  int n = sizeof given / 8;
  cudaMallocManaged(&x, sizeof given), cudaMallocManaged(&f, 36 * n), cudaMallocManaged(&d, 24 * n);
  for (int i = 0; i < n; i++) x[i] = given[i];
  k<<<1, n>>>(x, f, d);
  cudaDeviceSynchronize();
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < 9; j++) printf("%.0f ", f[9 * i + j]);
    for (int j = 0; j < 3; j++) printf("%.0f ", d[3 * i + j]);
  }
}
"""


def test_whole_numbers_become_floats_in_a_direction(tmp_path: Path) -> None:
    values = [0, 1, -1, 16777217, -16777217, 33554435, (1 << 53) + 1, -(1 << 53) - 3, (1 << 62) + 1, 1 - (1 << 63)]
    text = DIRECTED.replace("VALUES", ", ".join(f"{v}ll" for v in values))
    found = [int(x) for x in run(build(tmp_path, ("program.cu", text))).stdout.split()]

    def rounded(x: int, how: str, bits: int) -> int:
        low = max(x.bit_length() - bits, 0)  # of its size: what is kept are multiples of this power
        size = abs(x) >> low << low
        up = size + (1 << low) if size != abs(x) else size
        away = {"rd": x < 0, "ru": x > 0, "rz": False}[how]
        return (up if away else size) * (1 if x >= 0 else -1)

    expected = []
    for v in values:
        small, wide, word = (v + (1 << 31)) % (1 << 32) - (1 << 31), v % (1 << 64), v % (1 << 32)
        expected += [rounded(x, how, 24) for x in (v, small) for how in ("rd", "ru", "rz")]
        expected += [rounded(wide, "rd", 24), rounded(wide, "ru", 24), rounded(word, "ru", 24)]
        expected += [rounded(v, how, 53) for how in ("rd", "ru", "rz")]
    assert found == expected


def test_events_do_not_measure_how_long_code_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "program.cu"  # a path of its own: no code is kept for it
    source.write_text(
        f"#include <cstdio>\n__global__ void k(float *x) {{ x[threadIdx.x] += {len(str(tmp_path))}; }}\n"
        "int main() { float *x, ms; cudaMalloc(&x, 1024); cudaEvent_t a, b; cudaEventCreate(&a), cudaEventCreate(&b);\n"
        "  cudaEventRecord(a); k<<<1, 256>>>(x); cudaEventRecord(b); cudaEventSynchronize(b);\n"
        '  cudaEventElapsedTime(&ms, a, b); printf("%g\\n", ms); }\n'
    )
    assert weft_main(["cuda", "run", str(source)]) == 0
    assert float(capfd.readouterr().out) < 100  # milliseconds: making it takes several hundred
