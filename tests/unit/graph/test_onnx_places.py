"""ONNX models that read and write at places which data give, and sequences of tensors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parent))

from onnx_models import TensorProto, helper, model, node

import weft
from weft.ir.errors import UnsupportedError

RNG = np.random.default_rng(0)
COMBINED: dict[str, Any] = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}


def floats(*sizes: int) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


def net_of(nodes: list[Any], given: dict[str, Any], constants: dict[str, Any] | None = None, opset: int = 20) -> Any:
    """A model whose inputs are like these arrays."""
    proto = model(nodes, {n: a.shape for n, a in given.items()}, ["y"], constants, opset=opset)
    for port in proto.graph.input:
        port.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(given[port.name].dtype)
    return weft.load_onnx(proto)


@pytest.mark.parametrize("how", ["none", *COMBINED])
def test_elements_at_places_of_an_input(how: str) -> None:
    given = {"x": floats(4, 6, 3), "i": np.array([[[5], [-1], [2]], [[0], [3], [1]]]), "u": floats(2, 3, 1)}
    if how == "none":
        given["i"][0, 1] = 4
    net = net_of([node("ScatterElements", "x i u", "y", axis=1, reduction=how)], given)
    for places in (given["i"], (given["i"] + 7) % 6):
        expected, grid = given["x"].copy(), list(np.indices(places.shape))
        grid[1] = places
        if how == "none":
            expected[tuple(grid)] = given["u"]
        else:
            COMBINED[how](expected, tuple(grid), given["u"])
        np.testing.assert_allclose(net.run(None, {**given, "i": places})[0], expected, rtol=1e-6)
    assert len(net.variants) == 1


@pytest.mark.parametrize("how", ["none", *COMBINED])
def test_slices_at_places_of_an_input(how: str) -> None:
    last = [-1, -2] if how == "none" else [0, 5]  # one place twice where updates are combined
    given = {"x": floats(4, 6, 3), "i": np.array([[0, 5], [3, 2], last]), "u": floats(3, 3)}
    expected = given["x"].copy()
    if how == "none":
        expected[tuple(given["i"].T)] = given["u"]
    else:
        COMBINED[how](expected, tuple(given["i"].T), given["u"])
    net = net_of([node("ScatterND", "x i u", "y", reduction=how)], given)
    np.testing.assert_allclose(net.run(None, given)[0], expected, rtol=1e-6)


def test_updates_that_would_take_too_long_are_refused() -> None:
    given = {"x": floats(40_000), "i": np.zeros((40_000, 1), np.int64), "u": floats(40_000)}
    net = net_of([node("Identity", "i", "j"), node("Add", "j j", "k"), node("ScatterND", "x k u", "y")], given)
    with pytest.raises(UnsupportedError, match="depend on the values of `i`"):
        net.run(None, given)


@pytest.mark.parametrize(("op", "places", "updates"), [
    ("ScatterElements", (2, 3), (2, 2)), ("ScatterElements", (5, 3), (5, 3)), ("ScatterElements", (2,), (2,)),
    ("ScatterND", (2, 1), (2, 2)), ("ScatterND", (2, 3), (2,)),
])  # fmt: skip
def test_updates_that_do_not_fit(op: str, places: tuple[int, ...], updates: tuple[int, ...]) -> None:
    given = {"x": floats(4, 3), "i": np.zeros(places, np.int64), "u": floats(*updates)}
    axis = {"axis": 1} if op == "ScatterElements" else {}
    with pytest.raises(UnsupportedError, match=f"{op} `{op.lower()}`: "):
        net_of([node(op, "x i u", "y", **axis)], given).run(None, given)


@pytest.mark.parametrize("to_corners", [0, 1])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_at_places_of_a_grid(mode: str, outside: str, to_corners: int) -> None:
    torch = pytest.importorskip("torch")
    given = {"x": floats(2, 3, 6, 5), "g": floats(2, 4, 7, 2) * 1.2}
    made = node("GridSample", "x g", "y", mode=mode, padding_mode=outside, align_corners=to_corners)
    expected = torch.nn.functional.grid_sample(
        *map(torch.from_numpy, given.values()), mode=mode, padding_mode=outside, align_corners=bool(to_corners)
    )
    np.testing.assert_allclose(net_of([made], given, opset=16).run(None, given)[0], expected, atol=2e-5)


def test_volumes_at_places_of_a_grid() -> None:
    torch = pytest.importorskip("torch")
    given = {"x": floats(1, 2, 4, 5, 3), "g": floats(1, 2, 3, 2, 3)}
    expected = torch.nn.functional.grid_sample(*map(torch.from_numpy, given.values()), align_corners=False)
    made = net_of([node("GridSample", "x g", "y", mode="linear")], given).run(None, given)[0]
    np.testing.assert_allclose(made, expected, atol=2e-5)


def test_sequences_are_lists_while_the_graph_is_made() -> None:
    given = {"x": floats(5, 4)}
    nodes = [
        node("SplitToSequence", "x two", "s", axis=0), node("SequenceAt", "s last", "a"), node("Neg", "a", "b"),
        node("SequenceInsert", "s b first", "t"), node("SequenceErase", "t first2", "u"),
        node("SequenceLength", "u", "n"), node("ConcatFromSequence", "u", "c", axis=0), node("Cast", "n", "f", to=1),
        node("Mul", "c f", "y"),
    ]  # fmt: skip
    numbers = {"two": np.array(2), "last": np.array(-1), "first": np.array(0), "first2": np.array(1)}
    x = given["x"]
    expected = np.concatenate([-x[4:], x[2:4], x[4:]]) * 3
    np.testing.assert_array_equal(net_of(nodes, given, numbers).run(None, given)[0], expected)


def test_sequences_that_grow_in_a_loop() -> None:
    ports = [helper.make_tensor_value_info("n", TensorProto.INT64, []), helper.make_tensor_value_info("go", 9, [])]
    ports += [helper.make_tensor_sequence_value_info("old", 1, None)]
    ends = [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_sequence_value_info("new", 1, None)]
    inside = [node("Identity", "go", "on"), node("Cast", "n", "k", to=1), node("Mul", "x k", "row"),
              node("SequenceInsert", "old row", "new")]  # fmt: skip
    body = helper.make_graph(inside, "body", ports, ends)
    nodes = [node("SequenceEmpty", "", "none"), node("Loop", "rounds yes none", "rows", body=body),
             node("ConcatFromSequence", "rows", "y", axis=0, new_axis=1)]  # fmt: skip
    given = {"x": floats(4)}
    [made] = net_of(nodes, given, {"rounds": np.array(3), "yes": np.array(True)}).run(None, given)
    np.testing.assert_array_equal(made, np.stack([given["x"] * n for n in range(3)]))


@pytest.mark.parametrize(("nodes", "said"), [
    ([node("SequenceConstruct", "x x", "y")], "output `y` is a sequence"),
    ([node("SequenceConstruct", "x x", "s"), node("Neg", "s", "y")], "Neg `neg`: a sequence as input"),
    ([node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s five", "y")], "place 5 of 2 tensors"),
])  # fmt: skip
def test_sequences_where_tensors_are_wanted(nodes: list[Any], said: str) -> None:
    given = {"x": floats(2)}
    with pytest.raises(UnsupportedError, match=said):
        net_of(nodes, given, {"five": np.array(5)}).run(None, given)


def test_many_tensors_side_by_side() -> None:
    given = {"x": floats(2, 3)}
    [made] = net_of([helper.make_node("Concat", ["x"] * 600, ["y"], axis=1)], given).run(None, given)
    np.testing.assert_array_equal(made, np.tile(given["x"], (1, 600)))
