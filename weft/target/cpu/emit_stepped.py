"""Loads of every second, third or fourth element: whole vectors are loaded and lanes picked from them.

Windows read such elements from neighbouring starts, ``I[2 * w]`` and ``I[2 * w + 1]``. Where the whole vectors around
them are surely in the buffer, both are picked from the same vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.ir.expr import Load, Var
from weft.ir.interval import bounds
from weft.target.cpu.emit_context import I64, Function, literal_of
from weft.target.cpu.emit_offset import offset_sum
from weft.target.cpu.llvm_values import Value, constant

#: Steps between lanes for which this is done.
SHORT_STEPS = (2, 3, 4)
#: The longest step for which it is where one instruction picks from two vectors: an element by itself takes as long.
LONGEST_STEP = 16
#: Loads a vector of the given lanes, in which only those of the given mask are wanted.
LoadMasked = Callable[[Value, Value], Value]


def load_stepped(f: Function, type: str, element: str, pointer: Value, step: int, metadata: str) -> Value:
    """Every ``step``-th element from ``pointer`` on; nothing beyond the last of them is touched."""
    lanes = constant(type, 0).lanes
    vectors = [
        (start, f.b.load(type, _moved(f, element, pointer, start), metadata=metadata, pure=bool(metadata)))
        for start in _starts(lanes, step)
    ]
    return _pick(f, vectors, [lane * step for lane in range(lanes)])


def load_stepped_masked(
    f: Function, element: str, pointer: Value, step: int, mask: Value, load_masked: LoadMasked
) -> Value:
    """The same for the lanes of ``mask``; only their elements are touched."""
    lanes = mask.lanes

    def load(start: int) -> Value:
        wanted = [divmod(start + n, step) for n in range(lanes)]
        picks = [lane if rest == 0 and lane < lanes else lanes for lane, rest in wanted]
        return load_masked(_moved(f, element, pointer, start), f.b.shuffle(mask, constant(mask.type, 0), picks))

    vectors = [(start, load(start)) for start in _starts(lanes, step)]
    return _pick(f, vectors, [lane * step for lane in range(lanes)])


def load_together(f: Function, type: str, element: str, pointer: Value, step: int, skip: int, metadata: str) -> Value:
    """Every ``step``-th element from ``pointer + skip`` on, of vectors that other values of ``skip`` share."""
    lanes = constant(type, 0).lanes
    vectors = [
        (start, f.b.load(type, _moved(f, element, pointer, start), metadata=metadata, pure=True))
        for start in range(0, lanes * step, lanes)
    ]
    return _pick(f, vectors, [lane * step + skip for lane in range(lanes)])


def _starts(lanes: int, step: int) -> list[int]:
    """Where vectors begin; the last ends with the last element. With ``step - 1`` lanes none reaches beyond it."""
    return [n * lanes for n in range(step - 1)] + [(lanes - 1) * (step - 1)]


def _moved(f: Function, element: str, pointer: Value, by: int) -> Value:
    return f.b.gep(element, pointer, Value(str(by), I64), inbounds=False) if by else pointer


def _pick(f: Function, vectors: Iterable[tuple[int, Value]], positions: list[int]) -> Value:
    """The elements at ``positions``, of vectors given with the position of their first one."""
    result: Value | None = None
    filled = [False] * len(positions)
    for start, part in vectors:
        inside = [0 <= p - start < part.lanes for p in positions]
        if result is None:
            picks = [p - start if here else -1 for p, here in zip(positions, inside)]
            result = f.b.shuffle(part, None, picks)
        else:
            lanes = enumerate(zip(positions, inside, filled))
            picks = [n if done else part.lanes + p - start if here else -1 for n, (p, here, done) in lanes]
            result = f.b.shuffle(result, part, picks)
        filled = [n >= 0 for n in picks]
    assert result is not None
    return result


def is_room_around(f: Function, load: Load, skip: int, lanes: int, step: int) -> bool:
    """Whether the whole vectors that begin ``skip`` elements before the load's first lane are surely in its buffer."""
    total, size = offset_sum(f, load.buffer, load.indices), load.buffer.element_count()
    if size is None:
        return False
    low = high = total.plus - skip
    for e, factor in total.terms:
        if isinstance(e, Var) and e.name == f.lane:
            continue
        number = literal_of(f.read(e.name)) if isinstance(e, Var) and e.name in f.names else None
        of_it = bounds(e, f.program.ranges) if number is None else None
        ends = (number, number) if of_it is None else (of_it.lo, of_it.hi)
        if ends[0] is None or ends[1] is None:
            return False
        low += min(ends[0] * factor, ends[1] * factor)
        high += max(ends[0] * factor, ends[1] * factor)
    return low >= 0 and high + lanes * step <= size
