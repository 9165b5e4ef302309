"""`weft.cuda.load_inline`: extensions of PyTorch with CUDA sources, on tensors of the CPU.

The sources are those that `torch.utils.cpp_extension.load_inline` takes. On a machine with GPUs its functions get
tensors of either kind: those with GPU tensors go to torch's own build.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.from_cuda.nvcc_options import BuildOptions, read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import Server
from weft.graph.from_torch.edge import cpp_extension, torch
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

Texts = str | Sequence[str]
#: What torch puts before these files; `weft_torch.h` gives words of torch's another meaning and has to come last.
_HEADERS = {"main.cpp": ("torch/extension.h",), "cuda.cu": ("torch/types.h", "cuda.h", "cuda_runtime.h")}
_OURS = "weft_torch.h"
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_ANSWER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)


def load_inline(
    name: str,
    cpp_sources: Texts,
    cuda_sources: Texts = (),
    functions: Texts | Mapping[str, str] | None = None,
    *,
    extra_cflags: Sequence[str] = (),
    extra_cuda_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    extra_include_paths: Sequence[str] = (),
    no_implicit_headers: bool = False,
    **others: Any,
) -> Extension:
    """An extension from texts, as torch's own: a module with ``functions`` of ``cpp_sources``.

    >>> m = weft.cuda.load_inline("scale", "torch::Tensor scale(torch::Tensor x);", kernels, ["scale"])
    >>> m.scale(torch.ones(4))

    ``others`` are for torch's own build, which GPU tensors go to.
    """
    cpp, cuda = _text(cpp_sources), _text(cuda_sources)
    if functions is not None:
        cpp += _bindings(functions)
    given = {"main.cpp": cpp, "cuda.cu": cuda} if cuda else {"main.cpp": cpp}
    texts = {f: text if no_implicit_headers else _headers(f, text, extra_include_paths) for f, text in given.items()}
    flags = [*extra_cflags, *extra_cuda_cflags, *(f"-I{folder}" for folder in extra_include_paths)]
    passed = {
        "cpp_sources": cpp_sources, "cuda_sources": cuda_sources, "functions": functions,
        "extra_cflags": list(extra_cflags), "extra_cuda_cflags": list(extra_cuda_cflags),
        "extra_ldflags": list(extra_ldflags), "extra_include_paths": list(extra_include_paths),
        "no_implicit_headers": no_implicit_headers, **others,
    }  # fmt: skip
    made = Extension(name, texts, flags, extra_ldflags, lambda: cpp_extension().load_inline(name, **passed))
    # What will be used is built: its errors are told now.
    _ = made.gpu if torch().cuda.is_available() else made.cpu
    return made


def _text(sources: Texts) -> str:
    return "\n".join([sources] if isinstance(sources, str) else sources)


def _headers(file: str, text: str, folders: Sequence[str]) -> str:
    """``text`` with torch's headers before it, those that it includes itself as well."""
    asked = [h for h in included_headers(text, [Path(folder) for folder in folders]) if _is_torchs(h)]
    named = dict.fromkeys((*_HEADERS[file], *asked))
    return "".join(f"#include <{header}>\n" for header in (*named, _OURS)) + f'#line 1 "{file}"\n{text}'


def included_headers(text: str, folders: Sequence[Path]) -> Iterator[str]:
    """The headers that ``text`` includes, and those that they include that lie in ``folders``."""
    seen: set[str] = set()
    waiting = [text]
    while waiting:
        for header in _INCLUDE.findall(waiting.pop()):
            if header in seen:
                continue
            seen.add(header)
            yield header
            waiting += [p.read_text(errors="replace") for p in (f / header for f in folders) if p.is_file()]


def _is_torchs(header: str) -> bool:
    """Whether it is one of torch's that is there as it is; those for CUDA are ours."""
    if header.startswith(("ATen/cuda/", "c10/cuda/")):
        return False
    return any((Path(folder) / header).is_file() for folder in cpp_extension().include_paths())


def _bindings(functions: Texts | Mapping[str, str]) -> str:
    names = [functions] if isinstance(functions, str) else functions
    told = names.items() if isinstance(names, Mapping) else ((n, n) for n in names)
    rows = "\n".join(f'  m.def("{n}", torch::wrap_pybind_function({n}), R"({text})");' for n, text in told)
    return f"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{rows}\n}}\n"


class Extension:
    """The functions of an extension; built for the CPU here, and by torch for GPUs where tensors are there."""

    def __init__(
        self, name: str, texts: Mapping[str, str], flags: Sequence[str], link: Sequence[str], gpu: Callable[[], Any]
    ) -> None:
        self._name, self._texts, self._flags, self._link, self._make_gpu = name, texts, flags, link, gpu

    @cached_property
    def gpu(self) -> Any:
        """torch's own build."""
        return self._make_gpu()

    @cached_property
    def cpu(self) -> ModuleType:
        """Ours."""
        return _build(self._name, self._texts, self._flags, self._link)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__dict__.get("cpu") or self.__dict__.get("gpu") or self.cpu
        if not callable(getattr(module, name)):
            return getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch().Tensor)]
            if any(t.is_cuda for t in given):
                return getattr(self.gpu, name)(*args, **kwargs)
            function = getattr(self.cpu, name)
            with _noted(Path(self.cpu.__file__ or ""), given):
                return function(*args, **kwargs)

        return call


