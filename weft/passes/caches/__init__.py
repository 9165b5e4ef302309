"""What is asked of the caches ahead of time."""

from weft.passes.declare import declared_in

_pass = declared_in(__name__)

PASSES = (_pass("prefetch_rows", needs="strip mined", only_if="vector loops, allocations", options="cache_bytes"),)
