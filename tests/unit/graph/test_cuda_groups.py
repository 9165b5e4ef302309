"""Groups of graphs as the GPU scheduler makes them: their CUDA text builds, and they compute the same on the CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import weft
from weft.graph.builder import formula_program
from weft.graph.formulas import contraction
from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.from_torch.exported import ExportedModel
from weft.graph.from_torch.model import Options
from weft.graph.from_torch.trace import trace
from weft.graph.from_torch.translate import translate
from weft.graph.graph import Edge
from weft.graph.groups.compile_group import prepare_group
from weft.graph.groups.group_program import group_program
from weft.graph.groups.partition import Group
from weft.graph.groups.storage import Storage
from weft.graph.rewrites.simplify import simplify
from weft.graph.run.cuda_processor import Cuda
from weft.ir import dtype as dt
from weft.lang.parse import parse_programs
from weft.operators.specialization import compile_record
from weft.operators.stages import build
from weft.runtime.executor import Executor
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.specialize import specialize

MACHINE = gpu_for_arch("sm_90")


class _Described(Executor):
    """A GPU that code can be made for, and that is not here."""

    code_alignment = 16

    def machine(self, target: str) -> Any:
        return MACHINE


def compute(model: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[float]]:
    """The results of ``model`` by its groups as the GPU scheduler makes them, on the CPU; and seconds expected of each
    on the GPU."""
    part = ExportedModel(trace(model, args, {}), Options())
    processor = Cuda(_Described())
    arrays = TorchArrays(processor)
    graph = simplify(translate(part.model.gm, args, {}), arrays, lambda g: g)
    storage = Storage(graph, takes_pieces=processor.takes_pieces)
    memory = dict(zip(graph.inputs, args))

    def tensor(name: str) -> Any:
        found, edge = storage.find(name), graph.edges[name]
        assert found is not None
        if found.root not in memory:
            memory[found.root] = arrays.empty(graph.edges[found.root], found.layout.strides)
        return arrays.view(memory[found.root], edge.shape, found.layout.strides, found.layout.offset)

    seconds = []
    for item in storage.partition.items:
        assert isinstance(item, Group)
        program = group_program(graph, item.members, storage.outputs(item), storage.source, item.name)
        prepared = prepare_group(graph, storage, program, arrays)
        made = build(prepared.program.program, prepared.signature, MACHINE, True, prepared.definition.how)
        kernel = made.kernel()
        assert compile_record(kernel, MACHINE, fast=True, misaligned=prepared.misaligned).blobs["code"]
        weft.kernel(kernel, numerics="fast")(*(tensor(name) for name in prepared.tensors))
        seconds.append(processor.estimate()(made.separated().main, True)[0])
    return [tensor(name) for name in graph.outputs], seconds


def perceptron(x: Any, w: Any, b: Any, v: Any, gain: Any) -> Any:
    h = F.gelu(torch.addmm(b, x, w.t()))
    return F.layer_norm(x + h @ v, (64,), gain)


def images(x: Any, w: Any, deep: Any, one: Any, gain: Any) -> Any:
    y = F.relu(F.conv2d(x, w, stride=2, padding=1))
    y = F.relu6(F.conv2d(F.max_pool2d(y, 3, 1, 1), deep, padding=1, groups=32) * gain[:, None, None])
    return (F.relu(F.conv2d(y, one)) + y).mean((2, 3))


def normal(*shape: int) -> Any:
    return torch.randn(*shape) * 0.3


@pytest.mark.parametrize(
    ("model", "shapes", "dtype"),
    [
        (perceptron, ((48, 64), (128, 64), (128,), (128, 64), (64,)), torch.float32),
        (images, ((1, 16, 18, 18), (32, 16, 3, 3), (32, 1, 3, 3), (32, 32, 1, 1), (32,)), torch.bfloat16),
    ],
)
def test_groups_compute_the_same_on_the_cpu(model: Any, shapes: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    args = tuple(normal(*shape).to(dtype) for shape in shapes)
    with torch.no_grad():
        (made,), seconds = compute(model, args)
        expected = model(*(a.float() for a in args))
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    assert float((made.float() - expected).norm() / expected.norm()) < tolerance
    assert len(seconds) <= 6


def embedded(tokens: Any, table: Any, places: Any, gain: Any) -> Any:
    return F.layer_norm(F.embedding(tokens, table) + places, (768,), gain)


def test_rows_that_data_choose_are_normalized_in_registers() -> None:
    """Not by a thread for each row, which takes a hundred times as long."""
    torch.manual_seed(0)
    args = torch.randint(0, 50, (1, 128)), normal(50, 768), normal(128, 768), normal(768)
    with torch.no_grad():
        (made,), seconds = compute(embedded, args)
        torch.testing.assert_close(made, embedded(*args), rtol=1e-4, atol=1e-5)
    assert len(seconds) == 1
    assert seconds[0] < 2e-5


def turned_in_part(x: Any, cos: Any, sin: Any) -> Any:
    """As some models turn queries: the first quarter of each by its place, the rest as it is."""
    first, rest = x[..., :16], x[..., 16:]
    half = torch.cat((-first[..., 8:], first[..., :8]), -1)
    return torch.cat((first * cos + half * sin, rest), -1) * 0.5


def test_pieces_are_computed_by_what_puts_them_together() -> None:
    torch.manual_seed(0)
    args = normal(2, 3, 10, 64), normal(10, 16), normal(10, 16)
    with torch.no_grad():
        (made,), seconds = compute(turned_in_part, args)
        torch.testing.assert_close(made, turned_in_part(*args), rtol=1e-4, atol=1e-5)
    assert len(seconds) == 1


@pytest.mark.parametrize(("rows", "columns", "count"), [(64, 64, 3), (1, 64, 1), (64, 1, 1)])
def test_products_with_a_vector_have_one_plan(rows: int, columns: int, count: int) -> None:
    """Other tiles and cuts are of matrices: scheduling the same again for them would only take time."""
    edges = [Edge("x", dt.bfloat16, (rows, 64)), Edge("w", dt.bfloat16, (64, columns))]
    core = SimpleNamespace(program=formula_program("product", edges, contraction.matmul))
    group = SimpleNamespace(by_plan=lambda plan: plan)
    assert len(Cuda(_Described()).candidates(group, core)) == count  # type: ignore[arg-type]


def test_products_of_three_factors_are_candidates_too() -> None:
    text = "def f(float(N,K) X, float(K,M) W, float(K) G) -> (Y) { Y(n,m) +=! X(n,k) * G(k) * W(k,m) }"
    program = specialize(parse_programs(text)["f"], {"N": 8, "K": 8, "M": 8})
    group, core = SimpleNamespace(by_plan=lambda plan: plan), SimpleNamespace(program=program)
    assert Cuda(_Described()).candidates(group, core)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "count"), [("bfloat16", 1), ("float", 0)])
def test_convolutions_that_the_copy_engine_can_fetch_are_candidates(dtype: str, count: int) -> None:
    text = f"""def f({dtype}(N,H,W,C) X, {dtype}(F,P,Q,C) V) -> (float32 Y) {{
        Y(n,h,w,f) +=! float32(X(n,h+p,w+q,c)) * float32(V(f,p,q,c)) where h in 0:6, w in 0:6
    }}"""
    program = specialize(parse_programs(text)["f"], {"N": 8, "H": 8, "W": 8, "C": 64, "F": 64, "P": 3, "Q": 3})
    group, core = SimpleNamespace(by_plan=lambda plan: plan), SimpleNamespace(program=program)
    assert len(Cuda(_Described()).candidates(group, core)) == count  # type: ignore[arg-type]
