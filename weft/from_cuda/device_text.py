"""The device's half of a unit, as clang's LLVM text for a GPU, made into LLVM text for this processor.

A kernel becomes a function of one thread. Address spaces are one, since a CPU has one; shared memory is the system
thread's own, which runs a block; the built-in variables are that thread's as well. What a launch needs to know goes to
tables in sections of the object: kernels (how to call one thread of them) and variables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from weft.from_cuda.device_linking import linked_functions, linked_variables, show_functions
from weft.from_cuda.gpu_arithmetic import with_gpu_arithmetic
from weft.from_cuda.waiting import with_pauses
from weft.ir.errors import UnsupportedError

_NAME = r'@(?:"[^"]+"|[\w.$]+)'
_KERNEL = re.compile(
    rf"^define [^@]*\bptx_kernel void ({_NAME})\((.*)\)[^()\n]*(?:\([^()\n]*\)[^()\n]*)*\{{$", re.MULTILINE
)
_FUNCTION = re.compile(rf"^define [^@]*({_NAME})\(.*?^\}}$", re.MULTILINE | re.DOTALL)
_GLOBAL = re.compile(rf"^({_NAME}) = (.*)$", re.MULTILINE)
_BUILT_IN = frozenset({"@threadIdx", "@blockIdx", "@blockDim", "@gridDim"})
_WAITS = frozenset({
    "@weft_sync_threads", "@weft_sync_threads_count", "@weft_sync_warp", "@weft_sync_grid", "@weft_ballot",
    "@weft_exchange", "@weft_active_mask", "@weft_yield", "@__assert_fail",
    "@weft_pause", "@weft_pause_unless",
})  # fmt: skip
#: What threads call that wait for threads of other blocks too.
_PAUSES = frozenset({"@weft_pause", "@weft_pause_unless"})
#: How the names of kernels of our own headers begin: one thread of them takes a piece of the work.
_OWN = "@_ZN12weft_library"
#: What only a GPU's code generator understands in attributes; and `norecurse`, which kernels have: variables that one
#: such function uses become its own, though other threads see those in shared memory.
_GPU_ATTRIBUTES = re.compile(
    r' "(?:target-cpu|target-features|uniform-work-group-size|nvvm\.[\w.]+)"(?:="[^"]*")?| norecurse\b'
)


@dataclass(frozen=True, slots=True)
class DeviceText:
    """LLVM text for this processor, the mangled names of the program's own kernels, and the variables' names."""

    text: str
    kernels: tuple[str, ...]
    variables: dict[str, str]


def to_threads(text: str, unit: str, source: str, target: str, *, linked: bool = False) -> DeviceText:
    """``text`` of the unit called ``unit`` (``source``: see `kept_code`) for the processor that ``target`` (lines of
    layout and triple) names; ``linked``: units share functions and variables of the device."""
    _refuse(text)
    text = with_pauses(text)
    kernels = {m.group(1): _split(m.group(2)) for m in _KERNEL.finditer(text)}
    defined, others = linked_functions(text) if linked else (frozenset[str](), frozenset[str]())
    shared = linked_variables(text) if linked else frozenset[str]()
    unknown = frozenset(f"@{name}" for name in others)  # these may do anything
    waiting, pausing = _calling(text, _WAITS | unknown), _calling(text, _PAUSES)
    text, variables = _place_globals(text)
    names = {*shared, *(variable[1:] for variable in variables)}
    symbols = {name: variable_symbol("" if name in shared else unit, name) for name in names}
    text = re.sub(r"^target .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("addrspacecast", "bitcast")
    text = re.sub(r" ?\baddrspace\(\d+\)", "", text)
    text = re.sub(r"(@llvm\.[\w.]*)", lambda m: re.sub(r"\.p\d+(?=[.\s]|$)", ".p0", m.group(1)), text)
    text = text.replace("emissionKind: DebugDirectivesOnly", "emissionKind: FullDebug")  # what -g means on a CPU
    text = re.sub(r"DW_OP_constu, \d+, DW_OP_swap, DW_OP_xderef", "", text)  # where a debugger finds shared memory
    text = text.replace("ptx_kernel ", "").replace("@vprintf(", "@weft_vprintf(")
    text = text.replace("@__assert_fail(", "@weft_assert_fail(")
    text = _hide(_GPU_ATTRIBUTES.sub("", text))
    for name in variables:  # these the host half shares
        text = text.replace(f"\n{name} = internal ", f"\n{name} = ")
    text = show_functions(rename(text, {f"@{name}": symbol for name, symbol in symbols.items()}), defined | others)
    own = {name for name in kernels if name.startswith(_OWN)}
    flags = {name: (name in waiting) | (name in own) << 1 | (name in pausing) << 2 for name in kernels}
    text = with_gpu_arithmetic(text)
    tables = _tables(unit, source, kernels, flags, variables, symbols)
    readable = tuple(name[1:].strip('"') for name in kernels if name not in own)
    return DeviceText(f"{target}\n{text}\n{tables}", readable, symbols)


def variable_symbol(unit: str, name: str) -> str:
    """What the linker calls a variable of a unit, or of all."""
    return f"@weft_variable.{unit}.{name}"


#: Linkages of definitions that another object could see.
_SEEN = r"(?:(?:linkonce_odr|weak_odr|linkonce|weak|external|common) )?(?:dso_local )?(?:hidden |protected )?"


def _hide(text: str) -> str:
    """Nothing that is defined here meets what the host half calls by the same name."""
    text = re.sub(rf"^define {_SEEN}(?!internal|private)", "define internal ", text, flags=re.MULTILINE)
    shown = rf"^({_NAME} = )(?!external|internal|private|appending|comdat){_SEEN}"
    text = re.sub(
        shown, lambda m: m.group(1) + ("" if "llvm." in m.group(1) else "internal "), text, flags=re.MULTILINE
    )
    return re.sub(r"^\$.* = comdat any\n|,? comdat(?:\([^)]*\))?(?=[ ,]|$)", "", text, flags=re.MULTILINE)


def rename(text: str, names: dict[str, str]) -> str:
    """``text`` with global ``names`` replaced, whole names only."""
    if not names:
        return text
    found = re.compile("|".join(rf"{re.escape(n)}(?![\w.$])" for n in sorted(names, key=len, reverse=True)))
    return found.sub(lambda m: names[m.group()], text)


def _refuse(text: str) -> None:
    """Instructions of a GPU that were written out as such have no meaning here."""
    problems = []
    for found in _FUNCTION.finditer(text):
        body = found.group()
        for text in dict.fromkeys(re.findall(r' asm [^"]*"([^"]*)"', body)):
            shown = " ".join(text.replace("\\0A", " ").replace("\\09", " ").split())[:80]
            problems.append(f"`{found.group(1)[1:]}` contains the PTX `{shown}`")
        names = sorted(set(re.findall(r"@(llvm\.nvvm\.[\w.]+)", body)))
        problems += [f"`{found.group(1)[1:]}` uses `{name}`, an instruction of NVIDIA's GPUs" for name in names]
    if problems:
        raise UnsupportedError(
            "device code has instructions that only a GPU has",
            why="; ".join(problems),
            help="write them in C++ (CUDA's intrinsics are known), perhaps under `#ifdef`",
        )


def _calling(text: str, called: frozenset[str]) -> frozenset[str]:
    """``called`` and the functions that may call one of them: through others, or what they call is not known."""
    calls: dict[str, set[str]] = {}
    for found in _FUNCTION.finditer(text):
        body = found.group()
        calls[found.group(1)] = set(re.findall(rf"call [^@\n]*({_NAME})\(", body))
        if re.search(r"call [^@\n]*%[\w.]+\(", body):
            calls[found.group(1)] |= called
    reached = set(called)
    grown = True
    while grown:
        more = {f for f, names in calls.items() if f not in reached and names & reached}
        reached |= more
        grown = bool(more)
    return frozenset(reached)


def _place_globals(text: str) -> tuple[str, dict[str, str]]:
    """Shared memory and built-in variables to the thread; variables, by name with their types, to be written."""
    variables: dict[str, str] = {}
    dynamic: dict[str, str] = {}

    def place(found: re.Match[str]) -> str:
        name, rest = found.groups()
        if name in _BUILT_IN:
            return f"{name} = external thread_local global [3 x i32], align 4"
        if "addrspace(3)" in rest:
            if rest.startswith("external"):
                dynamic[name] = "@weft_dynamic_shared"
                return ""
            rest = rest.replace("addrspace(3)", "thread_local").replace(" undef,", " zeroinitializer,")
        elif re.search(r"addrspace\([14]\)", rest) and not rest.startswith(("external ", "private ", "appending ")):
            rest = rest.removeprefix("internal ").replace("externally_initialized ", "")
            rest = re.sub(r"(addrspace\(\d\)) constant ", r"\1 global ", rest, count=1).replace(
                " undef,", " zeroinitializer,"
            )
            variables[name] = type_after("global ", rest)
        return f"{name} = {rest}"

    text = rename(_GLOBAL.sub(place, text), dynamic)
    if dynamic:
        text += "\n@weft_dynamic_shared = external thread_local global [0 x i8], align 128\n"
    return text, variables


def type_after(word: str, rest: str) -> str:
    """The type of a global: from behind ``word`` to the space that ends it."""
    begin = rest.index(word) + len(word)
    depth = 0
    for at in range(begin, len(rest)):
        depth += (rest[at] in "[{<(") - (rest[at] in "]}>)")
        if depth == 0 and rest[at] in " ,":
            return rest[begin:at]
    return rest[begin:]


def _split(parameters: str) -> list[str]:
    """A parameter list at its commas, not those inside types."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(parameters):
        depth += (letter in "[{<(") - (letter in "]}>)")
        if letter == "," and depth == 0:
            parts.append(parameters[begin:at].strip())
            begin = at + 1
    last = parameters[begin:].strip()
    return [*parts, last] if last else parts


