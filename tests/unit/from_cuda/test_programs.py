"""Whole CUDA programs: built, run, and what they print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.cli.main import main as weft_main
from weft.from_cuda.context import Launch
from weft.from_cuda.device_text import to_threads
from weft.from_cuda.grid_code import compile_grid
from weft.from_cuda.kept_code import KeptCode
from weft.from_cuda.kept_launches import known_launches
from weft.from_cuda.launches_text import join_brackets
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import run_program
from weft.from_cuda.translate import translate
from weft.from_cuda.unit import read_unit
from weft.ir.errors import ArgumentError, LanguageError, UnsupportedError
from weft.runtime.store import Artifact
from weft.target.cpu.lower import emit_kernel

FEATURES = r"""
#include <cstdio>
#include <vector>
__constant__ float scale[2] = {2.0f, 3.0f};
__device__ int counter;
__managed__ int managed = 4;
texture<float, 1, cudaReadModeElementType> table;
struct Item { float x; int y; double z; };
__host__ __device__ int larger(int a, int b) { return a > b ? a : b; }
__host__ __device__ int weighted(int i) {  // each side has its own
  static const int weights[] = {10, 20, 30};
  static int calls, sums[2];
  return sums[1] += weights[i] + ++calls;
}

template <typename T> __global__ void reduce(const T *x, T *out, int n) {
  extern __shared__ T part[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] * scale[1] : T(0);
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]), atomicAdd(&counter, 1);
}
__global__ void sum_warps(int *out) {
  int v = threadIdx.x;
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;
  if (__ballot_sync(~0u, threadIdx.x & 1) != 0xaaaaaaaau) out[0] = -1;
  unsigned few = __ballot_sync(~0u, threadIdx.x < 8);
  int w = 1;
  if (threadIdx.x < 8)  // lanes that are not there add nothing
    for (int d = 16; d; d >>= 1) w += __shfl_down_sync(few, w, d);
  if (threadIdx.x == 0) out[2] = w;
}
__global__ void by_value(bool yes, Item item, short s, int *out) { out[0] = larger(managed++, s) + yes + item.y; }
__global__ void open_in_c(int by, float large, int *out) {
  out[0] = (1 << by) - 1, out[1] = -8 >> by, out[2] = (int)large;
}
__global__ void weigh(int *out) { weighted(1), *out = weighted(2); }
__global__ void fetch(float *out) { out[threadIdx.x] = tex1Dfetch(table, threadIdx.x) + 0.5f; }

int main() {
  int n = 1000, c, *w;
  std::vector<float> h(n, 1.0f);
  float *d, *o, r, ms;
  cudaMalloc(&d, n * 4), cudaMalloc(&o, 64), cudaMemset(o, 0, 64), cudaMalloc(&w, 64);
  cudaMemcpy(d, h.data(), n * 4, cudaMemcpyHostToDevice);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  cudaEventRecord(begin);
  reduce<<<4, 256, 256 * 4>>>(d, o, n);
  cudaEventRecord(end), cudaEventElapsedTime(&ms, begin, end);
  cudaMemcpy(&r, o, 4, cudaMemcpyDeviceToHost);
  cudaMemcpyFromSymbol(&c, counter, 4);
  printf("reduce %g %d %d\n", r, c, ms >= 0);
  sum_warps<<<1, 64>>>(w);
  printf("warps %d %d %d\n", w[0], w[1], w[2]);
  managed = 5;
  by_value<<<1, 1>>>(true, Item{1, 7, 2}, 3, w);
  printf("value %d %d\n", w[0], managed);
  open_in_c<<<1, 1>>>(32, 1e20f, w);
  printf("open %d %d %d\n", w[0], w[1], w[2]);
  weigh<<<1, 1>>>(w);
  printf("static %d %d\n", w[0], weighted(0));
  cudaBindTexture(0, table, d, n * 4);
  fetch<<<1, 4>>>(o);
  printf("texture %g\n", o[3]);
  reduce<<<4, 2000>>>(d, o, n);
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  printf("%s\n", cudaGetErrorName(cudaMemcpyToSymbol(scale, h.data(), 12)));
}
"""


def build(folder: Path, *files: tuple[str, str], options: tuple[str, ...] = ()) -> Path:
    for name, text in files:
        (folder / name).write_text(text)
    given = [str(folder / name) for name, _ in files]
    (program,) = build_program(read_options([*options, *given, "-o", str(folder / "program")]))
    return program


def run(program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("features"), ("features.cu", FEATURES))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_program_of_many_features(features: Path, threads: str) -> None:
    assert run(features, WEFT_NUM_THREADS=threads).stdout.splitlines() == [
        "reduce 3000 4 1", "warps 496 1520 8", "value 13 6", "open -1 -1 2147483647", "static 53 11", "texture 1.5",
        "invalid configuration argument",
        "cudaErrorInvalidValue",
    ]  # fmt: skip


def test_units_share_nothing_but_what_c_shares(tmp_path: Path) -> None:
    unit = """
