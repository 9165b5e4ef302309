"""nvcc's options, as far as they mean something on a CPU."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.from_cuda.nvcc_table import NAMED, OPTIONS, REFUSED
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.version import blake2b

#: Suffixes of what is compiled as CUDA, as plain host code, and of what is only linked.
CUDA, HOST, LINKED = (".cu",), (".c", ".cc", ".cpp", ".cxx", ".C"), (".o", ".a", ".so", ".obj")

#: What nvcc defines where device code of several units is linked.
RELOCATABLE = "-D__CUDACC_RDC__"
#: Code for debuggers: threads one by one, not optimized, with the variables of kernels.
DEVICE_DEBUG = "--cuda-noopt-device-debug"
#: CUDA's libraries: what programs need of them is in the runtime library.
_OWN_LIBRARIES = frozenset({
    "cudart", "cudart_static", "cuda", "cublas", "cublasLt", "curand", "cufft", "cusparse", "cudadevrt", "nvToolsExt",
    "cutil", "cutil_x86_64", "nvrtc", "nvrtc_static", "cublas_static", "cublasLt_static", "curand_static",
    "cufft_static", "cusparse_static", "culibos",
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
    #: ``-E``, ``-M`` and ``-MM``: nothing is built, the text or what was read is written.
    preprocess: str = ""
    #: ``-lib``: objects are put into a static library.
    library: bool = False
    #: ``-odir``: where objects go.
    folder: Path | None = None
    #: ``-x``: what files are taken for, whatever they are called.
    languages: dict[Path, str] = field(default_factory=dict)
    #: The GPUs that were asked for, by number: told to who asks, and nothing more.
    architectures: list[str] = field(default_factory=list)
    #: Steps are told (``-v``), or told and not done (``-dryrun``).
    verbose: bool = False
    dry: bool = False
    #: What was said and is not done, with the reasons.
    ignored: dict[str, str] = field(default_factory=dict)

    @property
    def units(self) -> dict[str, tuple[Path, list[str]]]:
        """The CUDA sources and their options, by what the built program calls them; none where debuggers are to see
        kernels as they are written."""
        if DEVICE_DEBUG in self.compile:
            return {}
        return {unit_name(f, self.compile): (f, self.compile) for f in self.files if self.is_cuda(f)}

    def is_cuda(self, file: Path) -> bool:
        return self.languages.get(file, "cu" if file.suffix in CUDA else "") == "cu"


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
    reader = _Reader(list(arguments))
    reader.read()
    unknown, options = reader.unknown, reader.options
    if unknown and reader.forwards:
        options.compile += unknown
    elif unknown:
        raise ArgumentError(
            f"unknown option{'s' if len(unknown) > 1 else ''}: {' '.join(unknown)}",
            why="these are not options of nvcc that have a meaning here",
            help="options for the host's compiler go behind -Xcompiler",
        )
    return options


#: Short options whose value may be joined to them.
_JOINED = {"-I": "include-path", "-D": "define-macro", "-U": "undefine-macro", "-L": "library-path", "-l": "library"}
_PLURAL = {name: short for short, name in _JOINED.items()}


class _Reader:
    """Goes through a command line, an option at a time."""

    def __init__(self, rest: list[str]) -> None:
        self.rest = rest
        self.options = BuildOptions()
        self.unknown: list[str] = []
        self.forwards = False
        self.language = ""

    def read(self) -> None:
        while self.rest:
            argument = self.rest.pop(0)
            if not argument.startswith("-"):
                self.file(Path(argument))
            elif not (self.own(argument) or self.shared(argument)):
                self.unknown.append(argument)

    def file(self, path: Path) -> None:
        self.options.files.append(path)
        if self.language:
            self.options.languages[path] = self.language

    def own(self, argument: str) -> bool:
        """An option of nvcc's own."""
        name, joined, value = argument.partition("=")
        if name not in OPTIONS:
            return False
        long, takes_value = OPTIONS[name]
        if joined and not takes_value:
            return False
        given = (value if joined else self.value(argument)) if takes_value else ""
        if long in REFUSED:
            raise UnsupportedError(f"`{argument}` is not supported", why=REFUSED[long])
        if why := NAMED.get(long):
            self.options.ignored[argument if joined or not given else f"{argument} {given}"] = why
        elif long in _MEANINGS:
            _MEANINGS[long](self, given)
        return True

    def value(self, argument: str) -> str:
        if not self.rest:
            raise ArgumentError(f"`{argument}` needs a value", why="nothing follows it")
        return self.rest.pop(0)

    def shared(self, argument: str) -> bool:
        """Options that C++ compilers have too."""
        name, joined, value = argument.partition("=")
        short = _PLURAL.get(name.lstrip("-")) if name.startswith("--") else argument[:2]
        if short in _JOINED:
            given = value if name.startswith("--") and joined else "" if name.startswith("--") else argument[2:]
            given = given or self.value(argument)
            for one in given.split(",") if name.startswith("--") else (given,):
                _add(short, one, self.options)
        elif argument.startswith("--optimize"):
            self.options.compile.append(f"-O{value or self.value(argument)}")
        elif argument == "--debug":
            self.options.compile.append("-g")
        elif argument.startswith(("-O", "-g", "-W", "-f", "-pthread", "--W")):
            self.options.compile.append(argument.removeprefix("-") if argument.startswith("--") else argument)
        else:
            return False
        return True


