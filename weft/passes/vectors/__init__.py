"""Loops as the lanes of vectors: which, how long, and data turned in registers."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("search_ahead", needs="no blocks, no barriers", only_if="thread loops, tests", options="vector_bits"),
    _pass(
        "vectorize_innermost",
        needs="no blocks, no reductions, no barriers",
        options="choose_lanes, vector_bits, has_masks, fast",
    ),
    _pass(
        "strip_vector_loops",
        needs="no blocks, no reductions",
        gives="strip mined",
        only_if="vector loops",
        options="choose_lanes, has_masks",
    ),
    _pass("transpose_tiles", needs="strip mined", only_if="unroll loops, vector loops", options="vector_bits"),
    _pass("shift_rows", needs="grid form", only_if="block loops, vector loops"),
    _pass("keep_within_rows", needs="grid form", only_if="vector loops"),
)
