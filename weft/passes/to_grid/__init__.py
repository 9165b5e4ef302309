"""From the fork-join form of a GPU program to the grid form, which CUDA is: one nest of threads, with barriers."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("check_divergence", only_if="barriers"),
    _pass("scalarize", gives="no vectors", only_if="vectors"),
    _pass("ride_asserts", needs="no blocks", only_if="asserts"),
    _pass("spread_asserts", needs="no blocks", only_if="asserts"),
    _pass(
        "join_threads",
        needs="no blocks, no reductions, no vectors",
        gives="grid form",
        options="fast, shared_bytes, most_threads",
    ),
    _pass("run_ahead", needs="no blocks", only_if="what runs ahead"),
    _pass("place_waits", needs="grid form", only_if="barriers, hardware intrinsics", options="has_async_copies"),
)