#include <cstdio>
static __device__ int value = START;
static __global__ void show() { printf("%s %d\\n", NAME, value++); }
extern "C" void NAMED() { show<<<1, 1>>>(), show<<<1, 1>>>(), cudaDeviceSynchronize(); }
"""
    one = f'#define START 1\n#define NAME "one"\n#define NAMED one\n{unit}'
    two = f'#define START 5\n#define NAME "two"\n#define NAMED two\n{unit}'
    main = "void one(void); void two(void); int main(void) { one(); two(); return 0; }"
    program = build(tmp_path, ("one.cu", one), ("two.cu", two), ("main.c", main))
    assert run(program).stdout.split() == ["one", "1", "one", "2", "two", "5", "two", "6"]


def test_guard_pages_stop_what_is_out_of_bounds(tmp_path: Path) -> None:
    text = """
__global__ void past(char *x, int n) { x[n + threadIdx.x] = 1; }
int main() { char *x; cudaMalloc(&x, 64); past<<<1, 1>>>(x, 64); return 0; }
"""
    program = build(tmp_path, ("past.cu", text))
    assert run(program).returncode == 0
    stopped = run(program, WEFT_CUDA_GUARD="1")
    assert stopped.returncode < 0
    assert re.search(r"kernel `past` touches .*, 0 bytes behind the end of an allocation of 64", stopped.stderr)


def test_syntax_errors_are_clangs_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match=r"(?s)undeclared.*wrong\.cu:2:36: error:"):
        build(tmp_path, ("wrong.cu", "\n__global__ void k(int *x) { x[0] = y; }\nint main() {}\n"))


def test_openmp_in_a_cuda_source_links_with_the_systems_library(tmp_path: Path) -> None:
    loop = "#pragma omp parallel for reduction(+ : sum)\n  for (int i = 0; i < 64; i++) sum += i;\n"
    text = f"#include <omp.h>\nint main() {{\n  int sum = 0;\n{loop}  return sum - 2016 + !omp_get_max_threads();\n}}\n"
    program = build(tmp_path, ("loop.cu", text), options=("-Xcompiler", "-fopenmp"))
    subprocess.run([program], check=True)


def test_libraries_that_are_not_there_are_named(tmp_path: Path) -> None:
    for name in ("solver.cu", "solver.cpp"):  # clang and the system's compiler say it differently
        with pytest.raises(UnsupportedError, match=rf"(?s)cuSOLVER is not there.*{name}:2 includes `cusolverDn\.h`"):
            build(tmp_path, (name, "\n#include <cusolverDn.h>\nint main() {}\n"))


def test_kernels_that_launch_kernels_are_refused(tmp_path: Path) -> None:
    text = "__global__ void a() {}\n__global__ void b() { a<<<1, 1>>>(); }\nint main() { b<<<1, 1>>>(); }\n"
    with pytest.raises(UnsupportedError, match=r"(?s)launch kernels are not supported.*nested\.cu:2"):
        build(tmp_path, ("nested.cu", text), options=("-rdc=true",))


def test_instructions_of_a_gpu_are_refused() -> None:
    text = 'define ptx_kernel void @k(ptr %0) {\n  call void asm sideeffect "bar.sync 0;", ""()\n  ret void\n}\n'
    with pytest.raises(UnsupportedError, match=r"`k` contains the PTX `bar.sync 0;`"):
        to_threads(text, "u0", "s0", "")


def test_debuggers_find_lines_of_kernels() -> None:
    unit = "!1 = distinct !DICompileUnit(emissionKind: DebugDirectivesOnly)"
    text = f"define ptx_kernel void @k() {{\n  ret void\n}}\n{unit}\n"
    assert "emissionKind: FullDebug" in to_threads(text, "u0", "s0", "").text


LINES = """__global__ void lines(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = x[i] * 2;
}
int main() {}
"""


def test_machine_code_of_whole_grids_has_lines_where_they_are_asked_for() -> None:
    unit = read_unit(LINES, "lines.cu")
    ((name, _),) = unit.kernels.items()
    with_lines, without = (compile_grid(unit, name, "64 1 1 0 1 1 0", flags) for flags in (["-g"], []))
    assert b".debug_line" in with_lines.object
    assert b".debug_line" not in without.object
    text = emit_kernel(translate(unit, unit.kernels[name], Launch()).kernel, shown_as="lines")
    assert "!DILocation(line: 4," in text
    assert 'DISubprogram(name: "lines"' in text
    bodies = re.findall(r"^define [^\n]* !dbg !\d+ \{$(.*?)^\}$", text, re.MULTILINE | re.DOTALL)
    instructions = [line for body in bodies for line in body.splitlines() if line.startswith("  ")]
    assert instructions
    assert all("!dbg" in line or "alloca" in line for line in instructions)


def test_debuggers_get_kernels_as_they_are_written(tmp_path: Path) -> None:
    """With -G: threads one by one, not optimized, variables and shared memory known."""
    (tmp_path / "lines.cu").write_text(LINES)
    options = read_options(["-G", str(tmp_path / "lines.cu"), "-o", str(tmp_path / "lines")])
    assert options.units == {}
    (program,) = build_program(options)
    assert b".debug_info" in program.read_bytes()
    expression = "!DIExpression(DW_OP_constu, 8, DW_OP_swap, DW_OP_xderef)"
    made = to_threads(f"define ptx_kernel void @k() {{\n  ret void\n}}\n!1 = {expression}\n", "u0", "s0", "")
    assert "!1 = !DIExpression()" in made.text


def test_options_of_nvcc() -> None:
    given = "-O3 -arch=sm_70 -gencode arch=compute_80,code=sm_80 -I inc -Iother -DN=4 -std=c++14 -lcublas -lz"
    options = read_options([*given.split(), "-Xcompiler", "-fopenmp,-Wall", "a.cu", "b.o", "-o", "out"])
    assert options.compile == ["-O3", "-Iinc", "-Iother", "-DN=4", "-std=c++14", "-fopenmp", "-Wall"]
    assert options.link == ["-lz", "-fopenmp"]
    assert [str(f) for f in options.files] == ["a.cu", "b.o"]
    with pytest.raises(ArgumentError, match="unknown options: --pty -rob"):
        read_options(["--pty", "a.cu", "-Xptxas", "-v", "-rob"])


def test_launches_written_with_spaces_are_read_as_nvcc_reads_them() -> None:
    assert join_brackets("k << < a, f(b) >> > (x);") == "k <<<  a, f(b) >>>  (x);"
    templates = "A<B<C<int>> >(x); std::operator<< <char>(s);"
    assert join_brackets(templates) == templates


SHARED_MEMORY = r"""
#include <cstdio>
__constant__ int step;
__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + step * b[i];
}
int main() {
  int n = 5000, one = 1;
  float *a, *b;
  cudaMallocManaged(&a, n * 4), cudaMallocManaged(&b, n * 4);
  cudaMemcpyToSymbol(step, &one, sizeof one);
  for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
  add<<<(n + 255) / 256, 256>>>(a, b, b, n);
  printf("%g\n", b[1000]);
  add<<<(n + 255) / 256, 256>>>(a, a, a, n);
  printf("%g\n", a[1000]);
  add<<<1, 96>>>(a, b, a + 1000, 90);
  printf("%g %g\n", a[1089], a[1090]);
}
"""


GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdio>
namespace cg = cooperative_groups;
__global__ void tiles(int *out, half *h, nv_bfloat16 *b) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
  if (tile.thread_rank() == 0) out[threadIdx.x / 8] = sum + tile.meta_group_rank() * 1000;
  h[threadIdx.x] = __hfma(half(0.5f), half((float)threadIdx.x), __float2half(1.0f));
  b[threadIdx.x] = __float2bfloat16(threadIdx.x * 1.01f);
}
__global__ void parted(int *x, int *count) {
  if (threadIdx.x % 3 == 0) {  // each warp's lanes that are here add to the count at once
    cg::coalesced_group here = cg::coalesced_threads();
    int before = 0;
    if (here.thread_rank() == 0) before = atomicAdd(count, here.size());
    x[here.shfl(before, 0) + here.thread_rank()] = threadIdx.x;
  }
}
__global__ void turn(int *x, int n) {
  auto grid = cg::this_grid();
  for (int k = 0; k < 3; k++) {
    int i = grid.thread_rank(), v = x[(i + 1) % n];
    grid.sync();
    x[i] = v + 1;
    grid.sync();
  }
}
int main() {
  int *o, *x, n = 64;
  half *h;
  nv_bfloat16 *b;
  cudaMallocManaged(&o, 64), cudaMallocManaged(&h, 64), cudaMallocManaged(&b, 64), cudaMallocManaged(&x, 4 * n);
  tiles<<<1, 32>>>(o, h, b);
  printf("%d %d %g %g\n", o[0], o[3], (float)h[7], (float)b[9]);
  o[0] = 0;
  parted<<<1, 40>>>(x, o);
  printf("%d %d %d %d\n", o[0], x[0], x[10], x[13]);
  for (int i = 0; i < n; i++) x[i] = i;
  void *arguments[] = {&x, &n};
  cudaLaunchCooperativeKernel(turn, dim3(4), dim3(16), arguments);
  printf("%d %d\n", x[0], x[63]);
}
"""