def _call_thread(number: int, kernel: str, parameters: list[str]) -> str:
    """A function that calls one thread of ``kernel`` with arguments that lie where a list of pointers says."""
    lines, passed = [], []
    for i, parameter in enumerate(parameters):
        lines += [
            f"  %slot{i} = getelementptr ptr, ptr %arguments, i64 {i}",
            f"  %at{i} = load ptr, ptr %slot{i}",
        ]
        by_value = re.search(r"byval\((?:[^()]|\([^()]*\))*\)(?: align \d+)?", parameter)
        kind = parameter.split(" ", 1)[0] if parameter[0] not in "<[{" else type_after("", parameter)
        if by_value:
            passed.append(f"ptr {by_value.group()} %at{i}")
        elif kind == "i1":
            lines += [f"  %byte{i} = load i8, ptr %at{i}", f"  %value{i} = trunc i8 %byte{i} to i1"]
            passed.append(f"i1 zeroext %value{i}")
        else:
            lines.append(f"  %value{i} = load {kind}, ptr %at{i}")
            passed.append(f"{kind} %value{i}")
    body = "\n".join(lines)
    return (
        f"define internal void @weft_thread.{number}(ptr %arguments) {{\n{body}\n"
        f"  call void {kernel}({', '.join(passed)})\n  ret void\n}}\n"
    )


