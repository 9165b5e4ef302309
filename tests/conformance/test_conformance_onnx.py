"""A fixed part of ONNX's own node tests; all of them: `python -m tests.conformance.onnx_nodes`."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("onnx")

from onnx_nodes import cases, try_case
from onnx_opsets import NEWEST, try_opset

#: Modules of ONNX's node tests whose tensors are small.
MODULES = [
    "abs", "add", "and_", "argmax", "argmin", "atan", "bitshift", "bitwiseand", "cast", "ceil", "celu", "clip",
    "compress", "concat", "constant", "constantofshape", "conv", "convinteger", "convtranspose", "cos", "cumsum",
    "depthtospace", "div", "dropout", "dynamicquantizelinear", "einsum", "elu", "equal", "erf", "exp", "expand",
    "eyelike", "flatten", "gather", "gatherelements", "gathernd", "gelu", "gemm", "globalaveragepool", "greater",
    "gridsample", "gru", "hardmax", "hardsigmoid", "hardswish", "if_", "instance_normalization", "isinf", "isnan",
    "leakyrelu", "less_or_equal", "logsoftmax", "lstm", "loop", "lrn", "matmul", "matmulinteger", "max", "mean", "min",
    "mish", "mod", "nonzero", "onehot", "pad", "pow", "prelu", "qlinearconv", "qlinearmatmul", "rangeop",
    "reduce_log_sum_exp", "reducel2", "reducemax", "reducemean", "reducesum", "reshape", "resize", "rnn", "scan",
    "scatterelements", "scatternd", "selu", "shape", "sign", "slice", "softmax", "softplus", "spacetodepth", "split",
    "squeeze", "swish", "tile", "topk", "transpose", "trilu", "unsqueeze", "upsample", "where",
]  # fmt: skip
#: Of the first two cases of each operator, those that are refused: sequences of different lengths.
REFUSED = {"test_scan_sum"}


def test_the_first_cases_of_each_operator_pass() -> None:
    seen: Counter[str] = Counter()
    outcomes = []
    for case in cases("node", MODULES):
        operator = case.model.graph.node[0].op_type
        seen[operator] += 1
        if seen[operator] <= 2 and not case.name.endswith("_expanded"):
            outcomes.append(try_case(case))
    assert len(outcomes) > 120
    assert [o for o in outcomes if o.verdict != "pass" and o.name not in REFUSED] == []


@pytest.mark.parametrize("opset", [14, 18, NEWEST])
def test_models_of_several_versions(opset: int) -> None:
    assert try_opset(opset)
