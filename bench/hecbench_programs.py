"""What `bench.hecbench` knows of single programs of HeCBench: sizes for a CPU, and what was found by hand."""

from __future__ import annotations

from collections.abc import Mapping

#: Runs in place of the makefile's.
SMALLER: Mapping[str, tuple[str, ...]] = {}
#: What is told of a program in place of what it said itself.
NOTES: Mapping[str, str] = {
    "clock": "it prints what `clock()` says, which is 0 in whole grids",
    "maxFlops": "it prints times only",
}
