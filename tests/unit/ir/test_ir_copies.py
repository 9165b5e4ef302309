"""Programs can be copied and pickled."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))])
def test_a_copy_is_the_same_program(copied) -> None:  # type: ignore[no-untyped-def]
    kernel = weft.schedule(weft.ops.softmax, X=(4, 5)).kernel
    twin: Kernel = copied(kernel)
    verify(twin)
    assert twin == kernel
    assert print_kernel(twin) == print_kernel(kernel)
