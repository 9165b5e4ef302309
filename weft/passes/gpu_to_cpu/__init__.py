"""GPU programs on a CPU: barriers taken out, threads as lanes, blocks merged into long rows."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("split_grids", needs="no blocks, no reductions", only_if="barriers"),
    _pass("check_barriers", needs="no blocks, no reductions", only_if="barriers"),
    _pass("unroll_rounds", needs="no blocks, no reductions", only_if="barriers"),
    _pass("forward_shared", needs="no blocks", only_if="barriers, shared storage"),
    _pass("remove_barriers", needs="no blocks", only_if="barriers"),
    _pass("split_threads", needs="no blocks, no reductions", gives="no barriers", only_if="thread loops"),
    _pass("run_once", needs="no barriers", only_if="thread loops"),
    _pass("unroll_phases", needs="no barriers", only_if="thread loops"),
    _pass("fold_rounds", needs="no barriers", only_if="thread loops, allocations", options="vector_bits"),
    _pass("undo_strides", needs="no barriers", only_if="thread loops"),
    _pass("coalesce_blocks", needs="no barriers", only_if="block loops"),
    _pass("merge_blocks", needs="no barriers", only_if="block loops, thread loops", options="cores, cache_bytes"),
    _pass("privatize_atomics", needs="no barriers", only_if="atomics, block loops", options="cores, cache_bytes"),
    _pass("separate_blocks", needs="no barriers", only_if="block loops, thread loops"),
    _pass("narrow_threads", needs="no barriers", only_if="thread loops"),
    _pass("recover_rows", needs="no barriers", only_if="thread loops"),
    _pass("interleave_threads", needs="no barriers", only_if="thread loops"),
    _pass("peel_borders", needs="no barriers", only_if="thread loops"),
)