def test_groups_of_threads_and_floats_of_16_bits(tmp_path: Path) -> None:
    said = run(build(tmp_path, ("groups.cu", GROUPS))).stdout.splitlines()
    assert said == ["28 3220 4.5 9.0625", "14 0 30 39", "6 5"]


USUAL = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cufft.h>
namespace cg = cooperative_groups;
#if CUDART_VERSION >= 11000
template <int N> __device__ int halved(cg::thread_block_tile<N> tile, int v) {
  for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
  return cg::reduce(tile, v, cg::greater<int>());
}
#endif
template <unsigned N> __device__ int crossed(const cg::thread_block_tile<N> &tile, int v) {
  for (unsigned d = N / 2; d; d /= 2) v += tile.shfl_xor(v, d);
  return v;
}
__global__ void groups(int *out) {
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto few = cg::tiled_partition<4>(warp);
  out[threadIdx.x] = halved(warp, threadIdx.x) + 100 * crossed(few, threadIdx.x) + halved<4>(few, 0);
}
__global__ void narrow(const float *x, half *h, __nv_bfloat16 *b, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) h[i] = __hsub(__float2half_ru(x[i]), __float2half_rd(x[i])), b[i] = __float2bfloat16_rz(x[i]);
}
template <typename T> __global__ void twice(T *x) { x[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x]; }
__global__ void swap(cufftComplex *x) { x[threadIdx.x] = make_cuComplex(x[threadIdx.x].y, x[threadIdx.x].x); }
__global__ void count(unsigned *x) { atomicInc_system(x, 9); }
struct Many { int v[300]; };
__global__ void add_up(__grid_constant__ const Many many, int *out) {
  int sum = 0;
  for (int i = 0; i < 300; i++) sum += many.v[i];
  *out = sum;
}
int main() {
  int *o;
  float *x;
  half *h;
  __nv_bfloat16 *b;
  cufftComplex *c;
  cudaMallocManaged(&o, 128), cudaMallocManaged(&x, 64), cudaMallocManaged(&h, 64), cudaMallocManaged(&b, 64);
  cudaMallocManaged(&c, 64);
  groups<<<1, 32>>>(o);
  printf("%d %d\n", o[0], o[31]);
  for (int i : {0, 1, 2}) x[i] = 1.1f - 1.1f * i, c[i].x = i, c[i].y = 5;
  narrow<<<1, 32>>>(x, h, b, 3u);
  twice<<<1, 3>>>(h), twice<<<1, 3>>>(b), swap<<<1, 3>>>(c);
  printf("%.8g %g %.8g %g %.8g\n", (float)h[0], (float)h[1], (float)h[2], (float)b[0], (float)b[2]);
  Many many;
  for (int &v : many.v) v = 2;
  add_up<<<1, 1>>>(many, o);
  o[1] = 0;
  count<<<1, 12>>>((unsigned *)o + 1);
  printf("%g %g %d %d\n", c[2].x, c[2].y, o[0], o[1]);
  int grid, block;
  size_t room;
  cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, groups, [](int n) { return (size_t)n * 128; });
  cudaOccupancyAvailableDynamicSMemPerBlock(&room, groups, 2, 256);
  cudaLaunchAttribute together[1] = {};
  together[0].id = cudaLaunchAttributeCooperative, together[0].val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 12, config.attrs = together, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, count, (unsigned *)o + 1);
  printf("%d %d %d\n", block <= 384 && block >= 32, (int)(room >> 10) >= 24, o[1]);
}
"""


def test_what_programs_usually_write_runs_as_whole_grids(tmp_path: Path) -> None:
    program = build(tmp_path, ("usual.cu", USUAL))
    expected = ["1592 12792", "0.001953125 0 0.001953125 2.1875 -2.1875", "5 2 600 2", "1 1 4"]
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.splitlines() == expected
    with (tmp_path / "out").open("w+") as output:
        units = read_options([str(tmp_path / "usual.cu")]).units
        code, refused = run_program(program, [], units, os.environ, output=output)
    assert (code, refused) == (0, {})
    assert (tmp_path / "out").read_text().splitlines() == expected


LIBRARIES = r"""
#include <cstdio>
#include <cublas_v2.h>
#include <curand_kernel.h>
__global__ void draw(unsigned *out, float *f) {
  curandStatePhilox4_32_10_t p;
  curand_init(0, 0, 0, &p);
  for (int i = 0; i < 4; i++) out[i] = curand(&p);
  curandState a, b;
  curand_init(7, 3, 5, &a), curand_init(7, 3, 0, &b);
  for (int i = 0; i < 5; i++) curand(&b);
  out[4] = curand(&a) == curand(&b);
  f[0] = f[1] = 0;
  for (int i = 0; i < 2000; i++) f[0] += curand_uniform(&a) / 2000;
  for (int i = 0; i < 2000; i++) f[1] += curand_normal(&a) * curand_normal(&b) / 2000;
}
int main() {
  unsigned *o;
  float *f, *a, one = 1, two = 2, dot;
  cudaMallocManaged(&o, 64), cudaMallocManaged(&f, 64), cudaMallocManaged(&a, 400);
  draw<<<1, 1>>>(o, f);
  printf("%x %x %x %x %d\n%d %d\n", o[0], o[1], o[2], o[3], o[4], fabsf(f[0] - 0.5f) < 0.03f, fabsf(f[1]) < 0.2f);
  for (int i = 0; i < 100; i++) a[i] = i % 7;
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 3, 5, &two, a, 5, a + 10, 5, &one, a + 50, 2);
  cublasSdot(handle, 6, a + 50, 1, a + 50, 1, &dot);
  printf("%g %g %g\n", a[50], a[55], dot);
}
"""


def test_random_numbers_and_products_of_the_libraries(tmp_path: Path) -> None:
    """Philox's first numbers are those its authors publish; skipping ahead is drawing."""
    printed = run(build(tmp_path, ("libraries.cu", LIBRARIES), options=("-lcublas",))).stdout.splitlines()
    a = [i % 7 for i in range(100)]
    for j in range(3):
        for i in range(2):
            a[50 + i + 2 * j] += 2 * sum(a[k + 5 * i] * a[10 + k + 5 * j] for k in range(5))
    assert printed[0] == "6627e8d5 e169c58d bc57ac4c 9b00dbd8 1"
    assert printed[1][0] == "1"
    assert printed[2] == f"{a[50]} {a[55]} {sum(x * x for x in a[50:56])}"


