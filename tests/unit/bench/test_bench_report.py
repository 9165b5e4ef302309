"""Pages and pictures of runs, and rows through JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

import pytest

import weft
from bench.field.command import chosen_workloads, describe_row, run_bench
from bench.field.conductor import Plan, Row
from bench.field.plot import draw, position
from bench.field.report import page, summary
from bench.field.run import Run
from bench.field.statistics import Ratio
from weft.cli.bench import add_arguments, main


def rows() -> list[Row]:
    fast = Row("max-plus 2x2x2", "operators no library has", 1, {"filling": 2.0})
    fast.ms = {"numba": 4.0, "torch.compile": 8.0}
    fast.ratios = {"numba": Ratio(2.0, 1.9, 2.1), "torch.compile": Ratio(4.0, 3.0, 5.0)}
    fast.cold_ms, fast.schedule_ms = {"weft": 90.0, "torch.compile": 5000.0}, 7.0
    slow = Row("softmax 2x2", "rows and norms", 2, {"fresh": 2.0}, missing={"numba": "not installed"})
    slow.ms = {"torch.compile": 1.0}
    slow.ratios = {"torch.compile": Ratio(0.5, 0.4, 0.6)}
    slow.cold_ms = {"weft": 110.0}
    return [fast, slow]


def test_summary() -> None:
    figures = {what: value for what, _, value in summary(rows())}
    assert figures["geometric mean against the best peer of each workload"] == "1.00"
    assert figures["worst workload against its best peer"] == "0.50"
    assert figures["geometric mean against torch.compile"] == "1.41"
    assert figures["operators no library has, against the best of halide, numba, torch.compile"] == "2.00"
    assert figures["cold compile, definition to first result, median"] == "100 ms"
    assert figures["choosing a schedule, median"] == "7 ms"


def test_page_says_who_is_missing() -> None:
    text = page(Run("a machine", 0.1, {"weft": "1"}, {"jax": "not installed"}, rows=rows()), "bench.svg")
    assert "Missing: jax (not installed)." in text
    assert "- numba: softmax 2x2: not installed" in text
    assert "- softmax 2x2, 2 threads: 0.50 of torch.compile" in text
    assert "**2.00** (1.90–2.10)" in text


def test_plot_is_well_formed() -> None:
    root = ElementTree.fromstring(draw(rows()))
    dots, crosses = (root.findall(f"{{http://www.w3.org/2000/svg}}{kind}") for kind in ("circle", "path"))
    lost = [r.value for row in rows() for r in row.ratios.values() if r.value < 1]
    assert lost
    assert len(crosses) == len(lost)
    assert len(dots) == 2 + 3 - len(lost) + 2  # legend, dots, best peers
    assert any("lost" in dot.get("class", "") for dot in dots)
    assert "prefers-color-scheme: dark" in draw(rows())
    assert position(0.001) < position(1.0) < position(1e6)


def test_runs_go_to_json_and_back(tmp_path: Path) -> None:
    run = Run("a machine", 0.1, random_seed=7, rows=rows())
    run.save(tmp_path / "run.json")
    assert Run.load_from(tmp_path / "run.json") == run


def test_choosing_workloads() -> None:
    assert {w.family.name for w in chosen_workloads(["1lut", "2LUT"], None)} == {"1LUT", "2LUT"}
    assert {w.family.group for w in chosen_workloads(["attention"], None)} == {"attention"}
    assert [w.family for w in chosen_workloads([], 1)] == [w.family for w in chosen_workloads([], None)]
    assert describe_row(rows()[0]).startswith("max-plus 2x2x2")
    assert Plan().turns * Plan().turn_s < Plan().budget_s


def test_arguments() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args(["--only", "conv", "--threads", "1", "--random-shapes", "3"])
    assert (options.only, options.threads, options.random_shapes, options.write) == (["conv"], [1], 3, False)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--peers", "nobody"], "no peer called nobody"),
        (["--only", "nothing"], "no workload matches nothing"),
        (["--threads", "0"], "cannot measure with 0 threads"),
        (["--clock", "cpu", "--threads", "1", "2"], "the clock of the process is for one thread"),
        (["--from", "absent.json"], "cannot read absent.json"),
    ],
)
def test_what_cannot_work(words: list[str], text: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(weft.ArgumentError, match=text):
        run_bench(parser.parse_args(words))


def test_no_bench_without_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(weft, "__file__", str(tmp_path / "weft" / "__init__.py"))
    with pytest.raises(weft.UnsupportedError, match="not part of an installed Weft"):
        main(argparse.Namespace())
