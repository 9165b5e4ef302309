"""ONNX's own node tests against Weft: `python -m tests.conformance.onnx_nodes [--only TEXT] [--list]`.

Prints how many pass, are refused (an error of ours before anything ran), or are wrong; wrong ones fail the command.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import weft
from weft.graph.evaluate import evaluate
from weft.graph.run.executable import Executable
from weft.ir.errors import Error, InternalError

#: Operators of strings, sequences, optional values and training, which are no part of this.
OUT_OF_SCOPE = (
    "String", "Sequence", "Optional", "Adagrad", "Adam", "Momentum", "Gradient", "RegexFullMatch", "TfIdf",
    "LabelEncoder", "ConcatFromSequence", "SplitToSequence", "ImageDecoder",
)  # fmt: skip


#: Narrow types are not rounded after every operator here, as they are in the package's own results: ours may be as far
#: from the evaluator's in float64 as these, and by the half step of one rounding.
HALF_STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class Outcome:
    name: str
    verdict: str
    why: str = ""


def cases(kind: str = "node", modules: Sequence[str] = ()) -> Iterator[Any]:
    """The cases of ONNX's package, without those out of scope; of node tests, those of some of its modules alone."""
    from onnx.backend.test.case import node
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in modules:
            importlib.import_module(f"{node.__name__}.{name}")
        found = node._NodeTestCases if modules else load_model_tests(kind=kind)
    yield from (case for case in found if case.model is None or is_in_scope(case))


def is_in_scope(case: Any) -> bool:
    from onnx import TensorProto

    graph = case.model.graph
    if any(node.op_type.startswith(OUT_OF_SCOPE) for node in graph.node) or "training" in case.name:
        return False
    ports = [*graph.input, *graph.output]
    if any(p.type.WhichOneof("value") != "tensor_type" for p in ports):
        return False
    return not any(p.type.tensor_type.elem_type == TensorProto.STRING for p in ports)


def model_path(case: Any) -> Path:
    """Where the model of a case lies; those without weights of their own lie in the package."""
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    import onnx

    return Path(onnx.__file__).parents[1] / case.url


def data_sets(case: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    if case.data_sets:
        yield from case.data_sets
    elif case.model_dir is None:
        stored = {t.name for t in model.graph.initializer}
        given = [even_values(p) for p in model.graph.input if p.name not in stored]
        path = model_path(case)
        yield given, [read_tensor(p) for p in sorted(path.parent.glob(f"{path.stem}_output_*.pb"))]
    else:
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            lists = [sorted(folder.glob(f"{what}_*.pb"), key=_number) for what in ("input", "output")]
            yield [read_tensor(p) for p in lists[0]], [read_tensor(p) for p in lists[1]]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def even_values(port: Any) -> Any:
    """What the package's own runner gives models that have no inputs stored."""
    shape = tuple(d.dim_value or 1 for d in port.type.tensor_type.shape.dim)
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def read_tensor(path: Path) -> Any:
    from onnx import TensorProto

    proto = TensorProto()
    proto.ParseFromString(path.read_bytes())
    return as_array(proto)


@mock.patch.object(Executable, "keeps_constants", True)
def try_case(case: Any) -> Outcome:
    import onnx

    model = case.model if case.model is not None else onnx.load(model_path(case))
    try:
        rep = weft.onnx.prepare(model)
        for inputs, expected in data_sets(case, model):
            stored = {t.name for t in model.graph.initializer}
            names = [p.name for p in model.graph.input if p.name not in stored]
            given = dict(zip(names, map(as_array, inputs)))
            made = rep.run(given)
            for n, (ours, theirs) in enumerate(zip(made, map(as_array, expected), strict=True)):
                compare(ours, theirs, case, n)
                if theirs.dtype.name in HALF_STEP:
                    compare_narrow(ours, theirs, exact_results(rep.model, given)[n], n)
    except InternalError as error:
        return Outcome(case.name, "wrong", f"{error.what} ({error.why})")
    except Error as error:
        return Outcome(case.name, "refused", f"{error.what} ({error.why})")
    except Exception as error:  # whatever it is, it is a fault of ours
        return Outcome(case.name, "wrong", f"{type(error).__name__}: {str(error).strip()[:400]}")
    return Outcome(case.name, "pass")


def as_array(value: Any) -> Any:
    """Cases have arrays, numbers of numpy, or stored tensors where numpy lacks the type."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def compare(ours: Any, theirs: Any, case: Any, place: int) -> None:
    assert ours.dtype == theirs.dtype, f"output {place} is {ours.dtype}, not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"output {place} has shape {ours.shape}, not {theirs.shape}"
    if theirs.dtype.name not in HALF_STEP:
        np.testing.assert_allclose(ours, theirs, rtol=case.rtol, atol=max(case.atol, 1e-7), equal_nan=True)


def compare_narrow(ours: Any, theirs: Any, exact: Any, place: int) -> None:
    a, b, e = (np.asarray(v).astype(np.float64) for v in (ours, theirs, exact))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    known = np.isfinite(b) & np.isfinite(e)
    with np.errstate(invalid="ignore"):
        own = np.abs(b - e)[known].max(initial=0.0)
        near = np.abs(a - e) <= own + HALF_STEP[theirs.dtype.name] * np.abs(e)
    bad = ~(same | (known & near))
    assert not bad.any(), f"output {place} is {a[bad][0]}, the package's {b[bad][0]}, in float64 {e[bad][0]}"


def exact_results(model: Any, given: dict[str, Any]) -> list[Any]:
    """Every result by the evaluator, in float64; what was known before anything ran as it is."""
    arrays = model._checked(given)
    variant, made = model.find(arrays), {}
    if variant.compiled is not None:
        graph = variant.compiled.executable.graph
        made = dict(zip(graph.outputs, evaluate(graph, [arrays[name] for name in variant.given], wide=True)))
    return [t.array if t.edge is None else made[t.edge] for t in variant.outputs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this in it; several with commas")
    parser.add_argument("--kind", default="node", help="node, simple, pytorch-converted, pytorch-operator, real")
    parser.add_argument("--modules", default="", help="of onnx.backend.test.case.node, with commas; all without")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th case")
    parser.add_argument("--list", action="store_true", help="name the refused ones too")
    options = parser.parse_args()
    modules = [m for m in options.modules.split(",") if m]
    wanted = [c for c in cases(options.kind, modules) if any(text in c.name for text in options.only.split(","))]
    outcomes = []
    for case in wanted[:: options.every]:
        outcomes.append(try_case(case))
        if outcomes[-1].verdict == "wrong" or (options.list and outcomes[-1].verdict == "refused"):
            print(f"{outcomes[-1].verdict} {outcomes[-1].name}: {outcomes[-1].why}", flush=True)
    counts = collections.Counter(o.verdict for o in outcomes)
    share = counts["pass"] / max(len(outcomes), 1)
    print(f"{len(outcomes)} cases: {counts['pass']} pass ({share:.1%}), {counts['refused']} refused, "
          f"{counts['wrong']} wrong")  # fmt: skip
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