def test_three_ways_to_run_a_launch_agree(tmp_path: Path) -> None:
    """As part of the program, made for the running program, and thread by thread; pointers share memory."""
    program = build(tmp_path, ("add.cu", SHARED_MEMORY))
    expected = ["3000", "2000", "445 2180"]
    times = tmp_path / "times"
    assert run(program, WEFT_CUDA_TIMES=str(times)).stdout.split("\n")[:3] == expected
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.split("\n")[:3] == expected
    units = read_options([str(tmp_path / "add.cu")]).units
    with (tmp_path / "out").open("w+") as output:
        code, refused = run_program(program, [], units, {**os.environ, "WEFT_CUDA_TIMES": str(times)}, output=output)
    assert (code, refused) == (0, {})
    assert (tmp_path / "out").read_text().split("\n")[:3] == expected
    _, launches, one_by_one, _ = times.read_text().split()
    assert (launches, one_by_one) == ("3", "0")
    assert len(known_launches(next(iter(units)))["_Z3addPKfS0_Pfi"]) == 3


def test_a_program_is_built_again_when_a_file_it_includes_changes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "said.h").write_text('#define SAID "one"\n')
    (tmp_path / "main.cu").write_text('#include <cstdio>\n#include "said.h"\nint main() { puts(SAID); }\n')
    for text in ("one", "one", "two and more"):
        if text != "one":
            (tmp_path / "said.h").write_text(f'#define SAID "{text}"\n')
        assert weft_main(["cuda", "run", str(tmp_path / "main.cu"), "--", "argument"]) == 0
        assert capfd.readouterr().out.strip() == text


