"""nvcc's options, as far as they mean something on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.ir.errors import ArgumentError
from weft.version import blake2b

#: Suffixes of what is compiled as CUDA, as plain host code, and of what is only linked.
CUDA, HOST, LINKED = (".cu",), (".c", ".cc", ".cpp", ".cxx", ".C"), (".o", ".a", ".so", ".obj")

#: Options that take a value and say something of GPUs only.
_IGNORED_WITH_VALUE = frozenset({
    "-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code", "-maxrregcount",
    "--maxrregcount", "-Xptxas", "--ptxas-options", "-Xnvlink", "--nvlink-options", "-ccbin", "--compiler-bindir",
    "--gpu-name", "-t", "--threads", "--cudart", "-cudart", "-diag-suppress", "--diag-suppress", "-Xcudafe",
})  # fmt: skip
_IGNORED = frozenset({
    "-use_fast_math", "--use_fast_math", "-dlto",
    "-rdc=false", "--relocatable-device-code=false",
    "--expt-relaxed-constexpr", "-expt-relaxed-constexpr",
    "--extended-lambda", "-extended-lambda", "--expt-extended-lambda", "-expt-extended-lambda", "-deviceemu",
    "-restrict", "--restrict", "-m64", "--keep", "-keep", "-v", "--verbose", "-noeh", "-ftz=true", "-prec-div=false",
    "-prec-sqrt=false", "-fmad=true", "-Wno-deprecated-gpu-targets", "-w",
})  # fmt: skip
#: What nvcc defines where device code of several units is linked.
RELOCATABLE = "-D__CUDACC_RDC__"
#: Code for debuggers: threads one by one, not optimized, with the variables of kernels.
DEVICE_DEBUG = "--cuda-noopt-device-debug"
_RELOCATABLE = frozenset({"-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c"})
_TO_HOST = frozenset({"-Xcompiler", "--compiler-options"})
#: CUDA's libraries: what programs need of them is in the runtime library.
_OWN_LIBRARIES = frozenset({
    "cudart", "cudart_static", "cuda", "cublas", "cublasLt", "curand", "cufft", "cusparse", "cudadevrt", "nvToolsExt",
    "cutil", "cutil_x86_64", "nvrtc",
})  # fmt: skip


@dataclass(slots=True)
class BuildOptions:
    """What is to be built, of which files, and how."""

    files: list[Path] = field(default_factory=list)
    output: Path | None = None
    compile_only: bool = False
    shared: bool = False
    #: Only the device's code is to be linked: here that is part of linking.
    device_link: bool = False
    #: For clang, for every file: -I, -D, -U, -std, -O, -g, and what was passed through to the host's compiler.
    compile: list[str] = field(default_factory=list)
    #: For the linker.
    link: list[str] = field(default_factory=list)
    #: Whether every access of device code is to be watched.
    watched: bool = False
    #: Options by which makefiles have compilers list what they read (-MD -MF ...).
    depend: list[str] = field(default_factory=list)
    #: Where compilers are to list what they read.
    listed: Path | None = None

    @property
    def units(self) -> dict[str, tuple[Path, list[str]]]:
        """The CUDA sources and their options, by what the built program calls them; none where debuggers are to see
        kernels as they are written."""
        if DEVICE_DEBUG in self.compile:
            return {}
        return {unit_name(f, self.compile): (f, self.compile) for f in self.files if f.suffix in CUDA}


def unit_name(file: Path, flags: Sequence[str]) -> str:
    """What tells a unit from all others of a program."""
    return "u" + blake2b("\0".join([str(file.resolve()), *flags]).encode(), digest_size=6).hexdigest()


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is said to us, and behind ``--`` what is said to the program."""
    given = list(arguments)
    if "--" not in given:
        return given, []
    at = given.index("--")
    return given[:at], given[at + 1 :]