def _sizes(number: int, parameters: list[str]) -> str:
    """How many arguments there are, then the bytes of each."""
    kinds = []
    for parameter in parameters:
        by_value = re.search(r"byval\(((?:[^()]|\([^()]*\))*)\)", parameter)
        plain = parameter.split(" ", 1)[0] if parameter[0] not in "<[{" else type_after("", parameter)
        kinds.append(by_value.group(1) if by_value else plain)
    sizes = [f"i64 ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i64)" for kind in kinds]
    values = ", ".join([f"i64 {len(kinds)}", *sizes])
    return f"@weft_sizes.{number} = internal constant [{len(kinds) + 1} x i64] [{values}]\n"


def text_constant(name: str, text: str) -> str:
    """A C string as LLVM text."""
    data = text.encode() + b"\0"
    written = "".join(f"\\{byte:02X}" for byte in data)
    return f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{written}"\n'


def _tables(
    unit: str,
    source: str,
    kernels: dict[str, list[str]],
    flags: dict[str, int],
    variables: dict[str, str],
    symbols: dict[str, str],
) -> str:
    lines = [text_constant("@weft_unit", unit), text_constant("@weft_source", source)]
    kept = []
    for number, (kernel, parameters) in enumerate(kernels.items()):
        lines += [
            _call_thread(number, kernel, parameters),
            text_constant(f"@weft_name.{number}", kernel[1:].strip('"')),
            _sizes(number, parameters),
            f"@weft_kernel.{number} = internal constant {{ ptr, ptr, ptr, ptr, i64, ptr }} {{ ptr @weft_unit, "
            f"ptr @weft_source, ptr @weft_name.{number}, ptr @weft_thread.{number}, i64 {flags[kernel]}, "
            f"ptr @weft_sizes.{number} }}, "
            'section "weft_kernels", align 8\n',
        ]
        kept.append(f"ptr @weft_kernel.{number}")
    for number, (name, kind) in enumerate(variables.items()):
        size = f"ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i64)"
        lines += [
            text_constant(f"@weft_variable_name.{number}", name[1:].strip('"')),
            f"@weft_variable_row.{number} = internal constant {{ ptr, ptr, ptr, i64 }} {{ ptr @weft_unit, "
            f"ptr @weft_variable_name.{number}, ptr {symbols[name[1:]]}, i64 {size} }}, "
            'section "weft_variables", align 8\n',
        ]
        kept.append(f"ptr @weft_variable_row.{number}")
    if kept:
        lines.append(
            f'@llvm.used = appending global [{len(kept)} x ptr] [{", ".join(kept)}], section "llvm.metadata"\n'
        )
    return "".join(lines)