def _relocatable(reader: _Reader, given: str) -> None:
    if given != "false" and RELOCATABLE not in reader.options.compile:
        reader.options.compile.append(RELOCATABLE)


def _compile_only(reader: _Reader, given: str) -> None:
    reader.options.compile_only = True


def _device_code(reader: _Reader, given: str) -> None:
    reader.options.compile_only = True
    _relocatable(reader, given)


def _dry(reader: _Reader, given: str) -> None:
    reader.options.dry = reader.options.verbose = True


def _language(reader: _Reader, given: str) -> None:
    reader.language = given if given in ("c", "c++", "cu") else ""


def _from_file(reader: _Reader, given: str) -> None:
    for name in given.split(","):
        try:
            reader.rest[:0] = shlex.split(Path(name).read_text(), comments=True)
        except (OSError, ValueError) as error:
            raise ArgumentError(f"the options in {name} cannot be read", why=str(error)) from None


def _set(name: str, to: object = True) -> Callable[[_Reader, str], None]:
    return lambda reader, given: setattr(reader.options, name, to)


def _compiled(*flags: str) -> Callable[[_Reader, str], None]:
    return lambda reader, given: reader.options.compile.extend(flags)


def _depends(flag: str) -> Callable[[_Reader, str], None]:
    return lambda reader, given: reader.options.depend.extend([flag, given] if given else [flag])


def _with_value(flag: str) -> Callable[[_Reader, str], None]:
    return lambda reader, given: reader.options.compile.extend(
        word for one in given.split(",") for word in ((flag, one) if flag.startswith("-i") else (f"{flag}{one}",))
    )


def _architecture(reader: _Reader, given: str) -> None:
    found = re.findall(r"(?:compute|sm)_(\d+\w?)", given)
    reader.options.architectures += [a for a in dict.fromkeys(found) if a not in reader.options.architectures]


def _forwards(reader: _Reader, given: str) -> None:
    reader.forwards = True


#: What is done for the options that mean something here, by their long names.
_MEANINGS: Mapping[str, Callable[[_Reader, str], None]] = {
    "output-file": lambda reader, given: setattr(reader.options, "output", Path(given)),
    "output-directory": lambda reader, given: setattr(reader.options, "folder", Path(given)),
    "compile": _compile_only,
    "device-c": _device_code,
    "device-w": _compile_only,
    "relocatable-device-code": _relocatable,
    "device-link": _set("device_link"),
    "shared": _set("shared"),
    "lib": _set("library"),
    "preprocess": _set("preprocess", "-E"),
    "generate-dependencies": _set("preprocess", "-M"),
    "generate-nonsystem-dependencies": _set("preprocess", "-MM"),
    "generate-dependencies-with-compile": _depends("-MD"),
    "generate-nonsystem-dependencies-with-compile": _depends("-MMD"),
    "generate-dependency-targets": _depends("-MP"),
    "dependency-output": _depends("-MF"),
    "dependency-target-name": _depends("-MT"),
    "dependency-target-quoted": _depends("-MQ"),
    "pre-include": _with_value("-include"),
    "system-include": _with_value("-isystem"),
    "std": _with_value("-std="),
    "ftemplate-depth": _with_value("-ftemplate-depth="),
    "ftemplate-backtrace-limit": _with_value("-ftemplate-backtrace-limit="),
    "no-exceptions": _compiled("-fno-exceptions"),
    "disable-warnings": _compiled("-w"),
    "Wreorder": _compiled("-Wreorder"),
    "device-debug": _compiled(DEVICE_DEBUG, "-g"),
    "generate-line-info": _compiled("-gline-tables-only"),
    "fmad": lambda reader, given: reader.options.compile.extend(["-ffp-contract=off"] if given == "false" else []),
    "compiler-options": lambda reader, given: _read_host(given, reader.options),
    "linker-options": lambda reader, given: reader.options.link.extend(f"-Wl,{part}" for part in given.split()),
    "x": _language,
    "options-file": _from_file,
    "forward-unknown-to-host-compiler": _forwards,
    "forward-unknown-opts": _forwards,
    "gpu-architecture": _architecture,
    "generate-code": _architecture,
    "verbose": _set("verbose"),
    "dryrun": _dry,
}


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