def test_a_second_run_takes_its_kernels_from_the_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read or compiled again, not even what is refused; a changed kernel is."""
    text = """
#include <cstdio>
#include <vector>
#include "of_the_host.h"
template <int N> __global__ void add(int *x) { x[threadIdx.x] += N; }
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void recursive(int *x) { x[0] = fib(5); }
int main() {
  int *x; cudaMallocManaged(&x, 128); x[5] = 2;
  add<3><<<1, 32>>>(x), recursive<<<1, 1>>>(x);
  printf("%d\\n", x[0] + x[5]);
}
"""
    (tmp_path / "of_the_host.h").write_text("#include <numbers>\n")  # not there where kernels are read
    made: list[str] = []
    make = KeptCode._make

    def counted(self: KeptCode, kernel: str, launch: str | None) -> Artifact:
        made.append(kernel)
        return make(self, kernel, launch)

    monkeypatch.setattr(KeptCode, "_make", counted)
    for expected, count in (("10", 4), ("10", 0), ("11", 4)):
        (tmp_path / "add.cu").write_text(text.replace("+= N", "+= N + 1") if expected == "11" else text)
        made.clear()
        assert weft_main(["cuda", "run", "--report", str(tmp_path / "add.cu")]) == 0
        captured = capfd.readouterr()
        assert captured.out.strip() == expected
        assert re.search(r"recursive\w*: thread by thread: (?s:.*)add\.cu:6", captured.err)
        assert len(made) == count
    assert weft_main(["cuda", "build", str(tmp_path / "add.cu"), "-o", str(tmp_path / "add")]) == 0
    assert "thread by thread" in capfd.readouterr().err


def test_what_makefiles_ask_for(tmp_path: Path) -> None:
    """Objects, lists of what they were made of, an object for the step that links the device's code."""
    (tmp_path / "k.h").write_text("#define BY 2\n")
    (tmp_path / "k.cu").write_text("__global__ void k(int *x) { x[0] *= BY; }\n")
    options = ["-gencode=arch=compute_80,code=sm_80", "-Xptxas", "-v", "-MD", "-include", str(tmp_path / "k.h")]
    build_program(read_options([*options, "-dc", str(tmp_path / "k.cu"), "-o", str(tmp_path / "k.o")]))
    listed = (tmp_path / "k.d").read_text()
    assert listed.startswith(f"{tmp_path / 'k.o'}:")
    assert str(tmp_path / "k.h") in listed
    (linked,) = build_program(read_options(["-dlink", str(tmp_path / "k.o"), "-o", str(tmp_path / "link.o")]))
    assert linked.exists()
    assert b"weft_codes" in (tmp_path / "k.o").read_bytes()  # its kernel was read, with what -include names


