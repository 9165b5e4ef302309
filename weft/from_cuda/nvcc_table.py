"""nvcc's options that no C++ compiler has: their names, which take values, and what becomes of each here."""

from __future__ import annotations

#: The long and the short name of each.
_WITHOUT_VALUE = """
cuda cuda, cubin cubin, fatbin fatbin, ptx ptx, optix-ir optix-ir, ltoir ltoir, preprocess E,
generate-dependencies M, generate-nonsystem-dependencies MM, generate-dependencies-with-compile MD,
generate-nonsystem-dependencies-with-compile MMD, generate-dependency-targets MP, compile c, device-c dc,
device-w dw, device-link dlink, link link, lib lib, run run, objdir-as-tempdir objtemp,
allow-unsupported-compiler allow-unsupported-compiler, use-local-env use-local-env,
force-cl-env-setup force-cl-env-setup, profile pg, device-debug G, generate-line-info lineinfo,
dlink-time-opt dlto, lto lto, gen-opt-lto gen-opt-lto, no-exceptions noeh, shared shared,
no-host-device-initializer-list nohdinitlist, no-host-device-move-forward nohdmoveforward,
expt-relaxed-constexpr expt-relaxed-constexpr, extended-lambda extended-lambda,
expt-extended-lambda expt-extended-lambda, m64 m64,
forward-unknown-to-host-compiler forward-unknown-to-host-compiler,
forward-unknown-to-host-linker forward-unknown-to-host-linker, forward-unknown-opts forward-unknown-opts,
dont-use-profile noprof, dryrun dryrun, verbose v, fdevice-syntax-only fdevice-syntax-only, keep keep,
save-temps save-temps, clean-targets clean, no-align-double no-align-double, no-device-link nodlink,
use_fast_math use_fast_math, extra-device-vectorization extra-device-vectorization, disable-warnings w,
keep-device-functions keep-device-functions, source-in-ptx src-in-ptx, restrict restrict, Wreorder Wreorder,
Wdefault-stream-launch Wdefault-stream-launch, Wmissing-launch-bounds Wmissing-launch-bounds,
Wext-lambda-captures-this Wext-lambda-captures-this, Wno-deprecated-gpu-targets Wno-deprecated-gpu-targets,
resource-usage res-usage, extensible-whole-program ewp, no-compress no-compress, qpp-config qpp-config,
compile-as-tools-patch astoolspatch, list-gpu-code code-ls, list-gpu-arch arch-ls, display-error-number err-no,
no-display-error-number no-err-no, augment-host-linker-script aug-hls, relocatable-link r,
relocatable-ptx reloc-ptx, jobserver jobserver, deviceemu deviceemu
"""
_WITH_VALUE = """
dependency-output MF, dependency-target-name MT, dependency-target-quoted MQ, output-file o, pre-include include,
system-include isystem, output-directory odir, compiler-bindir ccbin, archiver-binary arbin, cudart cudart,
cudadevrt cudadevrt, libdevice-directory ldir, target-directory target-dir, optimization-info opt-info,
Ofast-compile Ofc, dopt dopt, x x, std std, machine m, compiler-options Xcompiler, linker-options Xlinker,
archive-options Xarchive, ptxas-options Xptxas, nvlink-options Xnvlink, cudafe-options Xcudafe,
fatbin-options Xfatbin, static-global-template-stub static-global-template-stub,
device-entity-has-hidden-visibility device-entity-has-hidden-visibility, threads t, split-compile split-compile,
split-compile-extended split-compile-extended, fdevice-time-trace fdevice-time-trace, keep-dir keep-dir,
time time, run-args run-args, input-drive-prefix idp, dependency-drive-prefix ddp, drive-prefix dp,
gpu-architecture arch, gpu-code code, generate-code gencode, gpu-name gpu-name, relocatable-device-code rdc,
entries e, maxrregcount maxrregcount, ftz ftz, prec-div prec-div, prec-sqrt prec-sqrt, fmad fmad,
default-stream default-stream, Werror Werror, diag-error diag-error, diag-suppress diag-suppress,
diag-warn diag-warn, host-linker-script hls, brief-diagnostics brief-diag, jump-table-density jtd,
device-stack-protector device-stack-protector, compress-mode compress-mode, frandom-seed frandom-seed,
sanitize sanitize, options-file optf, ftemplate-backtrace-limit ftemplate-backtrace-limit,
ftemplate-depth ftemplate-depth
"""


def _names(table: str, takes: bool) -> dict[str, tuple[str, bool]]:
    rows = (row.split() for row in table.replace("\n", " ").split(","))
    return {name: (long, takes) for long, short in rows for name in (f"--{long}", f"-{short}", f"-{long}")}


#: By every spelling: the long name, and whether a value follows it.
OPTIONS = {**_names(_WITHOUT_VALUE, False), **_names(_WITH_VALUE, True)}

#: What asks for something that is no program, and why there is none.
REFUSED = {
    **dict.fromkeys(
        ("cuda", "cubin", "fatbin", "ptx", "optix-ir", "ltoir"),
        "kernels become code for this processor: there is no code for a GPU",
    ),
    "run": "a program is built and run by `weft cuda run program.cu -- its arguments`",
    "clean-targets": "nothing is left behind that could be removed",
    "relocatable-link": "objects are linked into programs or shared libraries",
    "sanitize": "`weft cuda check program.cu` looks for what it would find",
}
#: What somebody counts on who says it, and nothing is done for: it is named as ignored.
NAMED = {
    "Werror": "warnings of a kind of nvcc's own are not made errors",
    "diag-error": "nvcc's own numbers of warnings mean nothing here",
    "keep": "no files between are kept",
    "save-temps": "no files between are kept",
    "keep-dir": "no files between are kept",
    "time": "no table of times is written",
    "fdevice-time-trace": "no table of times is written",
    "resource-usage": "no GPU's registers are used; `weft cuda show FILE --kernel NAME --stage asm` shows the code",
    "optimization-info": "see `weft cuda show FILE --kernel NAME --stage lowered`",
    "profile": "see WEFT_CUDA_TIMES=file, or perf",
    "device-stack-protector": "`weft cuda check` and `weft cuda run --guard` find what it would",
    "entries": "all kernels are compiled",
}
# Of all others nothing is told: what they say is so anyway, or is of GPUs alone.
