"""From blocks, reductions in expressions and loops through tiles to plain statements."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("check_supported", options="target, memory"),
    _pass(
        "lower_intrinsics",
        gives="no tensorized nests",
        only_if="hardware intrinsics",
        options="machine_name, missing_for",
    ),
    _pass("turn_ordered_loops", only_if="turns", options="fast"),
    _pass("lower_blocks", gives="no blocks", only_if="blocks"),
    _pass("lower_reduce", gives="no reductions", only_if="reductions"),
    _pass("inline_indices", needs="no blocks", only_if="thread loops"),
    _pass("shrink_storage", needs="no blocks", only_if="allocations"),
    _pass("rebase_loops"),
    declared_in("weft.ir")("simplify"),
    _pass("convert_ifs", needs="no blocks, no barriers", only_if="thread loops"),
    _pass("turn_loops", only_if="turns"),
    _pass("split_casts", needs="no blocks", only_if="unroll loops"),
    _pass("multiply_reciprocals", needs="no blocks", only_if="fast numerics, float divisions"),
)