JUST_IN_TIME = r"""
#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <vector>
const char *text = R"(
#include <type_traits>
#include "times.h"
__constant__ float offset[2];
template <typename T, bool adds> __global__ void scale(T *x, std::bool_constant<adds>) {
  T *y = (T *)__builtin_assume_aligned(x, 16);
  y[threadIdx.x] = apply<twice>(y[threadIdx.x]) + (adds ? offset[1] : 0);
})";
const char *header = R"(
__device__ float twice(float x) { return 2 * x; }
template <float (*f)(float)> __device__ float apply(float x) { return f(x); }
)";
nvrtcResult compile(nvrtcProgram program) {
  nvrtcResult result = nvrtcCompileProgram(program, 0, nullptr);
  size_t size;
  nvrtcGetProgramLogSize(program, &size);
  std::vector<char> log(size);
  nvrtcGetProgramLog(program, log.data());
  printf("%s %.35s\n", nvrtcGetErrorString(result), log.data());
  return result;
}
int main() {
  nvrtcProgram program, wrong;
  const char *name = "times.h", *lowered, *constant;
  nvrtcCreateProgram(&program, text, "scale.cu", 1, &header, &name);
  nvrtcAddNameExpression(program, "scale<float, true>");
  nvrtcAddNameExpression(program, "&offset");
  if (compile(program)) return 1;
  nvrtcGetLoweredName(program, "scale<float, true>", &lowered);
  nvrtcGetLoweredName(program, "&offset", &constant);
  size_t size;
  nvrtcGetPTXSize(program, &size);
  std::vector<char> code(size);
  nvrtcGetPTX(program, code.data());
  CUmodule module;
  CUfunction scale;
  CUdeviceptr at, x;
  if (cuModuleLoadData(&module, code.data()) || cuModuleGetFunction(&scale, module, lowered)) return 2;
  if (cuModuleGetGlobal(&at, &size, module, constant)) return 3;
  float two[] = {0, 0.5f}, values[32];
  for (int i = 0; i < 32; ++i) values[i] = i;
  cuMemcpyHtoD(at, two, size);
  cuMemAlloc(&x, sizeof values);
  cuMemcpyHtoD(x, values, sizeof values);
  char empty;
  void *arguments[] = {&x, &empty};
  if (cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)) return 4;
  cuMemcpyDtoH(values, x, sizeof values);
  printf("%s %zu %g %g\n", lowered, size, values[0], values[31]);
  for (int destroyed = 0; destroyed < 2; ++destroyed) {
    nvrtcCreateProgram(&wrong, "__global__ void f(int *x) { *x = y; }", "wrong.cu", 0, 0, 0);
    compile(wrong);
    if (destroyed) nvrtcDestroyProgram(&wrong);
  }
}
"""


