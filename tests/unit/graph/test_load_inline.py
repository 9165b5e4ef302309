"""`weft.cuda.load_inline`: an extension of Python with CUDA kernels, on tensors of the CPU.

torch's headers take a minute to compile: the extension here is plain C++ that gets addresses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import weft

torch = pytest.importorskip("torch")
from weft.graph.from_torch import load_inline as module  # noqa: E402

CPP = r"""
#include <Python.h>
void scale(float *x, float *y, int n);
static PyObject *call(PyObject *, PyObject *given) {
  unsigned long long x, y;
  int n;
  if (!PyArg_ParseTuple(given, "OKKi", &given, &x, &y, &n)) return nullptr;
  scale((float *)x, (float *)y, n);
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"scale", call, METH_VARARGS, ""}, {}};
static PyModuleDef made = {PyModuleDef_HEAD_INIT, "plain_extension", "", -1, methods};
PyMODINIT_FUNC PyInit_plain_extension() { return PyModule_Create(&made); }
"""
CUDA = r"""
template <typename T> __global__ void scaled(const T *x, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3 * x[i];
}
void scale(float *x, float *y, int n) { scaled<<<(n + 63) / 64, 64>>>(x, y, n); }
"""


def test_kernels_of_an_extension_run_as_whole_grids(capfd: pytest.CaptureFixture[str]) -> None:
    """Also those large enough for several threads: Python shows an extension's names to nobody."""
    n = 1_000_000
    made = weft.cuda.load_inline("plain_extension", CPP, CUDA, no_implicit_headers=True)
    both = torch.arange(2 * n, dtype=torch.float32)
    made.scale(both, both.data_ptr(), both.data_ptr() + 4 * n, n)
    assert torch.equal(both[n:], 3 * both[:n])
    assert capfd.readouterr().err == ""
    *_, server = module._answering[-1]
    assert server.refused == {}
    ((launch,),) = [keys for kernels in server.launches.values() for keys in kernels.values()]
    assert launch.startswith("64 1 1 0 1 1 0")
    assert ";0:0,1:0" in launch  # they are parts of one tensor


def build(count: int, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is loaded by ``count`` processes, as far as building is concerned, and a count of what was built."""
    built: list[object] = []
    program = module.build_program
    monkeypatch.setattr(module, "build_program", lambda *a, **k: built.append(1) or program(*a, **k))
    loaded = []
    for _ in range(count):
        monkeypatch.setattr(module, "_libraries", {})
        weft.cuda.load_inline("plain_extension", CPP, CUDA + "// kept", no_implicit_headers=True)
        ((_, library),) = module._libraries.items()
        loaded.append(library.read_bytes())
    return [*loaded, *[b"built" for _ in built]]


def test_libraries_are_kept_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its digest: what was changed or cut is built again."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_MOST", 1)
    first, second, *built = build(2, monkeypatch)
    assert first == second
    assert len(built) == 1
    (kept,) = [p for p in (tmp_path / "cache").glob("*.weft") if first in p.read_bytes()]
    kept.write_bytes(kept.read_bytes()[:-1])
    _, *built = build(1, monkeypatch)
    assert len(built) == 1
    (sources,) = (tmp_path / "cache" / "extensions").iterdir()
    assert sorted(p.name for p in sources.iterdir()) == ["cuda.cu", "main.cpp"]
    module._write_sources("another", {"cuda.cu": ""})
    assert [p.name for p in sources.parent.iterdir()] == ["another"]


def test_headers_of_torchs_come_before_ours(tmp_path: Path) -> None:
    """`weft_torch.h` defines `is_cuda()`, after which torch's own headers no longer compile."""
    (tmp_path / "mine.h").write_text('#include <torch/all.h>\n#include "mine.h"\n')
    given = '#include "mine.h"\n  # include <ATen/cuda/CUDAContext.h>\n#include <torch/extension.h>\nvoid f();\n'
    before, text = module._headers("cuda.cu", given, [str(tmp_path)]).split('#line 1 "cuda.cu"\n')
    assert text == given
    headers = [line.removeprefix("#include <").rstrip(">") for line in before.splitlines()]
    assert headers[0] == "torch/types.h"
    assert set(headers[1:-1]) == {"cuda.h", "cuda_runtime.h", "torch/extension.h", "torch/all.h"}
    assert headers[-1] == "weft_torch.h"


def test_functions_are_bound_as_torch_binds_them() -> None:
    assert 'm.def("f", torch::wrap_pybind_function(f), R"(f)");' in module._bindings(["f"])
    assert 'R"(what it does)"' in module._bindings({"f": "what it does"})


def test_folders_of_a_process_are_gone_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[tuple[object, ...]] = []
    monkeypatch.setattr(module.atexit, "register", lambda *call, **_: at_exit.append(call))
    folder = module._folder_until_exit()
    (folder / "1.so").touch()
    ((remove, *arguments),) = at_exit
    assert callable(remove)
    remove(*arguments)
    assert not folder.exists()
