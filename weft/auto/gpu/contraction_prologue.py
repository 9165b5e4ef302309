"""Formulas that make an operand of a product on its way to shared memory, such as weights that are unpacked there.

Where a block has all rows, each element of the other operand is used by one block alone: computed where it is copied,
it need not be stored, and what it is made from is all that is read.
"""

from __future__ import annotations

from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage


def find_prologue(draft: GpuDraft, product: Product) -> Stage | None:
    """The formula that makes the columns of a product of few rows, and nothing else; None where there is none."""
    writers = draft.stages.writers(product.columns.buffer)
    if len(writers) != 1 or not product.is_thin or product.batch or product.around or product.columns.gathered:
        return None
    (stage,) = writers
    plain = stage.op == "=" and not stage.reductions and not stage.reads_target and not stage.is_inside
    alone = [s.name for s in draft.stages.consumers(stage)] == [product.name]
    free = stage.name not in draft.scheduled and not draft.stages.is_output(stage)
    return stage if plain and alone and free else None


def has_prologue(draft: GpuDraft, stage: Stage) -> bool:
    """Whether ``stage`` is a product by matrix instructions that such a formula goes along with."""
    product = read_product(stage)
    if product is None or find_instruction(draft, product, grouped=False) is None:
        return False
    return find_prologue(draft, product) is not None
