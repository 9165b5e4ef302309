"""Files that somebody made to do harm: each is refused by an error that names what is wrong, soon, without a crash."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "graph"))

from onnx_models import TensorProto, helper, mlp, model, node, onnx

import weft
from weft.graph.from_onnx.budget import MOST_POINTS, Budget, free_memory
from weft.ir.errors import ArgumentError, Error, InternalError, UnsupportedError

X = np.ones((2, 4), np.float32)
#: Seconds that a refusal may take, on a busy machine too.
SOON = 60


def _function(name: str, nodes: list[Any], inputs: str = "x", outputs: str = "y") -> Any:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs.split(), outputs.split(), nodes, imports)


def _calls(*functions: Any, op: str = "f") -> Any:
    return model([node(op, "x", "y", domain="own")], {"x": [2, 4]}, ["y"], functions=functions, domains=["own"])


def _call(op: str, given: str, made: str) -> Any:
    return node(op, given, made, domain="own", name=f"{op}_{made}")


def itself() -> Any:
    return _calls(_function("f", [_call("f", "x", "y")]))


def each_other() -> Any:
    return _calls(_function("f", [_call("g", "x", "y")]), _function("g", [_call("f", "x", "y")]))


def doubling() -> Any:
    """Thirty functions, each of which calls the next twice: a thousand million nodes in a small file."""
    functions = [_function(f"f{n}", [_call(f"f{n + 1}", "x", "a"), _call(f"f{n + 1}", "a", "y")]) for n in range(30)]
    return _calls(*functions, _function("f30", [node("Relu", "x", "y")]), op="f0")


def a_long_chain() -> Any:
    functions = [_function(f"f{n}", [_call(f"f{n + 1}", "x", "y")]) for n in range(3000)]
    return _calls(*functions, _function("f3000", [node("Relu", "x", "y")]), op="f0")


def a_hole_in_a_function() -> Any:
    return _calls(_function("f", [node("Add", "x nothing", "y")]))


def _loop(depth: int, made: str) -> Any:
    """A node that goes 200 times round what goes 200 times round, so many deep."""
    a, b, go, on = (f"{name}{depth}" for name in ("a", "b", "go", "on"))
    ports = [helper.make_tensor_value_info(n, k, None) for n, k in ((f"n{depth}", 7), (go, 9), (a, 1))]
    ends = [helper.make_tensor_value_info(n, k, None) for n, k in ((on, 9), (b, 1))]
    inside = node("Relu", a, b) if depth == 0 else _loop(depth - 1, b)
    graph = helper.make_graph([node("Identity", go, on), inside], "body", ports, ends)
    return node("Loop", "rounds yes x", made, body=graph, name=f"loop_{depth}")


def loops_in_loops() -> Any:
    numbers = {"rounds": np.array(200), "yes": np.array(True)}
    return model([_loop(3, "y")], {"x": [2, 4]}, ["y"], numbers)


def graphs_in_graphs(depth: int) -> bytes:
    """As bytes: protobuf itself writes no such model."""

    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        head = number << 3 | 2
        return (bytes([head]) if head < 128 else bytes([head & 127 | 128, head >> 7])) + length + bytes([size]) + data

    graph = _small().SerializeToString()
    for _ in range(depth):
        branch = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(1, b"yes") + field(2, b"t") + field(4, b"If") + field(5, branch))
    return field(7, graph) + field(8, b"\x10\x11")


def _small() -> Any:
    return helper.make_graph([node("Relu", "x", "t")], "g", [], [helper.make_tensor_value_info("t", 1, None)])


def one_name_twice() -> Any:
    return model([node("Relu", "x", "y"), node("Neg", "x", "y")], {"x": [2, 4]}, ["y"])


def two_inputs_of_one_name() -> Any:
    proto = model([node("Relu", "x", "y")], {"x": [2, 4]}, ["y"])
    proto.graph.input.append(proto.graph.input[0])
    return proto


def an_operator_of_nobody() -> Any:
    return model([node("Rule", "x", "y", domain="com.nobody")], {"x": [2, 4]}, ["y"], domains=["com.nobody"])


def a_graph_for_a_number() -> Any:
    return model([node("Softmax", "x", "y", axis=_small())], {"x": [2, 4]}, ["y"])


def a_number_for_a_graph() -> Any:
    nodes = [node("If", "yes", "y", then_branch=3, else_branch=4)]
    return model(nodes, {"x": [2, 4]}, ["y"], {"yes": np.array(True)})


def repeated_without_measure() -> Any:
    return model([node("Tile", "x r", "y")], {"x": [2, 4]}, ["y"], {"r": np.array([1 << 40, 1 << 20])})


def counted_without_measure() -> Any:
    nodes = [node("Range", "a b c", "r"), node("Add", "x r", "y")]
    numbers = {"a": np.array(0), "b": np.array(1 << 62), "c": np.array(1)}
    return model(nodes, {"x": [2, 4]}, ["y"], numbers, kind=TensorProto.INT64)


def padded_without_measure() -> Any:
    return model([node("Pad", "x p", "y")], {"x": [2, 4]}, ["y"], {"p": np.array([0, 0, 1 << 60, 1 << 60])})


def updates_outside() -> Any:
    numbers = {"p": np.array([[9]]), "u": np.ones((1, 4), np.float32)}
    return model([node("ScatterND", "x p u", "y")], {"x": [2, 4]}, ["y"], numbers)


def a_row_that_is_not_there() -> Any:
    return model([node("Gather", "x p", "y")], {"x": [2, 4]}, ["y"], {"p": np.array([0, 7])})


def counted_to_infinity() -> Any:
    numbers = {n: np.array(v, np.float32) for n, v in (("a", 0), ("b", np.inf), ("c", 1))}
    return model([node("Range", "a b c", "r"), node("Add", "x r", "y")], {"x": [2, 4]}, ["y"], numbers)


def scaled_by_no_number() -> Any:
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], "resize")]
    return model(nodes, {"x": [2, 4]}, ["y"], {"s": np.array([1, np.nan], np.float32)})


def no_groups() -> Any:
    nodes = [node("GroupNormalization", "x g g", "y", num_groups=0)]
    return model(nodes, {"x": [2, 4]}, ["y"], {"g": np.ones(4, np.float32)}, opset=21)


def _share_of_memory(share: float) -> int:
    """Of what is free: a tensor of so many bytes could be, but not what is made for each byte."""
    return int(free_memory() * share)


def resized_to(mode: str, share: float) -> Any:
    nodes = [helper.make_node("Resize", ["x", "", "", "s"], ["y"], "resize", mode=mode)]
    return model(nodes, {"x": [2, 4]}, ["y"], {"s": np.array([2, _share_of_memory(share)])})


def _filled(name: str, *shape: int) -> tuple[Any, dict[str, Any]]:
    return node("ConstantOfShape", f"{name}_shape", name), {f"{name}_shape": np.array(shape)}


def scattered(op: str, place: Any) -> Any:
    """Updates at known places of tensors that are there by their shape alone."""
    size = _share_of_memory(0.05) // 4
    data, sizes = _filled("d", 1, size)
    more, further = _filled("u", 1, size)
    nodes = [data, more, node(op, "d p u", "s"), node("ReduceMax", "s", "m"), node("Add", "x m", "y")]
    return model(nodes, {"x": [2, 4]}, ["y"], {**sizes, **further, "p": place})


def summed_up() -> Any:
    """One number, of 2 to the 51st points."""
    einsum = node("Einsum", "w w w w w w x", "y", equation="a,b,c,d,e,f,gh->")
    return model([einsum], {"x": [2, 4]}, ["y"], {"w": np.ones(256, np.float32)})


def multiplied_out() -> Any:
    """A small result of small tensors, by 2 ** 48 points."""
    names = "abcd"
    nodes = [node("Einsum", " ".join(names), "z", equation="i,j,k,l->ijkl"), node("Add", "x z", "y")]
    return model(nodes, {"x": [2, 4]}, ["y"], {name: np.ones(4096, np.float32) for name in names})


def orders_for_a_terminal() -> Any:
    return model([node("Rule", "x", "y", domain="com.\x1b[2J\x07", name="\x1b]0;owned")], {"x": [2, 4]}, ["y"],
                 domains=["com.\x1b[2J\x07"])  # fmt: skip


CASES: dict[str, tuple[Callable[[], Any], type[Error], str]] = {
    "a function that calls itself": (itself, ArgumentError, "own.f `f_y`: the function calls itself"),
    "functions that call each other": (each_other, ArgumentError, "own.f `f_y`: the function calls itself"),
    "functions that double": (doubling, UnsupportedError, "net has more than 20001 nodes"),
    "a chain of functions": (a_long_chain, ArgumentError, "stand in each other more than 32 deep"),
    "a hole in a function": (a_hole_in_a_function, ArgumentError, "Add `add` reads `nothing`, which nothing makes"),
    "loops in loops": (loops_in_loops, UnsupportedError, "net has more than 20001 nodes"),
    "graphs in graphs": (lambda: graphs_in_graphs(3000), ArgumentError, "not a sound ONNX model"),
    "one name twice": (one_name_twice, ArgumentError, "Neg `neg` makes `y`, which is there already"),
    "two inputs of one name": (two_inputs_of_one_name, ArgumentError, "two inputs are `x`"),
    "an operator of nobody": (an_operator_of_nobody, UnsupportedError, "com.nobody.Rule `rule`"),
    "a graph for a number": (a_graph_for_a_number, ArgumentError, "its attribute axis is graph, not int"),
    "a number for a graph": (a_number_for_a_graph, ArgumentError, "_branch is int, not graph"),
    "tiles without measure": (repeated_without_measure, UnsupportedError, "Tile `tile`: a tensor of shape"),
    "counts without measure": (counted_without_measure, UnsupportedError, "Range `range`"),
    "updates outside": (updates_outside, UnsupportedError, "ScatterND `scatternd`: updates outside of (2, 4)"),
    "a row that is not there": (a_row_that_is_not_there, UnsupportedError, "places 0 to 7 of 2 elements"),
    "counts to infinity": (counted_to_infinity, UnsupportedError, "a range of steps of 1.0 from 0.0 to inf"),
    "scales that are no number": (scaled_by_no_number, UnsupportedError, "Resize `resize`: scales of [1.0, nan]"),
    "no groups": (no_groups, UnsupportedError, "4 channels in 0 groups"),
    "resized to all memory": (lambda: resized_to("nearest", 0.1), UnsupportedError, "Resize `resize`: tables of"),
    "resized to much memory": (lambda: resized_to("linear", 0.05), UnsupportedError, "Resize `resize`: tables of"),
    "scattered rows": (
        lambda: scattered("ScatterND", np.array([[0]])),
        UnsupportedError,
        "ScatterND `scatternd`: tables of",
    ),
    "products without measure": (multiplied_out, UnsupportedError, "Einsum `einsum`: a tensor of shape"),
    "sums without measure": (summed_up, UnsupportedError, "Einsum `einsum`: work of 2251799813685248 points"),
    "orders for a terminal": (orders_for_a_terminal, UnsupportedError, "com.\N{REPLACEMENT CHARACTER}[2J"),
    "pads without measure": (padded_without_measure, UnsupportedError, "Pad `pad`: a tensor of shape"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_name_and_soon(name: str) -> None:
    make, kind, text = CASES[name]
    proto, start = make(), time.process_time()
    x = X.astype(np.int64) if make is counted_without_measure else X
    with pytest.raises(Error) as caught:
        weft.load_onnx(proto)(x)
    assert isinstance(caught.value, kind)
    assert not isinstance(caught.value, InternalError)
    assert text in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert time.process_time() - start < SOON


def test_all_tables_of_a_model_have_one_account() -> None:
    budget = Budget(free=4000)
    budget.take(600)
    with pytest.raises(UnsupportedError, match="tables of 401 bytes"):
        budget.take(401)
    budget.take(400)


def test_the_work_of_a_model_has_one_account() -> None:
    budget = Budget()
    budget.work(MOST_POINTS - 5)
    with pytest.raises(UnsupportedError, match="work of 6 points"):
        budget.work(6)
    budget.work(5)


def test_many_names_are_looked_at_once_each() -> None:
    """Inputs, and nodes with graphs in them, each of which knows the names around it."""
    inputs = [helper.make_tensor_value_info(f"x{n}", 1, [1]) for n in range(40_000)]
    inside = helper.make_graph([node("Relu", "x0", "r")], "g", [], [helper.make_tensor_value_info("r", 1, None)])
    nodes = [node("If", "yes", f"y{n}", then_branch=inside, else_branch=inside) for n in range(4000)]
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    ends = [helper.make_tensor_value_info("missing", 1, None)]
    proto = helper.make_model(helper.make_graph(nodes, "net", inputs, ends, [yes]))
    start = time.process_time()
    with pytest.raises(ArgumentError, match="output `missing` is made by no node"):
        weft.load_onnx(proto)
    assert time.process_time() - start < SOON


@pytest.mark.parametrize("what", ["folder", "pipe", "nothing"])
def test_weights_in_what_is_no_file(tmp_path: Path, what: str) -> None:
    if what == "folder":
        (tmp_path / "w.bin").mkdir()
    elif what == "pipe":
        os.mkfifo(tmp_path / "w.bin")
    proto = mlp()
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "w.bin")
    proto.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArgumentError, match=r"cannot read w.bin for `w`\n  why:   there is no such file"):
        weft.load_onnx(tmp_path / "m.onnx")