def test_text_is_compiled_while_a_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    source, printed = tmp_path / "jit.cu", tmp_path / "printed"
    source.write_text(JUST_IN_TIME)
    options = read_options([str(source), "-lnvrtc", "-o", str(tmp_path / "jit")])
    build_program(options, ahead=False)
    with printed.open("w+") as output:
        code, refused = run_program(tmp_path / "jit", [], options.units, dict(os.environ), output=output)
    assert (code, dict(refused)) == (0, {})
    assert printed.read_text().splitlines() == [
        "NVRTC_SUCCESS ",
        "_Z5scaleIfLb1EEvPT_St17integral_constantIbXT0_EE 8 0.5 62.5",
        *["NVRTC_ERROR_COMPILATION error: use of undeclared identifier"] * 2,
    ]
    assert [*(tmp_path / "temporary").glob("weft-nvrtc-*")] == []


ENDLESS = r"""
#include <cstdio>
#include <unistd.h>
__global__ void k(int *x) { *x = 1; }
int main() {
  int *x;
  cudaMalloc(&x, 4);
  k<<<1, 1>>>(x);
  printf("%d\n", getpid());
  fflush(stdout);
  while (true) sleep(1);
}
"""


def test_a_program_ends_with_the_command_that_runs_it(tmp_path: Path) -> None:
    (tmp_path / "endless.cu").write_text(ENDLESS)
    command = [sys.executable, "-m", "weft", "cuda", "run", "endless.cu"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        program = int(running.stdout.readline())
        running.kill()
    for _ in range(100):
        if not Path(f"/proc/{program}").exists() or _state(program) == "Z":
            return
        time.sleep(0.05)
    os.kill(program, signal.SIGKILL)
    pytest.fail("the program runs on")


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]
