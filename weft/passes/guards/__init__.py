"""Tests moved, dropped or split off, so that the inside of a program runs without them."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (
    _pass("peel_last_tile", needs="no blocks", only_if="choices"),
    _pass("hoist_guards", needs="no blocks", only_if="tests"),
    _pass("drop_guards", needs="no blocks", only_if="tests"),
    _pass("cut_loops", needs="no blocks", only_if="tests"),
    _pass("separate_tiles", needs="no blocks", only_if="tests"),
    _pass("guard_loads", needs="no blocks", only_if="tests, register storage"),
    _pass("separate_borders", needs="strip mined", only_if="choices, vector loops"),
    _pass("fill_edges", needs="grid form", only_if="fast numerics, unroll loops, tests, hardware intrinsics"),
    _pass("cut_pieces", needs="grid form", only_if="unroll loops, tests"),
    _pass("separate_masks", needs="grid form", only_if="unroll loops"),
    _pass("decide_by_first_lane", needs="no blocks", only_if="vector loops"),
)
