"""What stays in memory: models that are gone take their weights with them, and ever new sizes take no more and more."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import mlp

import weft
from weft.graph import builder
from weft.graph.builder import formula_program
from weft.graph.formulas import pointwise
from weft.graph.from_torch import backend, model
from weft.graph.groups import open_sizes
from weft.graph.rewrites import constant_values
from weft.graph.rewrites.constant_values import ConstantValues
from weft.graph.run import cuda_executable, renewed_table
from weft.ir import dtype as dt

torch = pytest.importorskip("torch")
nn = torch.nn
#: Sizes that are kept here, and after how many what there is must not grow any more; a size takes a tenth of a second.
KEPT, SIZES = 4, 24


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Tests begin with what was loaded frozen (`conftest.py`), where nobody finds it: caches least of all."""
    gc.unfreeze()
    torch._dynamo.reset()
    backend.COMPILED.clear()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backend, model):
        monkeypatch.setattr(module, "MOST_KEPT", KEPT)
    monkeypatch.setattr("weft.graph.from_onnx.model.MOST_KEPT", KEPT)
    monkeypatch.setattr(builder, "MOST_PROGRAMS", KEPT)
    monkeypatch.setattr(open_sizes, "MOST_PRICES", KEPT)
    monkeypatch.setattr(constant_values, "_FEW", KEPT)
    monkeypatch.setattr(renewed_table, "MOST_ADDED", 2 * KEPT)


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def by_weft(made: Any) -> Any:
    return weft.compile(made, torch.randn(2, 6))


def by_torch(made: Any) -> Any:
    return torch.compile(made, backend="weft", dynamic=True)


@pytest.mark.parametrize("compiled", [by_weft, by_torch])
def test_a_model_that_is_deleted_takes_its_weights_with_it(compiled: Any) -> None:
    with torch.no_grad():
        made = net()
        fast, x = compiled(made), torch.randn(2, 6)
        torch.testing.assert_close(fast(x), made(x))
        fast(torch.randn(3, 6))
        gone = [weakref.ref(p) for p in made.parameters()]
        del fast, made
        torch._dynamo.reset()
        gc.collect()
    assert [ref() for ref in gone] == [None] * len(gone)
    assert len(backend.COMPILED) == 0


def _counted() -> Counter[str]:
    """Our objects, but for those in caches that have a bound of their own."""
    for cache in [o for o in gc.get_objects() if type(o) is functools._lru_cache_wrapper]:
        if cache.cache_info().maxsize is not None:
            cache.cache_clear()
    gc.collect()
    kinds = (type(o) for o in gc.get_objects())
    return Counter(kind.__name__ for kind in kinds if str(kind.__module__).startswith("weft"))


@pytest.mark.parametrize("compiled", [by_weft, by_torch])
@pytest.mark.usefixtures("few")
def test_ever_new_sizes_keep_no_more_and_more(compiled: Any) -> None:
    made = net()
    others, counts = _counted()["Executable"], []  # models of tests before, which a traceback may hold
    with torch.no_grad():
        fast = compiled(made)
        for rows in range(2, 2 + 3 * SIZES):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(fast(x), made(x))
            if rows % SIZES == 1:
                counts.append(_counted())
    _, before, after = counts
    grown = {name: after[name] - before[name] for name in after if after[name] - before[name] > 3 * KEPT}
    assert not grown, f"{SIZES} sizes more left this behind"
    assert after["Executable"] - others <= 2 * KEPT


@pytest.mark.usefixtures("few")
def test_ever_new_sizes_of_an_onnx_model() -> None:
    loaded, counts = weft.load_onnx(mlp()), []
    for rows in range(1, 1 + 3 * SIZES):
        assert loaded(np.ones((rows, 2, 4), np.float32)).shape == (rows, 16)
        if rows % SIZES == 0:
            counts.append(_counted())
    _, before, after = counts
    grown = {name: after[name] - before[name] for name in after if after[name] - before[name] > 3 * KEPT}
    assert not grown, f"{SIZES} sizes more left this behind"


def _memory() -> float:
    """Megabytes that are this process's own, without what is in caches that have a bound."""
    _counted()
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells of memory")
@pytest.mark.usefixtures("few")
def test_memory_grows_no_more_with_ever_new_sizes(first_seed: int) -> None:
    """A size that is left behind whole takes 32 KB and more. Fresh seeds try 2,000 sizes."""
    loaded, first, last = weft.load_onnx(mlp()), 60, 2000 if first_seed else 300
    for rows in range(1, last + 1):
        for asked in (rows, 3 + rows // 10):  # new, and again
            loaded(np.ones((asked, 2, 4), np.float32))
        if rows == first:
            before = _memory()
        elif rows % 20 == 0:
            gc.collect()
    assert _memory() - before < 4 + (last - first) * 4 / 1024


def test_programs_are_told_apart_by_more_than_equality() -> None:
    """0.0 and -0.0 are equal, and so are 1 and true."""
    values = [0.0, -0.0, 1.0, 1, True, float("nan"), float("nan")]
    made = [formula_program("f", [], pointwise.filled, (2,), value, dt.float32) for value in values]
    assert len({id(program) for program in made}) == len(values) - 1
    assert made[-1] is made[-2]
    with torch.no_grad():
        for value in (0.0, -0.0):
            fast = weft.compile(lambda x, value=value: torch.full((3,), value) * x, torch.ones(3))
            assert bool(torch.signbit(fast(torch.ones(3))).all()) == (str(value) == "-0.0")


def test_constants_that_nobody_has_are_let_go_and_known_again_where_something_is_made_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constant_values, "_FEW", 8)
    values, given = ConstantValues(), np.arange(4.0)
    values.check([given.ctypes.data], [0])
    (twice,) = values.find("twice", [given], lambda: [2 * given])
    (packed,) = values.find("packed", [twice], lambda: [np.ones(4)])
    identity = values.identity(twice)
    del twice
    for n in range(100):
        values.find(("passing", n), [given], lambda: [np.ones(3)])
    assert len(values._made) < 20
    assert len(values._places) < 20
    (again,) = values.find("twice", [given], lambda: [2 * given])
    assert values.identity(again) == identity
    assert values.find("packed", [again], lambda: [None])[0] is packed


def test_recorded_graphs_with_numbers_that_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorded:
        forgotten = False

        def forget(self) -> None:
            self.forgotten = True

    monkeypatch.setattr(cuda_executable, "MOST_RECORDED", 3)
    monkeypatch.setattr(cuda_executable, "_recorded", type(cuda_executable._recorded)())
    keep: Any = cuda_executable._keep
    for _ in range(50):  # each has the number of the one before, mostly
        keep(Recorded())
    assert len(cuda_executable._recorded) == 0
    some = [Recorded() for _ in range(5)]
    for one in (*some, some[2]):
        keep(one)
    assert [one.forgotten for one in some] == [True, True, False, False, False]
    assert [ref() for ref in cuda_executable._recorded.values()] == [some[3], some[4], some[2]]
