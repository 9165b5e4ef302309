"""The published table of Megatron on A100 (SC'21, table 1), from a simulator with four numbers fitted on four rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3]))
from bench.megatron import FITTED, differences

from weft.dist.machines import machine
from weft.dist.transformer import SELENE, Gpt, Split, training_step
from weft.ir.errors import ArgumentError


def test_table_within_bars() -> None:
    found = {name: abs(d) for name, d in differences().items()}
    assert len(found) == 10
    assert len(FITTED) <= 4
    assert sum(found.values()) / len(found) <= 0.03
    assert max(found.values()) <= 0.08


def test_published_formula_of_operations() -> None:
    model, batch = Gpt(12288, 96, 96), 1536
    whole = 1 + model.sequence / (6 * model.hidden) + model.vocabulary / (16 * model.layers * model.hidden)
    assert model.flops(batch) == pytest.approx(96 * batch * model.sequence * 96 * 12288**2 * whole)


def test_trillion_parameters() -> None:
    assert Gpt(25600, 128, 160).parameters == pytest.approx(1.008e12, rel=1e-2)


def test_sizes_that_do_not_divide() -> None:
    with pytest.raises(ArgumentError, match="30 layers over 4 x 1 stages do not divide"):
        training_step(Gpt(3072, 30, 32), Split(64, 2, 4, 1, 1, 512), machine("a100-selene"), SELENE)


def test_unknown_machine() -> None:
    with pytest.raises(ArgumentError, match="unknown machine dgx-2"):
        machine("dgx-2")
