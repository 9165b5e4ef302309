"""Products that are summed over several short axes, unfolded so that matrix instructions find one that is long enough.

The first layer of a network sums over three channels and a window, the gradient of a convolution's weights over
images, rows and columns. `unfold` makes one axis of these. The larger factor is never in memory: its elements are
gathered where they are copied to shared memory (`contraction`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from weft.auto.contraction_plan import is_contraction
from weft.auto.gpu.contraction import deep_prices
from weft.auto.gpu.contraction_product import FEWEST
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.schedules.find import find_buffer
from weft.schedules.layouts import LETTERS
from weft.target.cuda.intrinsics import ELEMENTS
from weft.target.cuda.read_boxes import rows_apart

#: Steps of one axis from which on pieces of it are deep enough as they are, and the fewest of all that are worth it.
DEEP, SHALLOW = 32, 16


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Factors ``image`` and ``weights`` and the iterators to make one of. In the image the last are ``channels``, so
    many at a time; without any, all of its iterators slide, or are images."""

    image: StageAccess
    weights: StageAccess
    order: tuple[StageIter, ...]
    channels: StageIter | None = None

    @property
    def multiple(self) -> int:
        """Channels are filled up to as many as one copy takes."""
        size = self.image.buffer.dtype.itemsize
        count = 0 if self.channels is None else self.channels.count * size
        return 1 if self.channels is None else (WIDEST if count > WIDEST // 2 else WIDEST // 2) // size

    @property
    def is_copied(self) -> bool:
        """Whether the image gets a copy in which channels lie side by side and fill up what one copy takes."""
        c = self.channels
        return c is not None and (c.count % self.multiple != 0 or self.image.stride(c.name) != 1)


def unfold_sums(draft: GpuDraft) -> None:
    """Every product that a matrix instruction could multiply if its sums were one axis."""
    for name in [s.name for s in draft.stages]:
        found = read_unfolded(draft.stage(name)) if draft.is_fast else None
        if found is not None and not deep_prices(draft, draft.stage(name)):
            draft.attempt(_unfold, draft, name, found)


def read_unfolded(stage: Stage) -> Unfolded | None:
    """What to unfold; None where there is no need, or no use."""
    if stage.op != "+" or stage.is_inside or not stage.is_plain or not is_contraction(stage):
        return None
    reads, summed = stage.distinct_reads, [i for i in stage.reductions if i.count > 1]
    known = all(i.extent is not None and i.exact for i in stage.iters) and all(a.is_affine for a in reads)
    if len(reads) != 2 or len(summed) < 2 or not known or prod(i.count for i in summed) < SHALLOW:
        return None
    if any(a.buffer.dtype.name not in ELEMENTS for a in reads) or not all(
        a.uses(i.name) for a in reads for i in summed
    ):
        return None
    alone = [[i.count for i in stage.spatial if a.uses(i.name) and not b.uses(i.name)] for a, b in (reads, reads[::-1])]
    if min(map(prod, alone)) < FEWEST:
        return None
    image, weights = sorted(reads, key=lambda a: -sum(a.uses(i.name) for i in stage.iters))
    return _read_window(stage, image, weights, summed) or _read_gradient(stage, image, weights, summed)


def _slid(stage: Stage, image: StageAccess, of: StageIter) -> StageIter | None:
    """The iterator of results along with which ``of`` moves through the image."""
    rows = [row for row in image.rows or () if row.get(of.name)]
    others = [stage.by_name[n] for row in rows for n, step in row.items() if step and n != of.name]
    return others[0] if len(rows) == 1 and len(others) == 1 and not others[0].is_reduction else None


def _read_window(stage: Stage, image: StageAccess, weights: StageAccess, summed: list[StageIter]) -> Unfolded | None:
    """Taps of a window, which are fewer than the places it has, and few channels."""
    taps = [i for i in summed if (at := _slid(stage, image, i)) is not None and at.count >= i.count]
    channels = [i for i in summed if i not in taps]
    if not taps or len(channels) != 1 or image.subscript_of(channels[0].name) is None or channels[0].count >= DEEP:
        return None
    order = sorted(taps, key=lambda i: -(image.stride(i.name) or 0))
    return Unfolded(image, weights, (*order, *channels), channels[0])


def _read_gradient(stage: Stage, image: StageAccess, weights: StageAccess, summed: list[StageIter]) -> Unfolded | None:
    """Places of a window, of which there are more than taps, and images; other axes lie along memory."""
    slides = any(_slid(stage, image, i) is not None for i in summed)
    if not slides or any(a.stride(i.name) == 1 for a in (image, weights) for i in summed):
        return None
    return Unfolded(image, weights, tuple(sorted(summed, key=lambda i: -(image.stride(i.name) or 0))))


def _unfold(draft: GpuDraft, name: str, found: Unfolded) -> None:
    s, stage = draft.s, draft.stage(name)
    multiple = found.multiple if found.is_copied else 1
    _, made = s.unfold(name, *(i.name for i in found.order), multiple=multiple)
    of = {a.buffer.name: str(block) for (block, _), a in zip(made, _as_factors(draft, made, found))}
    for a in (found.image, found.weights):
        matrix, run = of[a.buffer.name], _side_by_side(stage, a, found)
        if a is found.image or (not found.is_copied and run > 1):
            draft.gathered[matrix] = gcd(WIDEST, run * a.buffer.dtype.itemsize)
        elif apart := rows_apart(find_buffer(s.kernel, matrix)):
            s.pad_rows(matrix, apart, strided=True)
    if found.is_copied:
        _copy_image(draft, found, of[found.image.buffer.name])
    names = ", ".join(f"`{i.name}`" for i in found.order)
    draft.decide("tiling", name, f"{names} are one axis, of a matrix that is never made", "each is short by itself")


def _as_factors(draft: GpuDraft, made: tuple[tuple[object, object], ...], found: Unfolded) -> list[StageAccess]:
    """The factor that each matrix is made of."""
    sources = [draft.stage(str(block)).reads[0].buffer.name for block, _ in made]
    return [next(a for a in (found.image, found.weights) if a.buffer.name == source) for source in sources]


def _side_by_side(stage: Stage, access: StageAccess, found: Unfolded) -> int:
    """Elements of a factor that lie side by side, and in its matrix, too."""
    if found.channels is not None and (access is found.image or access.stride(found.channels.name) == 1):
        return -(-found.channels.count // found.multiple) * found.multiple if found.is_copied else found.channels.count
    return max((i.count for i in stage.spatial if access.subscript_of(i.name) == access.buffer.rank - 1), default=1)


def _copy_image(draft: GpuDraft, found: Unfolded, matrix: str) -> None:
    """A copy of the image with channels last, filled up with zeros, and with zeros around it."""
    assert found.channels is not None
    deep, rank = found.image.subscript_of(found.channels.name), found.image.buffer.rank
    assert deep is not None
    others = [LETTERS[d] for d in range(rank) if d != deep]
    layout = " ".join([*others, f"{LETTERS[deep]}/{found.multiple}", f"{LETTERS[deep]}%{found.multiple}"])
    image = found.image.buffer.name
    if draft.stage(matrix).reads[0].guarded:
        _, storage = draft.s.surround(image, readers=[matrix], layout=layout)
    else:
        _, storage = draft.s.pack(image, layout, pad=True, readers=[matrix])
    draft.s.store_at(storage)
    what = f"a copy of `{image}` with {found.multiple} channels side by side"
    draft.decide("packing", matrix, what, "they are copied to shared memory at once, without a test")
