"""What tells one code generator for CPUs from another without loading it."""

from __future__ import annotations

from weft.target.cpu.llvm import llvm_version as toolchain_key

__all__ = ["toolchain_key"]
