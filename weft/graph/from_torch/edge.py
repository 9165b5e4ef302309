"""The one module that imports torch, on first use."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from weft.graph.from_torch.encoder_layers import whole_layers_apart
from weft.graph.from_torch.module_state import ChangesItselfError, ModuleState
from weft.graph.from_torch.quiet import TRACERS, alone_while_tracing, as_if_exporting, exporting_apart, silent
from weft.ir.dtype import DType, parse_dtype
from weft.ir.errors import UnsupportedError
from weft.ir.numerics import Numerics
from weft.runtime.pause_collector import collector_paused

#: Operators that have formulas of their own, and so are not taken apart.
WHOLE = (
    "_softmax", "_log_softmax", "_safe_softmax", "native_layer_norm", "native_group_norm", "gelu", "silu", "hardswish",
    "hardsigmoid", "mish", "elu", "leaky_relu", "softplus", "relu", "sigmoid", "_native_batch_norm_legit_no_training",
    "_scaled_dot_product_flash_attention_for_cpu", "convolution", "addmm", "baddbmm", "mm", "bmm", "embedding",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "upsample_nearest2d", "var", "var_mean", "tril",
    "triu", "masked_fill", "addcmul", "addcdiv", "lerp", "stack", "unbind", "split", "t", "transpose", "rsub",
    "bernoulli", "rrelu", "_unsafe_view", "slice_scatter", "select_scatter", "_fused_rms_norm", "roll",
)  # fmt: skip


#: Operators outside of torch's core set that it knows how to take apart, and that we have no formula for.
TAKEN_APART = (
    "grid_sampler_2d", "addmv", "dist", "narrow_copy", "permute_copy",
    "view_copy", "unbind_copy", "_native_batch_norm_legit_functional",
    "_batch_norm_with_update_functional", "max_pool2d_with_indices_backward", "special_spherical_bessel_j0",
)  # fmt: skip


@functools.cache
def torch() -> Any:
    """The package."""
    try:
        import torch as package
    except ImportError:
        raise UnsupportedError("torch is not installed", help="pip install 'weft[torch]'") from None
    return package


@functools.cache
def cpp_extension() -> Any:
    """What torch builds extensions with."""
    torch()
    import torch.utils.cpp_extension as module

    return module


@functools.cache
def decompositions() -> dict[Any, Any]:
    """How operators without a formula are made of others: torch's own table, but for what is kept whole."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    further = {op: fn for op, fn in decomposition_table.items() if _packet(op) in TAKEN_APART}
    further |= whole_layers_apart(torch())
    return further | {op: fn for op, fn in core_aten_decompositions().items() if _packet(op) not in WHOLE}


def _packet(op: Any) -> str:
    return str(op).removeprefix("aten.").partition(".")[0]


def element_type(dtype: Any) -> DType | None:
    """Of a torch type, where Weft has it."""
    return parse_dtype(str(dtype).removeprefix("torch."))


def lower_module(gm: Any, example_inputs: Sequence[Any], compiler: Callable[[Any, Sequence[Any]], Any]) -> Any:
    """``gm`` as Dynamo gives it, taken to functional operators by AOTAutograd; ``compiler`` gets these."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    def plain(module: Any, _inputs: Sequence[Any]) -> Any:
        return make_boxed_func(module.forward)

    lower = aot_autograd(
        fw_compiler=plain, bw_compiler=plain, inference_compiler=compiler, decompositions=decompositions()
    )
    return lower(gm, example_inputs)


def asks_dynamo_again(error: Exception) -> bool:
    """Whether an error is Dynamo's own, by which it traces once more: so it leaves open a number that changes."""
    from torch._dynamo.exc import RestartAnalysis

    return isinstance(error, RestartAnalysis)


def static_inputs() -> frozenset[int]:
    """Which inputs of the module that is being compiled are parameters or buffers."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    return frozenset(getattr(metadata, "static_input_indices", None) or ())


def after_optimizer_steps(tell: Callable[[Iterable[Any]], None]) -> None:
    """``tell`` is called with its parameters after each step of any optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def told(optimizer: Any, _args: Any, _named: Any) -> None:
        tell(p for group in optimizer.param_groups for p in group["params"])

    register_optimizer_step_post_hook(told)


