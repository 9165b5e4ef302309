"""Whole CUDA programs into executables: host code by clang, kernels by us, linked with our runtime library."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from weft.from_cuda.ahead_of_time import grid_objects
from weft.from_cuda.clang import ARCHITECTURE
from weft.from_cuda.device_text import to_threads
from weft.from_cuda.host_text import share_variables, target_lines
from weft.from_cuda.kept_code import KeptCode, keep_kernels, source_digest
from weft.from_cuda.launches_text import as_clang_reads
from weft.from_cuda.nvcc_options import CUDA, DEVICE_DEBUG, HOST, LINKED, RELOCATABLE, BuildOptions, unit_name
from weft.from_cuda.runtime_library import runtime_objects
from weft.from_cuda.toolchain import (
    INCLUDE,
    INCLUDE_FLAGS,
    UndefinedNames,
    archiver,
    clang_command,
    further_headers,
    host_compiler,
    linker_command,
    run_tool,
    run_tools,
)
from weft.from_cuda.watched_text import watch_accesses
from weft.ir.errors import ArgumentError

#: As nvcc does it: the runtime's header comes before everything; no CUDA toolkit is looked for.
_CUDA_FLAGS = (
    "-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", f"--cuda-gpu-arch={ARCHITECTURE}",
    # What is an error for clang, in code that nvcc and g++ take.
    "-Wno-reserved-user-defined-literal", "-Wno-register", "-Wno-c++11-narrowing", "-Wno-writable-strings",
    "-Wno-inline-new-delete",
    "--cuda-feature=+ptx80", "-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument",
    "-Wno-pass-failed",
    "-include", "cuda_runtime.h", "-S", "-emit-llvm",
    "-Xclang", "-disable-llvm-passes", "-Xclang", "-target-sdk-version=12.3",
)  # fmt: skip
#: A value that only some lanes have set goes into a shuffle of all lanes: CUDA code does so everywhere. Clang would
#: take it as undefined behaviour, and drop the test that decides which lanes set it. Ints wrap, as on GPUs.
_DEVICE_FLAGS = ("-Xclang", "-no-enable-noundef-analysis", "-fwrapv")
_CODE_FLAGS = ("-fPIC", "-Wno-override-module", "-Wno-unused-command-line-argument")


def build_program(options: BuildOptions, *, ahead: bool = True, dependencies: Path | None = None) -> list[Path]:
    """Builds what ``options`` say; the files that were made.

    Without code made ``ahead``, kernels run thread by thread unless `serve.run_program` makes code for them.
    What each object was made of is written into the folder ``dependencies``, as rules of a makefile.
    """
    check_files(options)
    if dependencies is not None:
        options = replace(options, listed=dependencies)
    with tempfile.TemporaryDirectory(prefix="weft-cuda-") as text:
        folder = Path(text)
        if options.preprocess:
            return _preprocess(options)
        if options.device_link:
            empty = folder / "empty.c"
            empty.touch()
            return [_compile_file(empty, options, options.output or Path("a_dlink.o"), folder, ahead)]
        if options.compile_only:
            sources = [f for f in options.files if f.suffix not in LINKED]  # as compilers do, objects are left alone
            return [_compile_file(f, options, _object_path(f, options), folder, ahead) for f in sources]

        def compiled(number: int, file: Path) -> Path:
            return (
                file if file.suffix in LINKED else _compile_file(file, options, folder / f"{number}.o", folder, ahead)
            )

        with ThreadPoolExecutor(1 if ahead else os.cpu_count()) as pool:  # code made ahead is made by this process
            objects = list(pool.map(compiled, range(len(options.files)), options.files))
        return [_archive(objects, options) if options.library else _link(objects, options, folder)]


def check_files(options: BuildOptions) -> None:
    if not options.files:
        raise ArgumentError(
            "no file to build", why="the command line names none", help="weft cuda build program.cu -o program"
        )
    missing = [str(f) for f in options.files if not f.is_file()]
    if missing:
        raise ArgumentError(f"no such file: {', '.join(missing)}", why="nothing is there to be read")
    odd = [str(f) for f in options.files if f.suffix not in (*CUDA, *HOST, *LINKED) and f not in options.languages]
    if odd:
        raise ArgumentError(
            f"cannot tell what {', '.join(odd)} is", why=f"files end in {', '.join((*CUDA, *HOST, *LINKED))}"
        )
    if options.compile_only and options.output is not None and len(options.files) > 1:
        raise ArgumentError("-o names one file", why="-c with several sources makes one object of each")


def _object_path(file: Path, options: BuildOptions) -> Path:
    return options.output or (options.folder or Path()) / file.with_suffix(".o").name


def _compile_file(file: Path, options: BuildOptions, to: Path, folder: Path, ahead: bool) -> Path:
    if options.is_cuda(file):
        listed = _listed(file, options)
        return compile_unit(file, options.compile, to, folder, ahead=ahead, listed=listed, watched=options.watched)
    language = options.languages.get(file, "c" if file.suffix == ".c" else "c++")
    flags = [f for f in options.compile if f != DEVICE_DEBUG and (language != "c" or not f.startswith("-std=c++"))]
    command = host_compiler(language)
    warnings = [] if any(f.startswith("-W") for f in flags) else ["-w"]
    listed = _listed(file, options)
    run_tool([*command, *warnings, *flags, *listed, "-fPIC", *INCLUDE_FLAGS, "-c", str(file), "-o", str(to)])
    return to


def _listed(file: Path, options: BuildOptions) -> list[str]:
    """How a compiler is told to list what it reads for ``file``."""
    if options.listed is None:
        return [*options.depend, *_where_listed(options.depend, _object_path(file, options))]
    return ["-MD", "-MF", str(options.listed / f"{unit_name(file, options.compile)}.d")]


def _where_listed(depend: Sequence[str], to: Path) -> list[str]:
    """What compilers would take by themselves, if they wrote to ``to``."""
    missing = [] if "-MF" in depend else ["-MF", str(to.with_suffix(".d"))]
    missing += [] if {"-MT", "-MQ"} & set(depend) else ["-MT", str(to)]
    return missing if depend else []


def compile_unit(
    file: Path,
    flags: Sequence[str],
    to: Path,
    folder: Path,
    *,
    ahead: bool,
    listed: Sequence[str] = (),
    watched: bool = False,
) -> Path:
    """One CUDA source into one object: the host's half and the device's, both at once."""
    unit, is_debugged = unit_name(file, flags), DEVICE_DEBUG in flags
    base = folder / f"{file.stem}-{unit}"
    binary = base.with_suffix(".unit")
    binary.write_bytes(unit.encode() + b"\0")
    level = next((f for f in reversed(flags) if f.startswith("-O")), "-O2")
    standard = () if any(f.startswith("-std") for f in flags) else ("-std=c++17",)
    # Pragmas of OpenMP in a CUDA source are serial: the library that is linked is the system's, not clang's.
    given = [f"{f}=libgomp" if f == "-fopenmp" else f for f in flags]
    shared = [*_CUDA_FLAGS, *INCLUDE_FLAGS, *standard, "-O2", *given, *further_headers(), *_overlay(file, base)]
    if watched:  # findings name lines
        shared.append("-gline-tables-only")
    host, device = base.with_suffix(".host.ll"), base.with_suffix(".device.ll")
    include_unit = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(binary)]
    warnings = [] if any(f.startswith("-W") for f in flags) else ["-w"]
    run_tools(
        [*clang_command(), "--cuda-device-only", *_DEVICE_FLAGS, *shared, "-w", str(file), "-o", str(device)],
        [*clang_command(), "--cuda-host-only", *shared, *warnings, *listed, *include_unit, str(file), "-o", str(host)],
    )
    text, device_text = host.read_text(), device.read_text()
    source = source_digest(file, device_text)
    made = to_threads(device_text, unit, source, target_lines(text), linked=RELOCATABLE in flags)
    keep_kernels(source, made.kernels)
    device.write_text(watch_accesses(made.text, unit, str(INCLUDE[0].parent)) if watched else made.text)
    host.write_text(share_variables(text, made.variables))
    objects = [half.with_suffix(".o") for half in (host, device)]
    run_tools(
        [*clang_command(), *_CODE_FLAGS, level, "-c", str(host), "-o", str(objects[0])],
        [*clang_command(), *_CODE_FLAGS, "-O0" if is_debugged else "-O2", "-march=native", "-c", str(device), "-o",
         str(objects[1])],
    )  # fmt: skip
    is_ahead = ahead and not is_debugged
    for name, code in grid_objects(unit, KeptCode(file, flags, source), made.kernels).items() if is_ahead else ():
        objects.append(base.with_suffix(f".{name}.o"))
        objects[-1].write_bytes(code)
    run_tool([*linker_command(), "-r", "-nostdlib", *map(str, objects), "-o", str(to)])
    return to


def _overlay(file: Path, base: Path) -> list[str]:
    """Files in the source's folder in which launches are written with spaces (`<< <`) are read as nvcc reads them."""
    rows: list[dict[str, str]] = []
    for path in sorted({file, *(p for p in file.parent.glob("*") if p.suffix in (".cu", ".cuh", ".h"))}):
        text = path.read_text(errors="surrogateescape")
        read = as_clang_reads(text)
        if read != text:
            copy = base.with_suffix(f".{len(rows)}.cu")
            copy.write_text(read, errors="surrogateescape")
            rows.append({"name": str(path.resolve()), "type": "file", "external-contents": str(copy)})
    if not rows:
        return []
    overlay = base.with_suffix(".yaml")
    overlay.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": rows}))
    return ["-ivfsoverlay", str(overlay)]


