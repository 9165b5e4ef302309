"""What others see while a thread traces a model, and after a call that failed: nothing of ours."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.graph.from_torch import quiet
from weft.graph.from_torch.module_state import twin_of

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):  # type: ignore[misc,name-defined]
    """Reached by more ways than one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.rows = [self.layers[0], {"last": self.layers[-1]}]
        self.first = self.layers[0].forward
        self.register_buffer("shift", torch.ones(6))
        self.plain = torch.full((6,), 0.5)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.rows[1]["last"](self.rows[0](x)) + self.first(x) * self.shift + self.plain  # type: ignore[index]


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(autouse=True)
def _alone() -> None:
    torch._dynamo.reset()


def meanwhile(work: Callable[[], None], check: Callable[[], None]) -> int:
    """How often ``check`` was run in another thread while ``work`` went on; what it raised is raised."""
    done, count, raised = threading.Event(), 0, []

    def repeat() -> None:
        nonlocal count
        while not done.is_set() and not raised:
            try:
                check()
            except BaseException as error:  # told in the thread of the test
                raised.append(error)
            count += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    if raised:
        raise raised[0]
    return count


def test_others_call_the_model_while_it_is_traced(net: Any) -> None:
    x = torch.randn(3, 6)
    expected, stderr = net(x).detach(), sys.stderr

    def work() -> None:
        with torch.no_grad():
            for rows in range(2, 6):
                fast = weft.compile(net, torch.randn(rows, 6))
                for more in (1, 2):  # the second size is traced by torch.export
                    fast(torch.randn(rows + more, 6))

    def check() -> None:
        with torch.no_grad():
            torch.testing.assert_close(net(x), expected)
        assert not torch.compiler.is_compiling()
        assert not torch.compiler.is_exporting()
        assert sys.stderr is stderr

    assert meanwhile(work, check) > 3
    assert torch.compiler._is_compiling_flag is torch.compiler._is_exporting_flag is False


def test_weights_of_a_traced_twin_are_followed(net: Any) -> None:
    x = torch.randn(3, 6)
    fast = weft.compile(net, x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), net(x))
        net.layers[0].weight = nn.Parameter(torch.randn(6, 6))
        torch.testing.assert_close(fast(x), net(x))
        net.plain = torch.zeros(6)
        net.shift.mul_(3)
        torch.testing.assert_close(fast(x), net(x))


def test_a_model_that_knows_itself_by_another_way_is_followed_too() -> None:
    inner = nn.Linear(5, 5)
    net = nn.Sequential(inner)
    net.forward = lambda x: inner(x) + 1
    x = torch.randn(2, 5)
    fast = weft.compile(net, x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), net(x))
        inner.weight = nn.Parameter(torch.randn(5, 5))
        torch.testing.assert_close(fast(x), net(x))


def test_a_twin_has_tables_and_modules_of_its_own(net: Any) -> None:
    twin = twin_of(net)
    assert [(name, id(p)) for name, p in twin.named_parameters()] == [(n, id(p)) for n, p in net.named_parameters()]
    assert {id(m) for m in twin.modules()}.isdisjoint({id(m) for m in net.modules()})
    assert twin.rows[0] is twin.layers[0]
    assert twin.first.__self__ is twin.layers[0]
    twin.layers[0].weight = None
    twin.rows.append(3)
    assert net.layers[0].weight is not None
    assert len(net.rows) == 2

    class Slotted(nn.Linear):  # type: ignore[misc,name-defined]
        __slots__ = ("more",)

    assert twin_of(nn.Sequential(Slotted(2, 2))) is None
    assert twin_of(torch.jit.script(nn.Linear(2, 2))) is None


def _sequential() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


