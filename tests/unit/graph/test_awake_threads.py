"""Threads stay awake through a model's table of kernels, and let go of the cores for a library's own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft.graph import compile_graph as compiling
from weft.graph.groups.choose import Choice
from weft.runtime import threads

torch = pytest.importorskip("torch")
_START = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)


@pytest.fixture
def starts() -> Iterator[list[int]]:
    """The sizes of teams as they are started, on two threads."""
    threads.set_num_threads(2)
    if "omp" not in threads.thread_runtime():
        threads.parallel_for_address()
    assert threads._state.code is not None
    word = ctypes.c_void_p.from_address(threads._state.code.address("start_threads"))
    own, sizes = word.value, list[int]()
    assert own is not None

    def start(function: int, context: int, size: int) -> None:
        sizes.append(size)
        _START(own)(function, context, size)

    counted = _START(start)
    word.value = ctypes.cast(counted, ctypes.c_void_p).value
    late = threads._word("late")
    late.value, usual = 10**12, late.value  # on a busy machine, teams would be left alone for a while,
    until = ctypes.c_int64.from_address(threads._state.code.address("lateness") + 8)
    until.value = 0  # and are perhaps since a test before
    with torch.no_grad():
        yield sizes
    late.value = usual
    word.value = own
    with threads._lock:
        threads._state.chosen = None
        threads._publish()


def sums(x: Any) -> Any:
    """Rows and columns in turns: every result needs all of the one before."""
    for _ in range(3):
        x = x / x.sum(0, keepdim=True)
        x = x / x.sum(1, keepdim=True)
    return x


def test_one_start_for_all_kernels(starts: list[int]) -> None:
    x = torch.rand(512, 512) + 0.5
    fast = weft.compile(sums, (x,))
    del starts[:]
    assert torch.allclose(fast(x), sums(x), rtol=1e-4)
    assert starts == [2]
    weft.profile(fast, x)
    assert set(starts) == {2}
    threads.set_num_threads(1)
    del starts[:]
    assert torch.allclose(fast(x), sums(x), rtol=1e-4)
    assert starts == []


def test_a_library_call_ends_the_team(starts: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling._Compilation, "_kept_choice", lambda *_: None)
    monkeypatch.setattr(compiling._Compilation, "_choice", lambda *_: Choice(1.0, 0.0, "told", 0))
    layer, x = torch.nn.Linear(512, 512).eval(), torch.rand(512, 512) + 0.5

    def model(x: Any) -> Any:
        return sums(torch.relu(layer(sums(x))) + 1.0)

    fast = weft.compile(model, (x,))
    del starts[:]
    assert torch.allclose(fast(x), model(x), rtol=1e-4)
    assert starts == [2, 2]