def _preprocess(options: BuildOptions) -> list[Path]:
    """Text after macros, or a makefile's rules of what was read, to the output or as it is told."""
    texts = []
    for file in options.files:
        cuda = ["-x", "cuda", "--cuda-host-only", *_CUDA_FLAGS[2:], "-w"] if options.is_cuda(file) else ["-w"]
        flags = [f for f in cuda if f not in ("-S", "-emit-llvm")]
        named = [f for f in options.depend if f not in ("-MD", "-MMD", "-MP")]
        texts.append(
            run_tool([*clang_command(), *flags, *INCLUDE_FLAGS, *_of_clang(options.compile), *further_headers(),
                      options.preprocess, *named, str(file)])
        )  # fmt: skip
    if options.output is None:
        print("".join(texts), end="")
        return []
    options.output.write_text("".join(texts))
    return [options.output]


def _of_clang(flags: Sequence[str]) -> list[str]:
    return [f for f in flags if f != DEVICE_DEBUG]


def _archive(objects: list[Path], options: BuildOptions) -> Path:
    to = options.output or Path("a.a")
    to.unlink(missing_ok=True)
    run_tool([*archiver(), "crs", str(to), *map(str, objects)])
    return to


def _link(objects: list[Path], options: BuildOptions, folder: Path) -> Path:
    to = options.output or Path("a.out")
    library = runtime_objects(folder)
    extra = ["-shared"] if options.shared else ["-rdynamic"]
    command = [
        *linker_command(), *extra, *map(str, objects), *map(str, library), *options.link, "-lm", "-lpthread", "-ldl",
        "-o", str(to),
    ]  # fmt: skip
    try:
        run_tool(command)
    except UndefinedNames as missing:
        raise missing.helped(_how_to_define(missing.names, options)) from None
    return to


def _how_to_define(names: Collection[str], options: BuildOptions) -> str | None:
    """What would help a program that lacks ``names``."""
    if "main" in names:
        return "name the file that has `main` as well; -c makes an object, -shared a library"
    texts = [f.read_text(errors="replace") for f in options.files if options.is_cuda(f)]
    plain = {re.split(r"[(<]", name)[0].split("::")[-1] for name in names}
    marked = rf"__(?:device|constant)__[^;{{}}]*\b(?:{'|'.join(map(re.escape, plain))})\b"
    on_device = [re.split(r"\W", m.group())[-1] for text in texts for m in re.finditer(marked, text)]
    if on_device and RELOCATABLE not in options.compile:
        return f"device code of one file uses `{on_device[0]}` of another: -rdc=true links it, as with nvcc"
    return None
