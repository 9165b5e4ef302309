"""Some of the values of tensors as they were: who writes to a tensor without telling the framework is seen by them.

A model of few weights is compared whole, a larger one at places that are spread over each tensor. A write of other
values to all of a tensor (an optimizer's step, another array copied into it) changes what is at some place; a write to
few elements may change none.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from weft.runtime.native import load_native
from weft.runtime.native_module import NativeModule, words

#: Words of 8 bytes up to which all tensors together are compared whole, in a microsecond; of more, so many are shared
#: out among tensors, of which each has at least and at most so many places looked at.
WHOLE, SHARED, LEAST_PLACES, MOST_PLACES = 4096, 1024, 8, 64
#: Words in memory: the first, how many bytes further on the next is, how many, which bits of each, what they were.
SAMPLE = ("first", "step", "count", "mask", "kept")
_ALL_BITS = -1

#: How samples are compared, for the machine code that calls models, too.
IS_SAME = """
def is_same(samples, count):
    for i in range(count):
        sample: Sample = samples + i * sample_size
        first = sample.first
        step = sample.step
        kept = sample.kept
        different = 0
        for j in range(sample.count):
            different = different | (first[0] ^ kept[j])
            first = first + step
        if (different & sample.mask) != 0:
            return 0
    return 1
"""
_KEEP = """
def weft_keep_samples(samples, count):
    for i in range(count):
        sample: Sample = samples + i * sample_size
        first = sample.first
        kept = sample.kept
        for j in range(sample.count):
            kept[j] = first[0]
            first = first + sample.step


def weft_is_same(samples, count):
    return is_same(samples, count)
"""
STRUCTURES = {"Sample": words(*SAMPLE)}
CONSTANTS = {"sample_size": 8 * len(SAMPLE)}


class Memory(NamedTuple):
    """Where a tensor is: its first element, bytes of one, and elements from one to the next along each axis."""

    pointer: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether its elements fill their memory, in whatever order."""
        expected = 1
        for stride, size in sorted(pair for pair in zip(self.strides, self.shape) if pair[1] != 1):
            if stride != expected:
                return False
            expected *= size
        return True


class _Sample(NamedTuple):
    first: int
    step: int = 0
    words: int = 1
    mask: int = _ALL_BITS


class Witness:
    """What is at some places of ``tensors``; the memory must be there when `is_same` is asked."""

    def __init__(self, tensors: Sequence[Memory] = ()) -> None:
        total = sum(-(-t.elements * t.itemsize // 8) for t in tensors)
        places = min(MOST_PLACES, max(LEAST_PLACES, SHARED // max(len(tensors), 1)))
        samples = [list(_samples(t, WHOLE if total <= WHOLE else places)) for t in tensors]
        self._ends = [sum(s.words for s in of_one) for of_one in samples]
        self._kept = (ctypes.c_int64 * max(sum(self._ends), 1))()
        address, fields = ctypes.addressof(self._kept), []
        for sample in (s for of_one in samples for s in of_one):
            fields += [*sample, address]
            address += 8 * sample.words
        self._table = (ctypes.c_int64 * max(len(fields), 1))(*fields)
        #: where the samples are, and how many
        self.samples = ctypes.addressof(self._table), len(fields) // len(SAMPLE)
        _functions()[0](*self.samples)

    def is_same(self) -> bool:
        return bool(_functions()[1](*self.samples))

    def digests(self) -> list[int]:
        """Of each tensor: differs where what was kept of it does."""
        values, begin, made = list(self._kept), 0, []
        for count in self._ends:
            made.append(hash(tuple(values[begin : begin + count])))
            begin += count
        return made


def _samples(tensor: Memory, places: int) -> Iterator[_Sample]:
    size = tensor.elements * tensor.itemsize
    if not size:
        return
    if not tensor.is_dense:
        yield from _elements(tensor, places)
    elif size < 8:
        yield from _part_of_a_word(tensor.pointer, size)
    elif size // 8 <= places:
        yield _Sample(tensor.pointer, 8, size // 8)
        if size % 8:
            yield _Sample(tensor.pointer + size - 8)
    else:
        step = (size // 8 - 1) // (places - 1)
        step -= step > 1 and step % 2 == 0  # rows are even mostly: places are not in one column
        yield _Sample(tensor.pointer, 8 * step, places)
        yield _Sample(tensor.pointer + size - 8)


def _part_of_a_word(pointer: int, size: int) -> Iterator[_Sample]:
    """Less than 8 bytes: what is beside them may be another's, and a word from there on may lie in no memory."""
    before = pointer % 8
    if before + size <= 8:
        mask = ((1 << 8 * size) - 1) << 8 * before
        yield _Sample(pointer - before, mask=mask - (1 << 64) if mask >> 63 else mask)


def _elements(tensor: Memory, places: int) -> Iterator[_Sample]:
    """One by one: between them is memory of others."""
    count = min(tensor.elements, places)
    for n in range(count):
        number = n * (tensor.elements - 1) // max(count - 1, 1)
        place = 0
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides)):
            number, along = divmod(number, size)
            place += along * stride
        pointer = tensor.pointer + place * tensor.itemsize
        if tensor.itemsize < 8:
            yield from _part_of_a_word(pointer, tensor.itemsize)
        else:
            yield _Sample(pointer, 8, tensor.itemsize // 8)


@functools.cache
def _functions() -> tuple[Callable[..., int], Callable[..., int]]:
    loaded = load_native(NativeModule(IS_SAME + _KEEP, CONSTANTS, STRUCTURES), {})
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    keep, is_same = (kind(loaded.address(name)) for name in ("weft_keep_samples", "weft_is_same"))
    _code.append(loaded)
    return keep, is_same


#: What the functions point into.
_code: list[object] = []