def read_options(arguments: Sequence[str]) -> BuildOptions:
    """nvcc's command line; what is not known is refused, all of it at once."""
    options, unknown = BuildOptions(), []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not _read_one(argument, rest, options):
            unknown.append(argument)
    if unknown:
        raise ArgumentError(
            f"unknown option{'s' if len(unknown) > 1 else ''}: {' '.join(unknown)}",
            why="these are not options of nvcc that have a meaning here",
            help="options for the host's compiler go behind -Xcompiler",
        )
    return options


def _read_one(argument: str, rest: list[str], options: BuildOptions) -> bool:
    name, joined, value = argument.partition("=")
    if not argument.startswith("-"):
        options.files.append(Path(argument))
    elif argument in _IGNORED or (joined and name in _IGNORED_WITH_VALUE):
        pass
    elif name in _IGNORED_WITH_VALUE:
        _value(argument, rest)
    elif name in _TO_HOST:
        _read_host(value if joined else _value(argument, rest), options)
    elif argument in ("-Xlinker", "--linker-options"):
        options.link.append(f"-Wl,{_value(argument, rest)}")
    elif argument in ("-o", "--output-file"):
        options.output = Path(_value(argument, rest))
    elif argument in ("-c", "--compile"):
        options.compile_only = True
    elif argument in _RELOCATABLE:
        options.compile_only |= argument in ("-dc", "--device-c")
        options.compile += [RELOCATABLE] if RELOCATABLE not in options.compile else []
    elif argument in ("-G", "--device-debug"):
        options.compile += [DEVICE_DEBUG, "-g"]
    elif argument in ("-lineinfo", "--generate-line-info"):
        options.compile.append("-gline-tables-only")
    elif argument in ("-rdc", "--relocatable-device-code"):
        rest[:0] = [f"-rdc={_value(argument, rest)}"]
    elif argument in ("-dlink", "--device-link"):
        options.device_link = True
    elif argument in ("-shared", "--shared"):
        options.shared = True
    elif argument in ("-fmad=false", "--fmad=false"):
        options.compile.append("-ffp-contract=off")
    else:
        return _read_shared(argument, rest, options)
    return True


#: Short options whose value may be joined to them, with nvcc's long names for them.
_JOINED = {
    "-I": "--include-path",
    "-D": "--define-macro",
    "-U": "--undefine-macro",
    "-L": "--library-path",
    "-l": "--library",
}


def _read_shared(argument: str, rest: list[str], options: BuildOptions) -> bool:
    """Options that C++ compilers have too."""
    name, joined, value = argument.partition("=")
    for short, long in _JOINED.items():
        if name == long or (argument.startswith(short) and not argument.startswith("--")):
            given = value if name == long and joined else argument[2:] if name != long else ""
            _add(short, given or _value(argument, rest), options)
            return True
    if argument.startswith(("-O", "-g", "-std=", "--std=", "-W", "-f", "-pthread")):
        options.compile.append(argument.replace("--std=", "-std="))
    elif argument in ("-MD", "-MMD", "-MP"):
        options.depend.append(argument)
    elif argument in ("-MF", "-MT", "-MQ"):
        options.depend += [argument, _value(argument, rest)]
    elif argument in ("-isystem", "-include"):
        options.compile += [argument, _value(argument, rest)]
    elif argument in ("-x",):
        _value(argument, rest)
    else:
        return False
    return True


def _add(short: str, value: str, options: BuildOptions) -> None:
    if short == "-l":
        if value not in _OWN_LIBRARIES:
            options.link.append(f"-l{value}")
    elif short == "-L":
        options.link.append(f"-L{value}")
    else:
        options.compile.append(f"{short}{value}")


def _read_host(value: str, options: BuildOptions) -> None:
    """Options for the host's compiler: several are separated by commas or by spaces in one argument."""
    for part in value.replace(",", " ").split():
        (options.link if part.startswith(("-l", "-L", "-Wl")) else options.compile).append(part)
        if part == "-fopenmp":
            options.link.append(part)


def _value(argument: str, rest: list[str]) -> str:
    if not rest:
        raise ArgumentError(f"`{argument}` needs a value", why="nothing follows it")
    return rest.pop(0)