def register_backend(fn: Callable[..., Any]) -> None:
    """Makes ``fn`` known as ``torch.compile(backend="weft")``."""
    from torch._dynamo import list_backends
    from torch._dynamo import register_backend as register

    if "weft" not in list_backends(exclude_tags=()):
        register(fn, name="weft")


def compile_in_parts(model: Any, compile_part: Callable[..., Any]) -> Callable[..., Any]:
    """``model`` by Dynamo: ``compile_part`` gets what it can trace, and the rest runs as it is. What Dynamo fails at is
    an error: told to suppress it, it would leave alone all modules of that class for the life of the process."""
    by_dynamo = torch().compile(model, backend=compile_part)

    def call(*args: Any, **named: Any) -> Any:
        with silent("_dynamo", *TRACERS):
            return by_dynamo(*args, **named)

    return call


def has_sizes_of_values(value: Any) -> bool:
    """Whether a tensor that was traced has sizes that follow from values, or is such a number."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(value))


@collector_paused()
def export(module: Any, args: tuple[Any, ...], named: dict[str, Any], dims: Sequence[frozenset[int]] = ()) -> Any:
    """The program of ``module`` for such arguments, without Dynamo, with functional operators.

    ``dims`` are, for each leaf of the arguments, the dimensions that it should be a program for all sizes of.
    """
    from torch.export import _trace
    from torch.export import export as export_program

    whole = whole_on_gpu([*module.parameters(), *module.buffers(), *flatten((args, named))[0]])
    table = _without(whole)
    shapes = _dynamic_shapes(args, named, dims) if any(dims) else None
    with torch().no_grad(), alone_while_tracing(), exporting_apart(_trace), _telling_results(module):
        program = export_program(module, args, named, strict=False, dynamic_shapes=shapes)
        return program.run_decompositions(table)


def whole_on_gpu(values: Iterable[Any]) -> list[Any]:
    """Operators that stay whole where ``values`` are on a GPU, though others are not: torch has a choice of kernels."""
    return [torch().ops.aten.scaled_dot_product_attention.default] if is_on_gpu(values) else []


def _without(whole: Sequence[Any]) -> dict[Any, Any]:
    """The table of decompositions, without these operators."""
    return {op: fn for op, fn in decompositions().items() if op not in whole}


@collector_paused()
def trace_functional(fn: Callable[..., Any], tensors: Sequence[Any], whole: Sequence[Any] = ()) -> Any:
    """The functional operators of ``fn``, which is called once, with tensors that look like ``tensors``; operators
    that are ``whole`` are not taken apart. ``fn`` gets a `Functional` tensor for each, and gives such ones."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    seen: set[int] = set()
    looks = [fake.from_tensor(_other_object(t, seen), static_shapes=True) for t in tensors]

    def functional(*given: Any) -> Any:
        with FunctionalTensorMode():
            return fn([*map(Functional, given)])

    linear = torch().ops.aten.linear.default
    table = _without(whole) | {linear: _one_product}
    trace = make_fx(functional, table, _allow_non_fake_inputs=True)
    kept = [*whole, linear] if whole else []
    with torch().no_grad(), alone_while_tracing(), as_if_exporting(), _kept_whole(kept), fake:
        return trace(*looks)


def _one_product(x: Any, weight: Any, bias: Any = None) -> Any:
    """A linear layer with its bias as one product of matrices, which libraries have: torch's own way depends on how
    ``x`` lies, and adds a bias apart where that is turned around."""
    if x.dim() < 2:
        return NotImplemented
    flat = x.reshape(-1, x.shape[-1]) if x.dim() > 2 else x
    made = torch().mm(flat, weight.t()) if bias is None else torch().addmm(bias, flat, weight.t())
    return made.view(*x.shape[:-1], weight.shape[0]) if x.dim() > 2 else made


def _other_object(tensor: Any, seen: set[int]) -> Any:
    """``tensor``, or, where it was seen, another in the same memory: each input is one of its own to a tracer."""
    if id(tensor) in seen:
        return tensor.detach()
    seen.add(id(tensor))
    return tensor


