"""What `bench.hecbench` has to know of single programs of HeCBench: sizes that a CPU ends with, and what was found by hand."""

from __future__ import annotations

from collections.abc import Mapping

#: Runs in place of the makefile's.
SMALLER: Mapping[str, tuple[str, ...]] = {}
#: What is told of a program in place of what it said itself.
NOTES: Mapping[str, str] = {}
