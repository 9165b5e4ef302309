"""The page of whole models: rows that are measured again take the place of old ones, and bars are told."""

from __future__ import annotations

from pathlib import Path

from bench.field.statistics import Ratio
from bench.models.conductor import ModelRow
from bench.models.report import ModelRun, page, summary
from bench.models.workloads import NAMES, PUBLISHED_FUSION, UNSEEN_NAMES, find_workload


def row(model: str, ours: float, theirs: float, batch: int = 1) -> ModelRow:
    made = ModelRow(model, batch, 2, ms={"weft": ours, "eager": theirs})
    made.ratios = {"eager": Ratio(theirs / ours, 0.9, 1.2)}
    return made


def test_a_row_measured_again_takes_the_place_of_the_old_one() -> None:
    run = ModelRun("a machine")
    first = row("VGG-16", 2.0, 1.0)
    first.cold_s = {"weft": 7.0}
    run.put(first)
    run.put(row("VGG-16", 1.0, 1.0))
    run.put(row("VGG-16", 3.0, 1.0, batch=8))
    assert [(r.batch, r.ms["weft"]) for r in run.rows] == [(1, 1.0), (8, 3.0)]
    assert run.rows[0].cold_s == {"weft": 7.0}, "compiling is measured on request alone, and stays"


def test_summary_names_what_is_below_the_bar() -> None:
    lines = summary([row("UNet", 1.0, 2.0), row("VGG-16", 2.0, 1.0)])
    assert "geometric mean against the best peer: 1.00" in lines[0]
    assert "VGG-16 1x2 0.50" in lines[1]
    assert "UNet" not in lines[1]


def test_page_goes_to_json_and_back(tmp_path: Path) -> None:
    run = ModelRun("a machine", {"weft": "1"}, [row("BERT-base 128", 1.0, 1.5)])
    run.rows[0].counts = {"operators": 800, "kernels": 120, "different": 12, "calls": 1}
    run.save(tmp_path / "run.json")
    again = ModelRun.load_from(tmp_path / "run.json")
    assert page(again) == page(run)
    assert "| BERT-base 128 | 1 | 2 | 1.50 (0.90–1.20) | eager | 1.0 | 1.5 |" in page(run)
    assert "| 800 | 120 (12) | 1 | 976 → 216 |" in page(run)
    by_hand = "## Where the time goes\n\nIn a loop.\n"
    assert page(run, f"old rows\n{by_hand}").endswith(f"\n{by_hand}")


def test_models_with_published_counts_are_measured() -> None:
    assert set(PUBLISHED_FUSION) <= set(NAMES)
    assert find_workload("UNet", {"batch": 8, "device": "cpu", "dtype": "float32"}).folder.name == "unet-8-float32"


def test_rows_with_numerics_that_were_asked_for_are_told_apart() -> None:
    asked = row("VGG-16", 1.0, 4.0)
    asked.numerics = "winograd"
    run = ModelRun("a machine", {}, [row("UNet", 1.0, 1.0), row("VGG-16", 2.0, 1.0)])
    run.put(asked)
    assert len(run.rows) == 3
    assert "mean against the best peer: 0.71" in summary(run.rows)[0]
    assert "with these in place: 2.00, least 1.00" in page(run)
    assert page(run).count("| VGG-16 | 1 | 2 |") == 2


def test_models_that_nothing_was_developed_on_have_a_table_of_their_own() -> None:
    made = page(ModelRun("a machine", {}, [row("UNet", 1.0, 2.0), row(UNSEEN_NAMES[0], 2.0, 1.0)]))
    first, second = made.split("## Models that nothing was developed on")
    assert "mean against the best peer: 2.00" in first
    assert UNSEEN_NAMES[0] not in first
    assert "mean against the best peer: 0.50" in second