#: Libraries of this process, by what they were made of: what one loads is not loaded twice.
_libraries: dict[str, Path] = {}
#: Folders with sources that are kept.
_MOST = 64


def _build(name: str, texts: Mapping[str, str], flags: Sequence[str], link: Sequence[str]) -> ModuleType:
    options = _options(name, flags, link)
    made_of = cache_key("cuda extension", torch().__version__, *options.compile, *options.link, *texts.values())
    options.files = _write_sources(made_of, texts)
    key = cache_key("cuda extension", made_of, *map(str, options.files))  # a library knows its kernels by their places
    if key not in _libraries:
        _libraries[key] = _folder_until_exit() / f"{name}.so"
        _libraries[key].write_bytes(_library(key, options))
    _serve(_libraries[key], options)
    spec = importlib.util.spec_from_file_location(name, _libraries[key])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _library(key: str, options: BuildOptions) -> bytes:
    """The library's code, from the store where it is there."""
    kept = default_store().get(key)
    if kept is not None and "library" in kept.blobs:
        return kept.blobs["library"]
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as folder:
        options.output = Path(folder) / "extension.so"
        code = build_program(options, ahead=False)[0].read_bytes()
    default_store().put(key, Artifact({"kind": "cuda extension"}, {"library": code}))
    return code


def _write_sources(made_of: str, texts: Mapping[str, str]) -> list[Path]:
    """The sources as files: in the same place for all processes, as code of kernels is kept by where they stand."""
    kept = default_store().directory
    folder = (_folder_until_exit() if kept is None else kept / "extensions") / made_of
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file, text in texts.items():
        handle, aside = tempfile.mkstemp(dir=folder)
        with open(handle, "w", encoding="utf-8", errors="surrogateescape") as written:
            written.write(text)
        Path(aside).replace(folder / file)  # another process may be reading it
    with contextlib.suppress(OSError):
        folders = sorted(folder.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in folders[:-_MOST]:
            shutil.rmtree(old, ignore_errors=True)
    return [folder / file for file in texts]


def _folder_until_exit() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="weft-cuda-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _options(name: str, flags: Sequence[str], link: Sequence[str]) -> BuildOptions:
    standard = () if any(f.startswith("-std") for f in flags) else ("-std=c++20",)
    folders = [*cpp_extension().include_paths(), sysconfig.get_paths()["include"]]
    libraries = Path(torch().__file__).parent / "lib"
    options = read_options([
        "-O2", *standard, *(f"-I{folder}" for folder in folders), f"-DTORCH_EXTENSION_NAME={name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H", *flags, f"-L{libraries}",
        *(f"-l{library}" for library in ("torch", "torch_cpu", "torch_python", "c10")), "-Xlinker", "-Bsymbolic",
    ])  # fmt: skip
    options.shared = True
    options.link += link
    return options


#: What answers the libraries that are loaded, for as long as they are: they cannot be unloaded.
_answering: list[Any] = []


def _serve(library: Path, options: BuildOptions) -> None:
    """Kernels ask for code where they are launched: in this process, which may hold Python's lock, so by a call."""
    # Kernels are read without torch's headers, which take a minute and which they rarely use.
    torchs = {f"-I{folder}" for folder in cpp_extension().include_paths()}
    units = {unit: (file, [f for f in flags if f not in torchs]) for unit, (file, flags) in options.units.items()}
    server = Server(units, _folder_until_exit())
    last: list[ctypes.Array[ctypes.c_char]] = []

    def answer(question: bytes) -> int:
        last[:] = [ctypes.create_string_buffer(server.answer(question.decode().rstrip("\n")).encode())]
        return ctypes.addressof(last[0])

    callback = _ANSWER(answer)
    loaded = ctypes.CDLL(str(library))
    loaded.weft_answer_by(callback)
    _answering.append((loaded, callback, server))


@contextlib.contextmanager
def _noted(library: Path, tensors: Sequence[Any]) -> Iterator[None]:
    """How far the memory of ``tensors``, and of what is allocated meanwhile, reaches is known to kernels."""
    loaded = ctypes.CDLL(str(library))
    switch = getattr(loaded, "weft_note_allocations", None)
    for tensor in tensors:
        storage = tensor.untyped_storage()
        loaded.weft_note_memory(ctypes.c_void_p(storage.data_ptr()), ctypes.c_size_t(storage.nbytes()))
    if switch is not None:
        switch(ctypes.c_bool(True))
    try:
        yield
    finally:
        if switch is not None:
            switch(ctypes.c_bool(False))
        loaded.weft_forget_noted()
