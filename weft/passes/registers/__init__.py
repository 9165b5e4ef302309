"""Values kept in registers instead of memory."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("jam_threads", needs="no barriers", only_if="thread loops, vector loops", options="vector_bits"),
    _pass("promote_registers", needs="no blocks, no reductions", options="scopes"),
    _pass("carry_stores", needs="no blocks, no reductions"),
    _pass("pad_registers", needs="strip mined", only_if="register storage, vector loops"),
    _pass("defer_totals", needs="grid form", only_if="fast numerics, thread loops, hardware intrinsics"),
    _pass("hoist_addends", needs="grid form", only_if="fast numerics, unroll loops"),
    _pass("start_sums", needs="grid form", only_if="fast numerics, unroll loops, hardware intrinsics"),
    _pass("unroll_registers", needs="no blocks", only_if="register storage"),
    _pass("unroll_steps", needs="no blocks, strip mined", only_if="register storage", options="slots, vector_bits"),
)
