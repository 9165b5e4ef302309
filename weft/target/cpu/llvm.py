"""LLVM text to object code and assembly, and LLVM's own linker: the only module that imports llvmlite, on first use.

LLVM's assertions are on in the published wheels, so text that is not well formed ends the
process; what comes here is made by our own emitter from verified programs.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.ir.errors import InternalError, TargetError
from weft.locks import hold_while_forking, new_rlock
from weft.target.cpu.host import Machine

#: LLVM half-way through its work would be of no use to a child.
_lock = hold_while_forking(new_rlock())

#: /proc/cpuinfo's names where they differ from LLVM's.
_CPUINFO_NAMES = {"bmi": "bmi1", "lzcnt": "abm", "sse4.1": "sse4_1", "sse4.2": "sse4_2"}


def compile_llvm(text: str, machine: Machine, *, thorough: bool = False) -> bytes:
    """The object code of a module given as LLVM text; ``thorough``: see `optimize_llvm`."""
    with _lock:
        return emit_object(_prepare(text, machine, thorough), machine)


def assemble_llvm(text: str, machine: Machine, *, thorough: bool = False) -> str:
    """The assembly text of a module given as LLVM text."""
    with _lock:
        return str(_target_machine(machine).emit_assembly(_prepare(text, machine, thorough)))


def toolchain_key() -> str:
    """What tells one release of the code generator from another, for cache keys, without loading LLVM.

    The text of llvmlite's own version file: asking the package metadata takes 20 ms.
    """
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        return "none"
    try:
        return (Path(spec.submodule_search_locations[0]) / "_version.py").read_text()
    except OSError:
        return spec.submodule_search_locations[0]


def host_features() -> frozenset[str]:
    """The host's features as LLVM sees them, under /proc/cpuinfo's names."""
    names = [name for name, on in _binding().get_host_cpu_features().items() if on]
    return frozenset(_CPUINFO_NAMES.get(n, n) for n in names)


@functools.cache
def _binding() -> Any:
    try:
        import llvmlite.binding as binding
    except ImportError as error:
        raise TargetError(
            "the CPU target needs llvmlite, which cannot be imported",
            why=str(error),
            help="pip install llvmlite",
        ) from None
    except (OSError, MemoryError) as error:
        cause = error.__context__ or error  # llvmlite's own text is about a library that nobody finds
        raise TargetError(
            "LLVM cannot be loaded",
            why=(str(cause).splitlines() or [type(cause).__name__])[0],
            help="it takes some 200 MB and a few files: look at the limits of this process (`ulimit -v`, `ulimit -n`)",
        ) from None
    within = getattr(getattr(binding.ffi.lib, "_lock", None), "_lock", None)  # around each call of LLVM, ours or not
    if within is not None:
        hold_while_forking(within)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def _load_all_targets() -> None:
    """Only for code that is not to run here: it brings megabytes of LLVM into memory."""
    _binding().initialize_all_targets()
    _binding().initialize_all_asmprinters()


@functools.cache
def _target_machine(machine: Machine, level: int = 2) -> Any:
    binding = _binding()
    if machine.triple.partition("-")[0] != binding.get_process_triple().partition("-")[0]:
        _load_all_targets()
    try:
        target = binding.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise TargetError(f"LLVM cannot generate code for `{machine.triple}`", why=str(error)) from None
    features = ",".join(machine.features)
    return target.create_target_machine(
        cpu=machine.cpu, features=features, opt=level, reloc="pic", codemodel="small", jit=False
    )


def _prepare(text: str, machine: Machine, thorough: bool) -> Any:
    module = parse_llvm(text, machine)
    optimize_llvm(module, machine, thorough=thorough)
    return module


def parse_llvm(text: str, machine: Machine) -> Any:
    """The module in memory."""
    try:
        module = _binding().parse_assembly(text)
    except RuntimeError as error:
        raise InternalError("the generated LLVM text is not well formed", why=str(error).strip()) from None
    module.triple = machine.triple
    module.data_layout = str(_target_machine(machine).target_data)
    return module


def optimize_llvm(module: Any, machine: Machine, *, thorough: bool = False) -> None:
    """Variables to SSA and clean-up, in place; our loops are in final form already.

    ``thorough`` is for programs that others wrote: all that LLVM does but vectors, moving loads out of loops above all.
    """
    binding = _binding()
    with binding.create_pipeline_tuning_options(speed_level=2) as options:
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = binding.create_pass_builder(_target_machine(machine), options)
        if thorough:
            builder.getModulePassManager().run(module, builder)
            return
        passes = binding.create_new_module_pass_manager()
        passes.add_sroa_pass()
        # Blocks joined first: instructions that are moved down to a loop's last block come there in reverse order,
        # and loads that go downwards through memory are not foreseen by the processor.
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)


def emit_object(module: Any, machine: Machine) -> bytes:
    """The object code of a module in memory."""
    return bytes(_target_machine(machine).emit_object(module))


_numbers = itertools.count()


def link_object(data: bytes, symbols: Mapping[str, int]) -> Callable[[str], int | None]:
    """Loads ``data``; the result maps names to addresses, which stay valid as long as it lives.

    Raises RuntimeError with LLVM's text where the object is damaged or something stays undefined.
    """
    binding = _binding()
    library = f"object{next(_numbers)}"
    with _lock:
        jit = binding.create_lljit_compiler(suppress_errors=True)
        builder = binding.JITLibraryBuilder().add_object_img(data)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        tracker = builder.link(jit, library)
    found: dict[str, object] = {"": tracker}

    def address_of(name: str) -> int | None:
        if name not in found:
            try:
                found[name] = jit.lookup(library, name)
            except RuntimeError:
                return None
        return int(found[name][name])  # type: ignore[index]

    return address_of
