"""The version of a dictionary, where this Python has one."""

from __future__ import annotations

import ctypes
import sys

import pytest

from weft.runtime.dict_version import dict_version_offset


def test_python_has_a_version_up_to_3_13() -> None:
    if sys.implementation.name != "cpython":
        pytest.skip("of CPython")
    assert (dict_version_offset() is not None) == (sys.version_info < (3, 14))


def test_it_changes_with_the_dictionary_alone() -> None:
    offset = dict_version_offset()
    if offset is None:
        pytest.skip("no version here")
    table, other = {"a": 1}, {"a": 1}

    def version(of: dict[str, int]) -> int:
        return ctypes.c_uint64.from_address(id(of) + offset).value

    before = version(table)
    other["a"] = 2
    assert table["a"] == 1
    assert version(table) == before != version(other)
    table["a"] = 2
    assert version(table) not in (before, version(other))
