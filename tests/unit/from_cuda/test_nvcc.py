"""nvcc as build systems know it: its options, what it says of itself, CMake; hints for what goes wrong."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from test_programs import run

from weft.cli.main import main
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.nvcc_table import NAMED, OPTIONS, REFUSED
from weft.from_cuda.toolkit import write_toolkit
from weft.ir.errors import ArgumentError, UnsupportedError

#: One of each kind that build systems of strangers were seen to use.
TAKEN = """
-Xptxas=-v|--ptxas-options=-v|-maxrregcount=64|--use_fast_math|-ccbin g++|--compiler-options -Wall
-Xcompiler=-Wall,-Wextra|-gencode=arch=compute_90a,code=[sm_90a,compute_90a]|-arch=native|-arch sm_80
--generate-line-info|-std=c++20|--std c++17|-diag-suppress 177
-Xcudafe --diag_suppress=unsigned_compare_with_zero|--extended-lambda|-forward-unknown-to-host-compiler|-t 4
--threads 0|-res-usage|-default-stream per-thread|--default-stream=legacy|-cudart static|-cudart=shared|-O3|-g
-keep|-MMD -MF x.d|-shared -Xcompiler -fPIC|-x cu|-w|-lcudart -lm|-L/usr/lib64|-dlto|--fmad=false|-ftz=true
-prec-div=false|-lineinfo|-rdc true|-Werror all-warnings|-pg|-m64|-m 64|-Wno-deprecated-gpu-targets
--expt-extended-lambda|-allow-unsupported-compiler|--dryrun|-isystem /usr/include|-include cstdio
--pre-include=cstdio|-Xlinker -rpath,/tmp|-Xnvlink -v|-split-compile=0|-static-global-template-stub=false
-time x.csv|-Xfatbin -compress-all|-lcuda|-lcublas -lcurand -lcufft|-I. -DX=1 -UX|--include-path=a,b
--define-macro X|-odir out|-lib|-E|-M|--optimize 2|-O 3
"""


def test_options_are_taken_by_every_spelling() -> None:
    for given in TAKEN.strip().replace("\n", "|").split("|"):
        options = read_options([*given.split(), "a.cu"])
        assert [str(f) for f in options.files][-1:] == ["a.cu"], given
    assert set(REFUSED) | set(NAMED) <= {long for long, _ in OPTIONS.values()}


def test_what_options_mean() -> None:
    line = (
        "-include a.h,b.h --include-path=x,y -std c++17 --fmad false -arch=sm_75 -gencode arch=compute_90,code=sm_90 "
        "-x cu k.cpp -x c++ m.cu -keep -Werror all-warnings"
    )
    options = read_options(line.split())
    assert options.compile == ["-include", "a.h", "-include", "b.h", "-Ix", "-Iy", "-std=c++17", "-ffp-contract=off"]
    assert options.architectures == ["75", "90"]
    assert [options.is_cuda(f) for f in options.files] == [True, False]
    assert list(options.ignored) == ["-keep", "-Werror all-warnings"]
    forwarded = read_options(["-forward-unknown-to-host-compiler", "-march=native", "-mfma", "a.cu"])
    assert forwarded.compile == ["-march=native", "-mfma"]


def test_options_in_files(tmp_path: Path) -> None:
    (tmp_path / "options").write_text("-DN=4 # a comment\n-I 'a folder'\n")
    options = read_options(["-optf", str(tmp_path / "options"), "a.cu"])
    assert options.compile == ["-DN=4", "-Ia folder"]
    with pytest.raises(ArgumentError, match=r"the options in .*missing cannot be read"):
        read_options(["-optf", str(tmp_path / "missing")])


@pytest.mark.parametrize("option", ["-ptx", "--cubin", "-fatbin", "-run", "-sanitize=memcheck"])
def test_what_makes_no_program_is_refused_with_the_reason(option: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"`{option}` is not supported\n  why: "):
        read_options([option, "a.cu"])


def test_what_nvcc_says_of_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in ("--version", "-V"):
        assert main(["cuda", "build", option]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "nvcc: NVIDIA (R) Cuda compiler driver"
        assert lines[-1] == "Cuda compilation tools, release 12.3, V12.3.107"
    monkeypatch.setenv("WEFT_CUDA_TOP", "/top")
    assert main(["cuda", "build", "-dryrun", "-arch=sm_75", str(tmp_path / "a.cu"), "-o", str(tmp_path / "a")]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "#$ TOP=/top"
    assert '#$ LIBRARIES=  "-L/top/lib64"' in told
    assert "-arch compute_75" in told[-2]
    assert '"-L/top/lib64"  -lcudadevrt -lcudart_static' in told[-1]
    assert list(tmp_path.iterdir()) == []


def test_text_after_macros_rules_and_static_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.h").write_text("#define BY 2\n")
    (tmp_path / "k.cu").write_text(
        '#include "k.h"\n__device__ int twice(int x) { return x * BY; }\nint host() { return BY; }\n'
    )
    source = str(tmp_path / "k.cu")
    assert main(["cuda", "build", "-E", source]) == 0
    assert "return x * 2" in capsys.readouterr().out
    assert main(["cuda", "build", "-M", source, "-MT", "k.o", "-o", str(tmp_path / "k.d")]) == 0
    assert (tmp_path / "k.d").read_text().startswith("k.o:")
    assert str(tmp_path / "k.h") in (tmp_path / "k.d").read_text()
    (tmp_path / "m.cc").write_text("int host();\nint main() { return host(); }\n")
    assert main(["cuda", "build", "-lib", source, "-o", str(tmp_path / "libk.a")]) == 0
    assert main(["cuda", "build", str(tmp_path / "m.cc"), str(tmp_path / "libk.a"), "-o", str(tmp_path / "m")]) == 0
    assert run(tmp_path / "m").returncode == 2


CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(demo LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_executable(demo main.cu)
target_compile_definitions(demo PRIVATE N=3)
target_link_libraries(demo PRIVATE CUDA::cublas)
add_library(apart STATIC apart.cu)
set_target_properties(apart PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
target_link_libraries(demo PRIVATE apart)
set_target_properties(demo PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_takes_the_toolkit_for_nvidias(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "apart.cu").write_text("__device__ float twice(float x) { return 2 * x; }\n")
    (tmp_path / "main.cu").write_text(
        "#include <cstdio>\n#include <cublas_v2.h>\nextern __device__ float twice(float);\n"
        "__global__ void k(float *x) { x[threadIdx.x] = twice(N * threadIdx.x); }\n"
        "int main() { float *x, sum; cudaMallocManaged(&x, 128); k<<<1, 32>>>(x); cudaDeviceSynchronize();\n"
        '  cublasHandle_t h; cublasCreate(&h); cublasSasum(h, 32, x, 1, &sum); printf("%g\\n", sum); }\n'
    )
    compiler = write_toolkit(tmp_path / "cuda") / "bin" / "nvcc"
    for command in (["-S", ".", "-B", "build", f"-DCMAKE_CUDA_COMPILER={compiler}"], ["--build", "build"]):
        done = subprocess.run(["cmake", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert run(tmp_path / "build" / "demo").stdout == "2976\n"


APART = "extern __device__ float twice(float);\n__global__ void k(float *x) { *x = twice(*x); }\nint main() {}\n"


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (
            {"a.cu": APART, "b.cu": "__device__ float twice(float x) { return 2 * x; }\n"},
            "error: nothing defines twice(float)\n  why:   `twice(float)` is used in `k(float*)`\n"
            "  help:  device code of one file uses `twice` of another: -rdc=true links it, as with nvcc\n",
        ),
        (
            {"a.cu": "__global__ void k(float *x) { *x = 1; }\n"},
            "error: nothing defines main\n  why:   no file that is linked has it\n"
            "  help:  name the file that has `main` as well; -c makes an object, -shared a library\n",
        ),
        (
            {"a.cc": "namespace n { void f(int); }\nint main() { n::f(1); }\n"},
            "error: nothing defines n::f(int)\n  why:   `n::f(int)` is used in `main`\n",
        ),
    ],
)
def test_what_a_linker_misses(
    texts: dict[str, str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in texts]
    assert main(["cuda", "build", *files, "-o", str(tmp_path / "p")]) == 1
    told = capsys.readouterr().err
    assert told[told.index("error: nothing") :] == error


def test_arguments_of_the_program_go_behind_dashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cu").write_text("int main() {}\n")
    source = str(tmp_path / "a.cu")
    for action in ("run", "check"):
        assert main(["cuda", action, source, "5000", "in.txt"]) == 1
        assert capsys.readouterr().err == (
            "error: 5000, in.txt: neither a source nor an object\n  why:   what stands before `--` is built\n"
            f"  help:  arguments of the program go behind it: weft cuda {action} {source} -- 5000 in.txt\n"
        )


@pytest.mark.parametrize("action", ["build", "run", "check", "toolkit", "show"])
def test_each_action_has_a_help_of_its_own(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["cuda", action, "--help"])
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 0
    assert f"usage: weft cuda {action} " in capsys.readouterr().out


def test_the_report_says_so_when_all_is_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cu").write_text(
        "template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= 2; }\n"
        "template <class T> __global__ void jump(T *x) { again: if (x[0] < 5) { x[0]++; goto again; } }\n"
        "int main(int n, char **) { float *x; cudaMallocManaged(&x, 128); scale<<<1, 32>>>(x);\n"
        "  if (n > 1) jump<<<1, 1>>>(x); }\n"
    )
    source = str(tmp_path / "a.cu")
    assert main(["cuda", "run", "--report", source]) == 0
    assert capfd.readouterr().err == "all kernels that were launched ran as whole grids\n"
    assert main(["cuda", "run", "--report", source, "--", "more"]) == 0
    assert capfd.readouterr().err.startswith("jump<float>: thread by thread: error: ")
