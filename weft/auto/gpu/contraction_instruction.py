"""Which matrix instruction adds up what a contraction does."""

from __future__ import annotations

from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage
from weft.ir.expr import Binary, Cast, Expr, Load
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Store
from weft.target.cuda import intrinsics as _matrix_instructions  # noqa: F401  declares them


def find_instruction(draft: GpuDraft, product: Product, *, grouped: bool) -> str | None:
    """The matrix instruction of a warp, or of a group of them, that adds up what the stage does, where there is one."""
    types = {s.access.buffer.dtype.name for s in product.sides}
    known = _SHORT if draft.s.numerics == "tf32" else {**_SHORT, "float32": None}
    short = known.get(types.pop()) if len(types) == 1 else None
    if short is None or not draft.is_fast or product.stage.write.buffer.dtype.name != "float32":
        return None
    hardware = HARDWARE.get(f"wgmma_{short}" if grouped else f"mma_{short}")
    if hardware is None or not all(draft.machine.has(need) for need in hardware.needs):
        return None
    return hardware.name if _is_wide_product(product.stage) else None


#: How instructions are called by the type of what they multiply.
_SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "tf32"}


def _is_wide_product(stage: Stage) -> bool:
    """Whether what is added is a product of two elements, each made a float32 first if it is none."""
    value = stage.block.body.value if isinstance(stage.block.body, Store) else None
    if not isinstance(value, Binary):
        return False
    return any(isinstance(e, Binary) and e.op == "*" and all(map(_is_element, (e.left, e.right)))
               for e in (value.left, value.right))  # fmt: skip


def _is_element(e: Expr) -> bool:
    return isinstance(e.operand if isinstance(e, Cast) else e, Load)


def is_thin_product(draft: GpuDraft, stage: Stage) -> bool:
    """Whether ``stage`` is a product of few rows for matrix instructions: then the other operand is all that counts."""
    product = read_product(stage)
    return product is not None and product.is_thin and find_instruction(draft, product, grouped=False) is not None
