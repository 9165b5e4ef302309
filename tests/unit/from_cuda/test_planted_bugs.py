"""Programs with one mistake each, which is found and of the right kind; without it nothing is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.cli.main import main as weft_main
from weft.from_cuda.check_program import run_watched
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program

PLANTED = sorted((Path(__file__).parent / "planted").glob("*.cu"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them as one program, each with its mistake and without: the first argument says which one runs."""
    folder = tmp_path_factory.mktemp("planted")
    parts, cases = ["#include <cassert>\n#include <cooperative_groups.h>\n#include <cstdlib>\n"], []
    for number, file in enumerate(PLANTED):
        for bug in (0, 1):
            parts.append(f'#define BUG {bug}\nnamespace {file.stem}_{bug} {{\n#include "{file}"\n}}\n#undef BUG\n')
            cases.append(f"  case {2 * number + bug}: {file.stem}_{bug}::run(); break;\n")
    main = f"int main(int, char **which) {{\n  switch (atoi(which[1])) {{\n{''.join(cases)}  }}\n}}\n"
    (folder / "planted.cu").write_text("".join(parts) + main)
    options = read_options([str(folder / "planted.cu"), "-o", str(folder / "planted")])
    options.watched = True
    (built,) = build_program(options, ahead=False)
    return built


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=[p.stem for p in PLANTED])
def test_a_planted_bug_is_found_and_its_twin_is_silent(program: Path, number: int) -> None:
    file = PLANTED[number]
    kind = file.read_text().splitlines()[0].removeprefix("// ")
    code, found = run_watched(program, [str(2 * number)], os.environ)
    assert (code, [str(f) for f in found]) == (0, [])
    code, found = run_watched(program, [str(2 * number + 1)], os.environ)
    assert code == 0
    assert kind in {f.kind for f in found}, "\n\n".join(map(str, found))
    named = {p.span.source.name for f in found if f.kind == kind for p in f.parties if p.span}
    assert str(file) in named, "no line of the source is named"


def test_the_command_reports_writes_a_page_and_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "sum.cu"
    source.write_text(
        "__global__ void add(int *sum) { *sum += 1; }\n"
        "int main(int n, char **) {\n"
        "  int *s; cudaMalloc(&s, 4), cudaMemset(s, 0, 4); add<<<1, n>>>(s); cudaFree(s); return 3;\n}\n"
    )
    page = tmp_path / "report.html"
    assert weft_main(["cuda", "check", str(source), "--html", str(page), "--", "more"]) == 1
    told = capfd.readouterr().err
    assert (
        "race: two threads access byte 0 of an allocation of 4 bytes, and nothing orders them (in kernel `add`)" in told
    )
    assert f"{source}:1  __global__ void add(int *sum) {{ *sum += 1; }}" in told
    assert "(block (0,0,0), thread (1,0,0)) reads it" in told
    assert "(block (0,0,0), thread (0,0,0)) writes it" in told
    assert "<mark>    1  __global__ void add" in page.read_text()
    assert weft_main(["cuda", "check", str(source)]) == 3
    assert weft_main(["cuda", "check", str(source), "--ignore", "race", "--", "more"]) == 3


def test_textures_and_atomics_that_change_nothing_are_silent(tmp_path: Path) -> None:
    source = tmp_path / "silent.cu"
    source.write_text("""
texture<float, 1, cudaReadModeElementType> table;
__global__ void fetch(float *y, unsigned *z) {
  y[threadIdx.x] = tex1Dfetch(table, threadIdx.x);
  if (threadIdx.x >= 32) z[threadIdx.x % 32] = threadIdx.x + 1;
  else atomicOr(&z[threadIdx.x % 32], threadIdx.x & 0u);
}
int main() {
  float *x, *y;
  unsigned *z;
  cudaMalloc(&x, 256), cudaMalloc(&y, 256), cudaMalloc(&z, 128), cudaMemset(x, 0, 256), cudaMemset(z, 0, 128);
  cudaBindTexture(0, table, x, 256);
  fetch<<<1, 64>>>(y, z);
  cudaUnbindTexture(table);
  cudaFree(x), cudaFree(y), cudaFree(z);
}
""")
    assert weft_main(["cuda", "check", str(source)]) == 0


def test_calls_that_fail_are_named_where_the_program_made_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "calls.cu"
    source.write_text("""
__constant__ float weights[2];
template <typename T> __global__ void k(T *x) {}
int main() {
  float h[4];
  k<float><<<1, 2000>>>(nullptr);
  cudaMemcpyToSymbol(weights, h, 16);
}
""")
    assert weft_main(["cuda", "check", str(source)]) == 1
    told = capfd.readouterr().err
    assert "a launch gives cudaErrorInvalidConfiguration" in told
    assert f"{source}:6  k<float><<<1, 2000>>>(nullptr);" in told
    assert "`cudaMemcpyToSymbol` gives cudaErrorInvalidValue" in told
    assert f"{source}:7  cudaMemcpyToSymbol(weights, h, 16);" in told


SEVERAL = """
__global__ void turn(float *x) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  if (t < 40) __syncthreads();
  x[t] = s[63 - t];
}
__global__ void wait(volatile int *x) {
  while (*x == 0) ;
}
int main(int n, char **) {
  float *x;
  cudaMalloc(&x, 256);
  cudaMemset(x, 0, 256);
  turn<<<1, 64>>>(x);
  if (n > 1)
    wait<<<1, 1>>>((int *)x + 5);
  for (int i = 0; i < 3; i++) {
    float *y;
    cudaMalloc(&y, 100);
  }
  cudaFree(x);
}
"""


def test_causes_come_first_and_leaks_of_a_line_are_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "several.cu"
    source.write_text(SEVERAL)
    assert weft_main(["cuda", "check", str(source)]) == 1
    parts = capfd.readouterr().err.split("\n\n")
    assert [part.split(":")[0] for part in parts[1:]] == ["divergent barrier", "race", "leak"]
    assert parts[-1].startswith("leak: 300 bytes in 3 pieces of device memory are never freed\n")
    assert f"{source}:21" in parts[-1]
    assert "more like it" not in parts[-1]


def test_a_kernel_that_does_not_end_says_where_it_was(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "several.cu"
    source.write_text(SEVERAL)
    assert weft_main(["cuda", "check", str(source), "--timeout", "2", "--ignore", "race", "--", "wait"]) == 1
    told = capfd.readouterr().err
    assert "ended with exit code 124" in told
    assert (
        "endless loop: the kernel does not end: this is where one of its threads was after 2 s (in kernel `wait`)"
        in told
    )
    for line in ("while (*x == 0)", "wait<<<1, 1>>>"):  # where it reads, and where it was launched
        assert f"{source}:{1 + SEVERAL[: SEVERAL.index(line)].count(chr(10))} " in told
