"""Where torch keeps two facts about a tensor that no function of C tells: found by looking at a few tensors.

Whether a tensor is a negated view, and whether it may track gradients, Python can ask; that costs more than all the
rest of a fast call. Both stand in the tensor's structure in memory, at places that differ between versions of torch.
They are searched for in tensors whose answers are known, and used only where exactly one place fits all of them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

#: How much of the structure is looked at, in words; it is longer in every version since 2.0.
_WORDS = 24


class TensorFields(NamedTuple):
    """``structure``: where a tensor object has the address of its structure. In there, ``keys`` is a word that has
    the bit ``negative`` for negated views, and ``autograd`` one that is zero where there is nothing about gradients."""

    structure: int
    keys: int
    negative: int
    autograd: int


def find_tensor_fields(torch: Any) -> TensorFields | None:
    """Where they are in this version; None where that is not certain."""
    try:
        with torch.inference_mode(False):
            return _find(torch)
    except (AttributeError, TypeError, ValueError, RuntimeError):  # none of this is promised by torch
        return None


def _find(torch: Any) -> TensorFields | None:
    plain = [torch.empty(shape, device="cpu") for shape in ((2, 3), (), (5,))]
    negated = [torch._neg_view(t) for t in plain]
    others = [torch.empty(3, device="meta"), torch.empty(3, dtype=torch.complex64, device="cpu").conj()]
    samples = [*plain, *negated, *others]
    if any(type(t) is not torch.Tensor for t in samples):
        return None
    structure = _places([(_words(id(t), 8), t._cdata) for t in (*samples, torch.nn.Parameter(plain[0]))])
    samples_and_keys = [(t, torch._C._dispatch_keys(t).raw_repr()) for t in samples]
    keys = _places([(_words(t._cdata, _WORDS), value) for t, value in samples_and_keys])
    bit = torch._C.DispatchKeySet(torch._C.DispatchKey.Negative).raw_repr()
    tells = all(bool(value & bit) == t.is_neg() for t, value in samples_and_keys) and bit.bit_count() == 1
    autograd = _gradient_places(torch, [torch.empty(n, device="cpu") for n in (1, 4, 7)])
    if not (tells and len(structure) == len(keys) == len(autograd) == 1):
        return None
    return TensorFields(structure[0], keys[0], bit, autograd[0])


def _words(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}Q", ctypes.string_at(address, 8 * count))


def _places(samples: Sequence[tuple[tuple[int, ...], int]]) -> list[int]:
    """Where all samples have the word that each of them is given with."""
    count = len(samples[0][0])
    return [8 * i for i in range(count) if all(words[i] == value for words, value in samples)]


def _gradient_places(torch: Any, fresh: Sequence[Any]) -> list[int]:
    """Words that are zero until gradients are asked for, and are not from then on."""
    before = [_words(t._cdata, _WORDS) for t in fresh]
    for t in fresh:
        t.requires_grad_()
    after = [_words(t._cdata, _WORDS) for t in fresh]
    return [8 * i for i in range(_WORDS) if not any(w[i] for w in before) and all(w[i] for w in after)]


class StateFields(NamedTuple):
    """Where a tensor's values are and how often they were written: ``storage`` in its structure is the address of a
    structure whose word ``data`` is where the storage begins, ``offset`` how many elements behind that the tensor does;
    ``counter`` is the address of a structure that has the number of writes, of 32 bits, at ``version``."""

    storage: int
    data: int
    offset: int
    counter: int
    version: int


def find_state_fields(torch: Any) -> StateFields | None:
    """Where they are in this version; None where that is not certain."""
    try:
        with torch.inference_mode(False), torch.no_grad():
            found = _find_state(torch)
            return found if found is not None and _sees_changes(torch, found) else None
    except (AttributeError, TypeError, ValueError, RuntimeError, OSError):
        return None


def _find_state(torch: Any) -> StateFields | None:
    foreign = torch.frombuffer(bytearray(4 * 64), dtype=torch.float32)  # memory that torch has a second word about
    whole = [torch.zeros(64, device="cpu"), foreign, torch.zeros(64, device="cpu")]
    samples = [t[n : n + 7] for t, n in zip(whole, (29, 37, 53))]
    for t, writes in zip(samples, (41, 59, 83)):
        for _ in range(writes):
            t.add_(0)
    words = [_words(t._cdata, _WORDS) for t in samples]
    memory = [t.untyped_storage() for t in samples]
    storage = _places([(w, s._cdata) for w, s in zip(words, memory)])
    data = _places([(_words(s._cdata, 8), s.data_ptr()) for s in memory])
    offset = _places([(w, t.storage_offset()) for w, t in zip(words, samples)])
    counters = [
        (8 * i, 4 * j)
        for i in range(_WORDS)
        for j in range(12)
        if all(_read(w[i] + 4 * j) == t._version for w, t in zip(words, samples))
    ]
    if not (len(storage) == len(data) == len(offset) == len(counters) == 1):
        return None
    return StateFields(storage[0], data[0], offset[0], *counters[0])


def _read(address: int) -> int | None:
    """Four bytes of this process, None where there are none: it may be no address at all."""
    if not 4096 <= address < 1 << 47:
        return None
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return int.from_bytes(memory.read(4), "little")
    except (OSError, OverflowError):
        return None


def _sees_changes(torch: Any, fields: StateFields) -> bool:
    """Whether a write, other values and other memory are seen in a tensor that had no part in the search."""
    tensor = torch.nn.Parameter(torch.zeros(6))
    before = tensor_state(tensor, fields)
    tensor.add_(1)
    written = tensor_state(tensor, fields)
    tensor.data = torch.ones(6)
    moved = tensor_state(tensor, fields)
    is_right = moved.data == tensor.data_ptr() and written.version == before.version + 1
    return is_right and before.data == written.data != moved.data and before.counter == written.counter


class TensorState(NamedTuple):
    """What `StateFields` tells of one tensor."""

    structure: int
    storage: int
    data: int
    offset: int
    counter: int
    version: int


def tensor_state(tensor: Any, fields: StateFields) -> TensorState:
    structure = tensor._cdata
    storage, offset, counter = (
        ctypes.c_int64.from_address(structure + place).value
        for place in (fields.storage, fields.offset, fields.counter)
    )
    data = ctypes.c_int64.from_address(storage + fields.data).value
    return TensorState(
        structure, storage, data, offset, counter, ctypes.c_int32.from_address(counter + fields.version).value
    )
