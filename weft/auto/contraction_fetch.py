"""What the tiles of a contraction read next, asked for while one is computed: memory is slow to answer, not to read.

Processors fetch ahead by themselves what a loop goes through in order. Sums go through a few rows at once, each of them
short, and what is added to the sums is read where a tile ends, a piece of each row: neither is foreseen.
"""

from __future__ import annotations

from weft.auto.contraction_nest import Nest
from weft.auto.contraction_plan import Contraction, footprint
from weft.auto.draft import Draft
from weft.auto.stages import Stage, StageAccess
from weft.ir.buffer import Buffer

#: A stream of so many times the second cache hardly comes from there.
STREAM_FROM_AFAR = 4


def fetch_panels(draft: Draft, c: Contraction, nest: Nest, buffer: str) -> None:
    """While tiles are computed from a panel of ``buffer``, the next one comes from memory, a line now and then.

    Where each element serves one sum there is no meanwhile: panels are one stream, and what a processor foresees of it
    comes sooner alone, unless most of it comes from further than the second cache (64 steps with one row, in turns, ms:
    LSTM of 256 units 0.59 with hints and 0.38 without, of 512 units 2.09 and 2.06, RNN of 1024 units 2.21 and 2.40).
    """
    inside = nest.of("reductions")
    panels = nest.of("pieces") or nest.of("blocks") or nest.of("panels")
    if c.is_apart or c.is_written_out or not panels or nest.counts[panels[-1]] < 2:
        return
    is_stream = all(a.uses(i.name) or i.count == 1 for a in c.vector_operands for i in c.stage.iters)
    if is_stream and sum(_footprint_bytes(c, a) for a in c.vector_operands) < STREAM_FROM_AFAR * draft.cache("L2"):
        return
    for loop in inside:  # as seldom as all of it still comes, a few lines at a time
        if _fetch(draft, c, f"the next panel of `{buffer}`", buffer, loop, panels[-1]):
            return


def fetch_rows(draft: Draft, c: Contraction, nest: Nest, reader: Stage | None) -> None:
    """While a tile is computed, what the next one multiplies comes from memory, a line now and then, and what
    ``reader`` adds to its sums, all at once, where the second cache does not hold these."""
    reductions = nest.of("reductions")
    rows = [loop for loop in nest.order if loop in nest.of("strips", "rows") and nest.counts[loop] > 1]
    if not rows or not reductions:
        return
    for operand in c.operands:
        if not operand.uses(c.plan.lane) and _footprint_bytes(c, operand) > draft.cache("L2"):
            name = operand.buffer.name
            _fetch(draft, c, f"the next rows of `{name}`", name, reductions[-1], rows[-1])
    for buffer in dict.fromkeys(a.buffer for a in (reader.reads if reader is not None else ())):
        if buffer.name != c.stage.write.buffer.name and _bytes(buffer) > draft.cache("L2"):
            _fetch(draft, c, f"the next tile of `{buffer.name}`", buffer.name, nest.outer[-1])


def _footprint_bytes(c: Contraction, operand: StageAccess) -> int:
    return footprint(c.stage, operand) * operand.buffer.dtype.itemsize


def _bytes(buffer: Buffer) -> int:
    """Of a buffer of known size; none of others."""
    return (buffer.element_count() or 0) * buffer.dtype.itemsize


def _fetch(draft: Draft, c: Contraction, what: str, buffer: str, at: str, of: str | None = None) -> bool:
    if draft.attempt(draft.s.prefetch, buffer, at=at, ahead=1, of=of) is not None:
        return False
    draft.decide(
        "packing", c.stage.name, f"{what} fetched meanwhile", "it is read for the first time then, from memory"
    )
    return True
