"""Which matrix instruction adds up what a contraction does."""

from __future__ import annotations

from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage
from weft.ir.expr import Binary, Cast, Const, Expr, Load, Select
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Store
from weft.target.cuda.intrinsics import ELEMENTS, instruction_name
from weft.target.cuda.read_products import can_be_turned


def find_instruction(draft: GpuDraft, product: Product, *, grouped: bool) -> str | None:
    """The matrix instruction of a warp, or of a group of them, that adds up what the stage does, where there is one."""
    types = [s.access.buffer.dtype.name for s in product.sides]
    if not all(t in ELEMENTS and product.stage.write.buffer.dtype.name == ELEMENTS[t].sums for t in types):
        return None
    element = ELEMENTS[types[0]]
    if not (draft.is_fast or element.is_exact) or (element.short == "tf32" and draft.s.numerics != "tf32"):
        return None
    if not all(s.along_depth or can_be_turned(s.access.buffer) for s in product.sides):
        return None
    hardware = HARDWARE.get(instruction_name("wgmma" if grouped else "mma", types))
    if hardware is None or not all(draft.machine.has(need) for need in hardware.needs):
        return None
    return hardware.name if _is_wide_product(product.stage) else None


def _is_wide_product(stage: Stage) -> bool:
    """Whether what is added is a product of two elements, each made of the type of the sums first."""
    value = stage.block.body.value if isinstance(stage.block.body, Store) else None
    if not isinstance(value, Binary):
        return False
    return any(isinstance(e, Binary) and e.op == "*" and all(map(_is_element, (e.left, e.right)))
               for e in (value.left, value.right))  # fmt: skip


def _is_element(e: Expr) -> bool:
    """Or zero, where there is none."""
    if isinstance(e, Select) and isinstance(e.otherwise, Const) and e.otherwise.value == 0:
        e = e.then
    return isinstance(e.operand if isinstance(e, Cast) else e, Load)


def is_thin_product(draft: GpuDraft, stage: Stage) -> bool:
    """Whether ``stage`` is a product of few rows for matrix instructions: then the other operand is all that counts."""
    product = read_product(stage)
    return product is not None and product.is_thin and find_instruction(draft, product, grouped=False) is not None
