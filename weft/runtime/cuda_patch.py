"""Launches inside a CUDA graph whose parameters change between its launches: nothing is copied for them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.runtime.cuda_driver import driver_function, error_of

if TYPE_CHECKING:
    from weft.runtime.cuda_program import Frame, LoadedProgram, Plan


class _NodeParams(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("params", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class PatchedLaunches:
    """The launches of one call of a program, as a stream records them, and the nodes that they became."""

    def __init__(self, program: LoadedProgram, plan: Plan, frame: Frame, stream: int) -> None:
        self._frame = frame
        self._params: list[_NodeParams] = []
        #: Each node, and the address of its parameters.
        self.nodes: list[tuple[int, int]] = []
        for (launch, grid), arguments in zip(plan.launches, frame.launches):
            program.launch(arguments)
            params = _NodeParams(function=program.functions[launch.name], params=arguments[2].value)
            params.grid[:], params.block[:], params.shared_bytes = grid, launch.block, launch.shared_bytes
            self._params.append(params)
            self.nodes.append((_last_node(stream), ctypes.addressof(params)))

    @property
    def has_maps(self) -> bool:
        """Whether what copy engines know of tensors changes with them too."""
        return bool(self._frame.maps)

    def slot_address(self, place: int) -> int:
        """Where the address of the tensor in that place is kept, and read from when nodes change."""
        return ctypes.addressof(self._frame.slots) + 8 * place

    def change(self, executable_graph: int, addresses: Mapping[int, int]) -> None:
        """Other tensors in the places named, for launches of the graph from now on; nothing where they are there."""
        slots = self._frame.slots
        if all(slots[place] == address for place, address in addresses.items()):
            return
        for place, address in addresses.items():
            slots[place] = address
        self._frame.move_maps()
        change = _change_function()
        for node, params in self.nodes:
            status = change(executable_graph, node, params)
            if status:
                slots[next(iter(addresses))] = 0  # so that it is tried again
                raise error_of("cuGraphExecKernelNodeSetParams", status)


@functools.cache
def _change_function() -> Any:
    return driver_function("cuGraphExecKernelNodeSetParams_v2", 3)


def _last_node(stream: int) -> int:
    """The node that a stream recorded last."""
    status, nodes, edges, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    answers = [ctypes.addressof(value) for value in (nodes, edges, count)]
    ask = driver_function("cuStreamGetCaptureInfo_v3", 7)
    failed = ask(stream, ctypes.addressof(status), None, None, *answers)
    if failed or count.value != 1 or not nodes.value:
        raise error_of("cuStreamGetCaptureInfo", failed or 1)
    return int(ctypes.c_void_p.from_address(nodes.value).value or 0)
