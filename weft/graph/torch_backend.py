"""`torch.compile(model, backend="weft")` and `weft.compile(model, example_inputs)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.torch_edge import (
    export,
    flatten,
    lower_module,
    register_backend,
    static_inputs,
    torch,
    unflatten,
)
from weft.graph.torch_model import FxModel, Options
from weft.ir.errors import ArgumentError

#: Models that were compiled through torch.compile in this process, for `weft.explain`; the last ones.
COMPILED: list[FxModel] = []
_MOST_KEPT = 64


def backend(gm: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_mode: Any) -> Any:
    """What Dynamo calls with a part of a program: gives the function that runs in its place."""
    chosen = _options(options)
    if torch().is_grad_enabled() and _wants_gradients(gm, example_inputs):
        return _told(gm, "gradients are asked for: forward and backward run as eager operators")

    def compiler(module: Any, _inputs: Sequence[Any]) -> Any:
        model = FxModel(module, static_inputs(), chosen)
        _remember(model)

        def run(args: list[Any]) -> list[Any]:
            given = list(args)
            args.clear()  # the caller holds nothing: what is no longer used may go
            return model(given)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    try:
        return lower_module(gm, example_inputs, compiler)
    except Exception as error:  # whatever torch cannot take apart, it can still run
        return _told(gm, f"{type(error).__name__}: {error}")


def register() -> None:
    """Makes the backend known by its name, where the entry point of the package is not installed."""
    register_backend(backend)


def _options(given: Mapping[str, Any] | None) -> Options:
    named = dict(given or {})
    wrong = sorted(named.keys() - {"check", "numerics"})
    if wrong:
        raise ArgumentError(f"weft has no option `{wrong[0]}`", help="options are check and numerics")
    if named.get("check") not in (None, "first"):
        raise ArgumentError(f"check={named['check']!r} is not known", help='use options={"check": "first"}')
    return Options(**named)


def _wants_gradients(gm: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*inputs, *gm.parameters(), *gm.buffers()]
    return any(isinstance(t, torch().Tensor) and t.requires_grad for t in tensors)


def _told(gm: Any, reason: str) -> Any:
    """The module as it is; the reason is kept for `explain`."""
    _remember(FxModel(gm, reason=reason))
    return gm.forward


def _remember(model: FxModel) -> None:
    COMPILED.append(model)
    del COMPILED[:-_MOST_KEPT]


class CompiledModel:
    """A model compiled for the sizes it is called with, without Dynamo: it checks its inputs itself.

    >>> fast = weft.compile(model, (x,))
    >>> y = fast(x)
    """

    def __init__(self, model: Any, options: Options) -> None:
        self.model, self.options = model, options
        self.parts: dict[Any, _Exported | str] = {}

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves, spec = flatten((args, named))
        part = self._part(args, named, leaves, spec)
        if isinstance(part, str) or (torch().is_grad_enabled() and part.wants_gradients(leaves)):
            return self.model(*args, **named)
        return part(leaves)

    def _part(self, args: Any, named: Any, leaves: list[Any], spec: Any) -> _Exported | str:
        kinds = ((a.shape, a.dtype, a.stride()) if isinstance(a, torch().Tensor) else a for a in leaves)
        key = (str(spec), *kinds)
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = self._export(args, named)
        return part

    def _export(self, args: Any, named: Any) -> _Exported | str:
        try:
            return _Exported(export(self.model, args, named), self.options)
        except Exception as error:  # torch cannot trace every model
            import warnings

            reason = f"torch.export: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            warnings.warn(f"weft: the model runs as eager PyTorch: {reason}", stacklevel=4)
            return reason


class _Exported:
    """One exported program: parameters first, then the tensors of a call."""

    def __init__(self, program: Any, options: Options) -> None:
        signature = program.graph_signature
        self.program = program
        state = {**program.state_dict, **program.constants}
        self._held: list[Any] = []
        user: list[int] = []
        for n, spec in enumerate(signature.input_specs):
            kind = spec.kind.name
            if kind == "USER_INPUT":
                user.append(n)
                self._held.append(None)
            else:
                self._held.append(_named_tensor(program, state, spec.target))
        self._user = user
        updates, self._results = _read_outputs(signature)
        mutated = set(updates)
        static = frozenset(n for n in range(len(self._held)) if n not in user and n not in mutated)
        self.model = FxModel(program.graph_module, static, options, updates)
        self._spec = program.call_spec.out_spec
        self._parameters = [t for t in self._held if t is not None and t.requires_grad]

    def wants_gradients(self, leaves: Sequence[Any]) -> bool:
        tensors = [a for a in leaves if isinstance(a, torch().Tensor)]
        return bool(self._parameters) or any(t.requires_grad for t in tensors)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        given = list(self._held)
        for place, value in zip(self._user, leaves):
            given[place] = value
        made = iter(self.model(given))
        results = [next(made) if constant is _TENSOR else constant for constant in self._results]
        return unflatten(results, self._spec)


_TENSOR = object()


def _named_tensor(program: Any, state: Mapping[str, Any], target: str) -> Any:
    """The live parameter or buffer, so that changes to it are seen."""
    return state[target]


def _read_outputs(signature: Any) -> tuple[dict[int, int], list[Any]]:
    """Which inputs take which outputs, and the results: `_TENSOR`, or a plain value."""
    places = {spec.target: n for n, spec in enumerate(signature.input_specs) if spec.target is not None}
    names = {spec.arg.name: n for n, spec in enumerate(signature.input_specs) if hasattr(spec.arg, "name")}
    updates: dict[int, int] = {}
    results: list[Any] = []
    for n, spec in enumerate(signature.output_specs):
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            results.append(_TENSOR if type(spec.arg).__name__ == "TensorArgument" else getattr(spec.arg, "value", None))
        elif kind == "BUFFER_MUTATION":
            updates[places[spec.target]] = n
        elif kind == "USER_INPUT_MUTATION":
            updates[names[spec.target]] = n
        else:
            raise ArgumentError(f"a model that gives {kind.lower()}")
    return updates, results


def compile(model: Any, example_inputs: Any, *, options: Mapping[str, Any] | None = None) -> CompiledModel:
    """``model`` compiled for ``example_inputs``; a call with other sizes compiles it for these too.

    ``model`` is a module or a function of tensors, ``example_inputs`` a tensor or a tuple of arguments.
    ``options={"check": "first"}`` compares the first call with eager, and stays with eager where they differ.
    """
    compiled = CompiledModel(model, _options(options))
    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    with torch().no_grad():
        leaves, spec = flatten((args, {}))
        part = compiled._part(args, {}, leaves, spec)
        if isinstance(part, _Exported):
            given = list(part._held)
            for place, value in zip(part._user, leaves):
                given[place] = value
            part.model._find(given)
    return compiled