class Functional:
    """A tensor of a traced program that writes are followed for."""

    def __init__(self, look: Any) -> None:
        from torch._functorch._aot_autograd.functional_utils import to_fun

        self._look, self.tensor = look, to_fun(look)

    @property
    def is_written(self) -> bool:
        from torch._functorch._aot_autograd.functional_utils import has_data_mutation

        torch()._sync(self.tensor)
        return bool(has_data_mutation(self.tensor))

    @property
    def has_another_shape(self) -> bool:
        """Whether sizes, strides or the memory that it is in were changed."""
        from torch._functorch._aot_autograd.functional_utils import has_metadata_mutation

        return bool(has_metadata_mutation(self.tensor, self._look, check_only_storage_mutation=False))


def plain_of(value: Any) -> Any:
    """What a tensor of a program that is traced functionally is in the traced program."""
    from torch._functorch._aot_autograd.functional_utils import from_fun

    return from_fun(value)


@contextlib.contextmanager
def _kept_whole(operators: Sequence[Any]) -> Iterator[None]:
    """While a program is traced, these ``operators`` are not taken apart by torch's dispatcher."""
    if not operators:
        yield
        return
    from torch._dispatch.python import enable_python_dispatcher
    from torch.export.exported_program import _override_composite_implicit_decomp

    kept: dict[Any, Any] = dict.fromkeys(operators, lambda *_, **__: NotImplemented)
    with _override_composite_implicit_decomp(kept), enable_python_dispatcher():
        yield


def _dynamic_shapes(args: tuple[Any, ...], named: dict[str, Any], dims: Sequence[frozenset[int]]) -> Any:
    from torch.export import Dim, ShapesCollection

    shapes = ShapesCollection()
    for leaf, open_dims in zip(flatten((args, named))[0], dims):
        if open_dims:
            shapes[leaf] = dict.fromkeys(open_dims, Dim.AUTO)
    return shapes


def fake_tensors() -> Any:
    """Tensors made within have no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


@contextlib.contextmanager
def _telling_results(module: Any) -> Iterator[None]:
    """Dataclasses that ``module`` gives while it is traced are made known to torch as what holds tensors; and that it
    changes itself is an error, which torch would put back in silence."""

    def told(_module: Any, _args: Any, made: Any) -> None:
        register_dataclasses(made)
        if state.has_changed():
            raise ChangesItselfError

    hook = module.register_forward_hook(told)
    state = ModuleState(module)
    try:
        yield
    finally:
        hook.remove()


def register_dataclasses(value: Any) -> None:
    """Makes dataclasses among ``value`` known to torch as what holds tensors."""
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(value):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            torch().export.register_dataclass(type(leaf))
            register_dataclasses(leaf)


def is_on_gpu(values: Iterable[Any]) -> bool:
    """Whether there is a tensor on a GPU among ``values``."""
    return any(isinstance(t, torch().Tensor) and t.device.type == "cuda" for t in values)


def flatten(value: Any) -> tuple[list[Any], Any]:
    """The leaves of nested tuples, lists and dicts, and how they were nested."""
    from torch.utils import _pytree

    return _pytree.tree_flatten(value)  # type: ignore[no-any-return]


def unflatten(leaves: Sequence[Any], spec: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_unflatten(leaves, spec)


def plain_results(gm: Any) -> list[tuple[int, Any]]:
    """Results of ``gm`` that are values, known since it was traced, with their places."""
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    return [(n, value) for n, value in enumerate(output.args[0]) if not isinstance(value, torch().fx.Node)]


def with_tensors_alone(gm: Any, others: Iterable[int] = ()) -> Any:
    """``gm``, which gives no plain values any more, nor what is at places ``others``: who reads its signature knows
    them."""
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    left = {*others}
    results = enumerate(output.args[0])
    kept = tuple(value for n, value in results if isinstance(value, torch().fx.Node) and n not in left)
    if len(kept) < len(output.args[0]):
        output.args = (kept,)
        gm.recompile()
    return gm


def no_modes() -> Any:
    """Real tensors, also while others trace with fake ones."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def numerics_on(device: Any, numerics: Numerics) -> Numerics:
    """``numerics`` for tensors on ``device``, with what torch's own settings allow there."""
    allowed = device.type == "cuda" and numerics == "fast" and torch().backends.cuda.matmul.allow_tf32
    return "tf32" if allowed else numerics


@functools.cache
def c_function(name: str) -> int:
    """Where a C function of torch's is; 0 where it has none of this name."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(torch()._C.__file__), name), ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0
