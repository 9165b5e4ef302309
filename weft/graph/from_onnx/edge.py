"""All that Weft asks of the onnx package: files read, tensors as numpy arrays, schemas with their function bodies.

A file is somebody else's: whatever is wrong with it is an error that says so, found before memory is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from weft.graph.from_onnx.file import Foreign, OnnxFile, OnnxFunction, OnnxGraph, OnnxNode, Parameter, Port, Size
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, Error, UnsupportedError

#: Versions of ONNX's operators whose meaning the tables know.
OLDEST, NEWEST = 1, 28
#: Before this version many operators broadcast in ways of their own; those that did not change by then are known.
SETTLED = 7
#: How deep subgraphs may stand in each other.
_DEEPEST = 32

_TYPES: dict[str, DType] = {
    "FLOAT": dt.float32, "DOUBLE": dt.float64, "FLOAT16": dt.float16, "BFLOAT16": dt.bfloat16, "BOOL": dt.bool_,
    "INT8": dt.int8, "INT16": dt.int16, "INT32": dt.int32, "INT64": dt.int64, "UINT8": dt.uint8, "UINT16": dt.uint16,
    "UINT32": dt.uint32, "UINT64": dt.uint64,
}  # fmt: skip


@cache
def onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError:
        raise ArgumentError(
            "ONNX models need the onnx package", why="it is not installed", help="pip install weft[onnx]"
        ) from None
    return onnx


def read_model(source: Any) -> OnnxFile:
    """The model in a file, in bytes or in a ModelProto."""
    proto, where, folder = _proto(source)
    if not proto.HasField("graph"):
        raise _bad(where, "it has no graph: it is empty, cut off, or no ONNX model at all")
    opsets = _opsets(proto.opset_import)
    _check_opset(opsets, where)
    reader = _Reader(where, folder)
    reader.check_text(*opsets)
    functions = {(_domain(f.domain), f.name): reader.function(f) for f in proto.functions}
    return OnnxFile(reader.graph(proto.graph), opsets, functions, where)


def _proto(source: Any) -> tuple[Any, str, Path | None]:
    if isinstance(source, onnx().ModelProto):
        return source, source.graph.name or "the model", None
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(bytes(source), "the bytes given"), "the bytes given", None
    if not isinstance(source, (str, Path)):
        raise ArgumentError(
            f"cannot load a model from {type(source).__name__}", help="pass a path, bytes or an onnx.ModelProto"
        )
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArgumentError(f"cannot read {path}", why=error.strerror or str(error)) from None
    return _parse(data, str(path)), str(path), path.parent


def _parse(data: bytes, where: str) -> Any:
    proto = onnx().ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception:  # protobuf's own error, which is no part of its interface
        raise _bad(where, "its bytes are not those of a model: the file is cut off, or of another kind") from None
    return proto


def _bad(where: str, why: str, help: str = "export the model again, or check it with onnx.checker") -> ArgumentError:
    return ArgumentError(f"{where} is not a sound ONNX model", why=why, help=help)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(i.domain): i.version for i in imports}


def _check_opset(opsets: Mapping[str, int], where: str) -> None:
    version = opsets.get("", NEWEST)
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedError(
            f"{where} uses version {version} of ONNX's operators",
            why=f"Weft knows versions {OLDEST} to {NEWEST}",
            help="onnx.version_converter.convert_version makes another version of a model",
        )


class _Reader:
    """From protobuf to plain data."""

    def __init__(self, where: str, folder: Path | None) -> None:
        self.where, self.folder, self.depth = where, folder, 0

    def check_text(self, *names: Any) -> None:
        """Protobuf hands out bytes where a text is none."""
        if not all(isinstance(name, str) for name in names):
            raise _bad(self.where, "it has a name that is not UTF-8 text")

    def graph(self, proto: Any) -> OnnxGraph:
        self.depth += 1
        self.check_text(proto.name, *(p.name for p in (*proto.input, *proto.output, *proto.initializer)))
        if self.depth > _DEEPEST:
            raise _bad(self.where, f"its graphs stand in each other more than {_DEEPEST} deep")
        if proto.sparse_initializer:
            raise UnsupportedError(f"{self.where} has sparse weights", help="store them as dense tensors")
        constants = {t.name: self.tensor(t) for t in proto.initializer}
        nodes = self.nodes(proto.node)
        self.depth -= 1
        return OnnxGraph(
            proto.name, nodes, tuple(map(_port, proto.input)), tuple(map(_port, proto.output)), constants, proto
        )

    def nodes(self, protos: Iterable[Any]) -> tuple[OnnxNode, ...]:
        made = []
        for n, p in enumerate(protos):
            self.check_text(p.name, p.op_type, p.domain, *p.input, *p.output)
            attributes = {a.name: self._attribute(a) for a in p.attribute}
            name = p.name or f"{p.op_type}_{n}"
            made.append(OnnxNode(name, p.op_type, _domain(p.domain), tuple(p.input), tuple(p.output), attributes))
        return tuple(made)

    def function(self, proto: Any) -> OnnxFunction:
        self.check_text(proto.name, proto.domain, *proto.input, *proto.output)
        defaults = {a.name: self._attribute(a) for a in proto.attribute_proto}
        nodes, opsets = self.nodes(proto.node), _opsets(proto.opset_import)
        return OnnxFunction(tuple(proto.input), tuple(proto.output), nodes, opsets, defaults)

    def _attribute(self, a: Any) -> Any:
        self.check_text(a.name, a.ref_attr_name)
        if a.ref_attr_name:
            return Parameter(a.ref_attr_name)
        kind = onnx().AttributeProto.AttributeType.Name(a.type)
        readers: dict[str, Any] = {
            "INT": lambda: a.i, "FLOAT": lambda: a.f, "STRING": lambda: a.s.decode("utf-8", "replace"),
            "INTS": lambda: tuple(a.ints), "FLOATS": lambda: tuple(a.floats),
            "STRINGS": lambda: tuple(s.decode("utf-8", "replace") for s in a.strings),
            "TENSOR": lambda: self.tensor(a.t), "GRAPH": lambda: self.graph(a.g),
            "GRAPHS": lambda: tuple(map(self.graph, a.graphs)),
        }  # fmt: skip
        return readers[kind]() if kind in readers else Foreign(kind.lower())

    def tensor(self, proto: Any) -> Any:
        """The values of a stored tensor; `Foreign` where Weft has no such type."""
        kind = _type_name(proto.data_type)
        if kind not in _TYPES:
            return Foreign(kind.lower())
        if min(proto.dims, default=0) < 0:
            raise _bad(self.where, f"its tensor `{proto.name}` has a negative size")
        if proto.data_location == onnx().TensorProto.EXTERNAL:
            proto = self._with_external_data(proto)
        count = math.prod(proto.dims)
        try:
            if count != _stored(proto):
                raise ValueError
            array: Any = onnx().numpy_helper.to_array(proto)
        except (ValueError, TypeError, AttributeError):
            sizes = ", ".join(map(str, proto.dims))
            raise _bad(
                self.where, f"its tensor `{proto.name}` of shape [{sizes}] does not have {count} {kind.lower()} values"
            ) from None
        return np.ascontiguousarray(array).reshape(tuple(proto.dims))

    def _with_external_data(self, proto: Any) -> Any:
        facts = {e.key: e.value for e in proto.external_data}
        self.check_text(*facts, *facts.values())
        whole = onnx().TensorProto()
        whole.CopyFrom(proto)
        whole.ClearField("external_data")
        whole.data_location = onnx().TensorProto.DEFAULT
        whole.raw_data = self._external_bytes(proto.name, facts)
        return whole

    def _external_bytes(self, name: str, facts: Mapping[str, str]) -> bytes:
        location = facts.get("location", "")
        if self.folder is None:
            raise ArgumentError(
                f"the values of `{name}` are in another file, {location!r}",
                why="a model given as bytes has no folder to look in",
                help="load it by its path",
            )
        folder = self.folder.resolve()
        path = (folder / location).resolve()
        if not location or not path.is_relative_to(folder):
            raise ArgumentError(
                f"{self.where} asks for the file {location!r}",
                why=f"the values of `{name}` may only be in the folder of the model",
                help="move the file beside the model, and export with a relative location",
            )
        if not path.is_file():  # a pipe would wait for ever
            raise ArgumentError(f"cannot read {location} for `{name}`", why="there is no such file")
        try:
            start, size = int(facts.get("offset", 0)), path.stat().st_size
            length = int(facts.get("length", max(size - start, 0)))
            if start < 0 or length < 0 or start + length > size:
                raise _bad(self.where, f"`{name}` needs {length} bytes from byte {start} on, and {location} has {size}")
            with path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except Error:
            raise
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "its offset is not a number"
            raise ArgumentError(f"cannot read {location} for `{name}`", why=why) from None


def _type_name(number: int) -> str:
    try:
        return str(onnx().TensorProto.DataType.Name(number))
    except ValueError:
        return f"type {number}"


def _stored(proto: Any) -> int:
    """How many elements a tensor has values for."""
    item = np.dtype(onnx().helper.tensor_dtype_to_np_dtype(proto.data_type)).itemsize
    if proto.HasField("raw_data"):
        return len(proto.raw_data) // item if len(proto.raw_data) % item == 0 else -1
    field = onnx().helper.tensor_dtype_to_field(proto.data_type)
    return len(getattr(proto, field))


def _port(proto: Any) -> Port:
    if proto.type.WhichOneof("value") != "tensor_type":
        kind = proto.type.WhichOneof("value") or "nothing"
        return Port(proto.name, kind.removesuffix("_type"), None, None)
    tensor = proto.type.tensor_type
    kind = _type_name(tensor.elem_type)
    shape = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return Port(proto.name, kind.lower(), _TYPES.get(kind), shape)


def _size(dim: Any) -> Size:
    which = dim.WhichOneof("value")
    if which == "dim_value":
        return int(dim.dim_value)
    return str(dim.dim_param) if which == "dim_param" and dim.dim_param else None


def type_of(number: int) -> DType:
    """The element type that an attribute names by number."""
    kind = _type_name(number)
    if kind not in _TYPES:
        raise UnsupportedError(f"elements of {kind.lower()}")
    return _TYPES[kind]


# Schemas


@lru_cache(maxsize=4096)
def _schema(op: str, domain: str, version: int) -> Any:
    try:
        return onnx().defs.get_schema(op, version, domain)
    except Exception:  # the package's own error, by a name that moved between versions
        return None


def fault_of(node: OnnxNode, opsets: Mapping[str, int]) -> str | None:
    """In words, why no such node can be: an operator that does not exist, too few inputs, attributes missing."""
    if node.domain not in opsets:
        return f"the model imports no operators of {node.domain!r}"
    schema = _schema(node.op, node.domain, opsets[node.domain])
    if schema is None and node.domain:
        return f"ONNX does not say what operators of {node.domain} mean"
    if schema is None:
        return f"no such operator in version {opsets[node.domain]}"
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        return f"it takes {_span(schema.min_input, schema.max_input)} inputs, not {len(node.inputs)}"
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        return f"it gives {_span(schema.min_output, schema.max_output)} outputs, not {len(node.outputs)}"
    if empty := _empty_input(node, schema):
        return empty
    missing = [a for a, facts in schema.attributes.items() if facts.required and a not in node.attributes]
    return f"it has no attribute {missing[0]}" if missing else _fault_of_attributes(node, schema)


def _empty_input(node: OnnxNode, schema: Any) -> str | None:
    """In words, which input a node leaves out that it must have."""
    for n, name in enumerate(node.inputs):
        said = schema.inputs[min(n, len(schema.inputs) - 1)]
        if not name and said.option.name != "Optional":
            return f"its input {said.name} is left empty"
    return None


def _fault_of_attributes(node: OnnxNode, schema: Any) -> str | None:
    for name, value in node.attributes.items():
        if name not in schema.attributes:
            return f"it takes no attribute {name}"
        wanted = schema.attributes[name].type.name
        if not isinstance(value, (Foreign, Parameter)) and wanted not in _kinds_of(value):
            return f"its attribute {name} is {' or '.join(_kinds_of(value)).lower()}, not {wanted.lower()}"
    return None


def _kinds_of(value: Any) -> tuple[str, ...]:
    """The types of attributes that such a value may be."""
    single = {int: "INT", float: "FLOAT", str: "STRING", OnnxGraph: "GRAPH", np.ndarray: "TENSOR"}
    if not isinstance(value, tuple):
        return (single[type(value)],)
    return tuple(f"{single[type(v)]}S" for v in value[:1]) or tuple(f"{kind}S" for kind in single.values())


def fault_in_use(node: OnnxNode, opsets: Mapping[str, int], given: Sequence[Any]) -> str | None:
    """Why a node cannot have such inputs, if ONNX's own inference of shapes says so.

    ``given`` are terms: a type and a shape each, and an array where its values are known; None for what is left out.
    """
    if not all(g is None or hasattr(g, "dtype") for g in given):  # a sequence
        return None
    schema = _schema(node.op, node.domain, opsets[node.domain])
    if schema is not None and (empty := _empty_input(node, schema)):  # what calls a function may leave out its inputs
        return empty
    helper, made = onnx().helper, onnx().numpy_helper
    number = {t: onnx().TensorProto.DataType.Value(k) for k, t in _TYPES.items()}
    ports = [(name, g) for name, g in zip(node.inputs, given) if name and g is not None]
    inputs = {n: helper.make_tensor_value_info(n, number[g.dtype], g.shape) for n, g in ports}
    values = {n: made.from_array(g.array, n) for n, g in ports if g.array is not None and g.dtype != dt.bfloat16}
    outputs = [helper.make_tensor_value_info(name, 0, None) for name in node.outputs if name]
    try:
        proto = onnx().NodeProto.FromString(_node_bytes(node))
        graph = helper.make_graph([proto], "use", list(inputs.values()), outputs, list(values.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])
        onnx().shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # the package's own, of several kinds
        return str(error).strip().splitlines()[-1]
    return None


def is_older(node: OnnxNode, opsets: Mapping[str, int]) -> bool:
    """Whether an operator of an old model means something else than those we know."""
    version = opsets.get("", NEWEST)
    return not node.domain and version < SETTLED and _since(node.op, version) != _since(node.op, SETTLED)


def _since(op: str, version: int) -> int:
    schema = _schema(op, "", version)
    return 0 if schema is None else int(schema.since_version)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} or more" if high > 1 << 20 else f"{low} to {high}"


def has_body(node: OnnxNode, opsets: Mapping[str, int]) -> bool:
    """Whether ONNX says what an operator is made of."""
    schema = _schema(node.op, node.domain, opsets.get(node.domain, NEWEST))
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def body_of(node: OnnxNode, opsets: Mapping[str, int], types: Sequence[tuple[DType, tuple[int, ...]] | None]) -> Any:
    """The function that a node stands for, of inputs of these ``types``; None where there is none."""
    version = opsets.get(node.domain, NEWEST)
    schema = _schema(node.op, node.domain, version)
    data = None
    if schema is not None and schema.has_function:
        data = _pick(schema.function_opset_versions, version, schema.get_function_with_opset_version)
    elif schema is not None and schema.has_context_dependent_function:
        given = [_type_bytes(t) for t in types]
        data = _pick(
            schema.context_dependent_function_opset_versions,
            version,
            lambda v: schema.get_context_dependent_function_with_opset_version(v, _node_bytes(node), given),
        )
    if not data:
        return None
    proto = onnx().FunctionProto()
    proto.ParseFromString(data)
    function = _Reader(str(node), None).function(proto)
    defaults = {
        name: _Reader(str(node), None)._attribute(a.default_value)
        for name, a in schema.attributes.items()
        if a.default_value.type
    }
    return OnnxFunction(
        function.inputs, function.outputs, function.nodes, function.opsets, {**defaults, **function.defaults}
    )


def _pick(versions: Sequence[int], wanted: int, get: Any) -> Any:
    fitting = [v for v in versions if v <= wanted]
    try:  # a body in newer operators than the model's says what the operator means as well
        return get(max(fitting) if fitting else min(versions)) if versions else None
    except Exception:  # bodies that depend on types say no in many ways
        return None


def _type_bytes(given: tuple[DType, tuple[int, ...]] | None) -> bytes:
    if given is None:
        return bytes(onnx().TypeProto().SerializeToString())
    number = next(onnx().TensorProto.DataType.Value(k) for k, t in _TYPES.items() if t == given[0])
    return bytes(onnx().helper.make_tensor_type_proto(number, given[1]).SerializeToString())


def _node_bytes(node: OnnxNode) -> bytes:
    values = {name: _as_proto(v) for name, v in node.attributes.items() if not isinstance(v, (Foreign, Parameter))}
    made = onnx().helper.make_node(node.op, node.inputs, node.outputs, node.name, domain=node.domain, **values)
    return bytes(made.SerializeToString())


def _as_proto(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return onnx().numpy_helper.from_array(value)
    return value.proto if isinstance(value, OnnxGraph) else value


def model_of_node(node: Any, types: Sequence[Any], version: int | None) -> Any:
    """A model of one node, whose inputs have these numpy types."""
    helper = onnx().helper
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
        for name, t in zip((n for n in node.input if n), types)
    ]
    outputs = [helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
    graph = helper.make_graph([node], node.op_type, inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version or NEWEST)])