@pytest.mark.parametrize("wrong", [(torch.randn(2, 7),), (torch.randn(2, 8), 3), ("text",), ()])
def test_a_call_that_eager_refuses_is_eagers_error_and_changes_nothing(wrong: tuple[Any, ...]) -> None:
    model, x = _sequential(), torch.randn(2, 8)
    fast = weft.compile(model, x)
    with torch.no_grad():
        fast(x)
        messages = []
        for refused in (model, fast, fast):
            with pytest.raises(Exception) as caught:
                refused(*wrong)
            messages.append((caught.type, str(caught.value)))
        assert messages[0] == messages[1] == messages[2]
        calls = []

        def backend(gm: Any, _inputs: Any) -> Any:
            calls.append(gm)
            return gm.forward

        for other in (_sequential(), nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())):
            given = x if isinstance(other[0], nn.Linear) else torch.randn(1, 3, 8, 8)
            torch.testing.assert_close(torch.compile(other, backend=backend)(given), other(given))
        assert len(calls) == 2, "torch.compile was turned off"
        torch.testing.assert_close(fast(x), model(x))
        assert len(fast.parts) == 1


def test_a_model_in_parts_refuses_as_eager_does_and_goes_on() -> None:
    def model(x: Any) -> Any:
        if x.sum() > 100:
            raise ValueError("too much")
        return x @ torch.ones(3, 3)

    x = torch.ones(2, 3)
    with pytest.warns(UserWarning, match="in parts"):
        fast = weft.compile(model, x)
    for _ in range(3):
        torch.testing.assert_close(fast(x), model(x))
    for _ in range(2):
        with pytest.raises(ValueError, match="too much"):
            fast(x * 100)
        torch.testing.assert_close(fast(x), model(x))
    assert "in parts" in weft.explain(fast)
    assert "eager" not in weft.explain(fast)


def test_other_threads_are_heard_while_one_is_silent() -> None:
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    heard, begun, may_end = [], [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.msg)  # type: ignore[method-assign]
    filters, was_disabled = list(logger.filters), logger.disabled

    def be_silent(number: int) -> None:
        with quiet.silent("fx.experimental.symbolic_shapes"):
            begun[number].set()
            may_end[number].wait(10)
            logger.error("of a silent thread")

    threads = [threading.Thread(target=be_silent, args=(number,)) for number in range(2)]
    logger.addHandler(handler)
    try:
        for number, thread in enumerate(threads):
            thread.start()
            begun[number].wait(10)
        logger.error("heard")
        for number, thread in enumerate(threads):  # the first to begin is the first to end
            may_end[number].set()
            thread.join()
        logger.error("after")
    finally:
        logger.removeHandler(handler)
    assert heard == ["heard", "after"]
    assert logger.filters == filters
    assert logger.disabled == was_disabled


def test_a_compiled_model_inside_another_is_traced_as_a_part_of_it() -> None:
    inner = _sequential()
    fast = weft.compile(inner, torch.randn(2, 8))

    class Outer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = fast, nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.inner(x))

    outer, x = Outer().eval(), torch.randn(2, 8)
    whole = weft.compile(outer, x)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(whole(x), outer.head(inner(x)))
            inner[0].weight.mul_(2)
    assert len(whole.parts) == 1
    assert hasattr(next(iter(whole.parts.values())), "model"), "compiled as a whole"


def test_warnings_of_other_threads_are_heard_while_one_traces() -> None:
    before, heard = list(warnings.filters), []

    def warn() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for kind in (FutureWarning, UserWarning):
                warnings.warn("x were assigned during export", kind, stacklevel=1)
        heard.append([str(one.category.__name__) for one in caught])

    with warnings.catch_warnings(record=True) as own:
        warnings.simplefilter("always")
        with quiet.alone_while_tracing(), quiet.alone_while_tracing():
            other = threading.Thread(target=warn)
            other.start()
            other.join()
            warnings.warn("torch's own", FutureWarning, stacklevel=1)
            warnings.warn("the user's", UserWarning, stacklevel=1)
    assert heard == [["FutureWarning", "UserWarning"]]
    assert [str(one.message) for one in own] == ["the user's"]
    assert list(warnings.filters) == before
