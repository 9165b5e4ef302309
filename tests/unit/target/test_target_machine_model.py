"""Machine models: what is read, assumed, given; their text form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from weft.ir.errors import TargetError
from weft.target.cpu.host import NAMED, host_machine
from weft.target.cpu.host_facts import CacheFacts, HostFacts, count_listed, read_caches
from weft.target.cpu.machine_model import assume_model, parse_model
from weft.target.cuda.machine import KNOWN

FACTS = HostFacts("GenuineIntel", 6, "Some Xeon", 2000.0, 4, 8, (CacheFacts(1, 48 << 10, 12, 64, 2),))


def test_facts_of_the_system_are_kept_and_the_rest_is_assumed() -> None:
    model = assume_model(NAMED["x86-64-avx512"], FACTS)
    assert (model.cores, model.threads, model.frequency, model.vector_registers) == (4, 8, 2e9, 32)
    assert model.caches == {"L1": 48 << 10}
    assert [model.source(n) for n in ("cores", "L1", "L1.read", "fma_units")] == ["read", "read", "assumed", "assumed"]
    assert model.peak == 2 * 2 * 16 * 2e9


def test_vectors_that_are_split_count_half() -> None:
    amd = FACTS._replace(vendor="AuthenticAMD", family=25)
    assert assume_model(NAMED["x86-64-avx512"], amd).fma_units == 1
    assert assume_model(NAMED["x86-64-avx2"], amd).fma_units == 2
    assert assume_model(NAMED["x86-64-avx512"], amd._replace(family=26)).fma_units == 2


def test_a_system_that_says_nothing_gets_usual_values() -> None:
    model = assume_model(NAMED["aarch64"], HostFacts())
    assert model.cores == 1
    assert list(model.caches) == ["L1", "L2", "L3"]
    assert model.source("frequency") == "assumed"
    reads = [level.read for level in model.levels]
    assert reads == sorted(reads, reverse=True)


def test_text_reads_back() -> None:
    model = assume_model(NAMED["x86-64-avx2"], FACTS).with_measured({"fma_units": 1.5, "L1.read": 3e9})
    found = parse_model(model.to_json())
    assert found == model
    assert found.levels[0].read == 3e9
    assert [found.source(n) for n in ("fma_units", "L1.read", "load_units")] == ["measured", "measured", "assumed"]


def test_figures_left_out_are_assumed() -> None:
    model = parse_model('{"cores": 96}')
    assert (model.cores, model.source("cores")) == (96, "given")
    assert model.levels == assume_model().levels


def levels(change: Callable[[list[Any]], list[Any]]) -> str:
    """A description whose levels are otherwise than those of this machine."""
    return json.dumps({"levels": change(json.loads(assume_model().to_json())["levels"])})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "not an object"),
        ('{"core": 2}', "there is no figure `core`"),
        ('{"cores": 0}', "`cores` is 0, which is not from 1 to 1e+06"),
        ('{"cores": "two"}', "`cores` is 'two', not a int"),
        ('{"levels": []}', "at least one cache"),
        ('{"levels": [{}, {}]}', "has exactly name, size"),
        ("[" * 100_000, "it is not JSON"),
        ('{"sources": [1]}', "`sources` says of figures, by name, one of read, measured, assumed, given"),
        ('{"sources": "x"}', "`sources` says of figures"),
        ('{"cores": 1' + "0" * 19 + "}", "which is not from 1 to 1e+06"),
        ('{"vector_bits": 10000000000000000000}', "`vector_bits` is 10000000000000000000"),
        ('{"fma_units": 1e300}', "`fma_units` is 1e+300, which is not from 0.001 to 1000"),
        ('{"fma_latency": 1e300}', "`fma_latency` is 1e+300"),
        (levels(lambda found: found + found), "`levels` lists `memory` before memory, and it is of 0 bytes"),
        (levels(lambda found: found[::-1]), "before memory"),
        (levels(lambda found: [{**found[0], "usable": 0}, *found[1:]]), "0 of them usable"),
        (levels(lambda found: [{**found[0], "line": 1}, *found[1:]]), "`levels.line` is 1, which is not from 16"),
        (levels(lambda found: [found[0], *found]), "two entries of `levels` have one name"),
    ],
)
def test_wrong_descriptions_say_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(TargetError, match="cannot be used") as caught:
        parse_model(text, "m.json")
    assert why in str(caught.value)


def test_a_missing_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_MACHINE", str(tmp_path / "none.json"))
    with pytest.raises(TargetError, match="cannot read the machine description"):
        host_machine()


def test_every_fact_is_in_the_key() -> None:
    """Whatever decides code or schedules: a kept kernel of another machine must not be found."""
    base = replace(NAMED["x86-64-avx2"], facts=FACTS)
    others = {name: replace(base, facts=FACTS._replace(**{name: value})) for name, value in _OTHER_FACTS.items()}
    assert others.keys() == set(FACTS._fields)
    others |= {name: replace(base, **{name: value}) for name, value in _OTHER.items()}
    assert others.keys() | {"facts"} == {f.name for f in fields(base)} | set(FACTS._fields)
    assert [name for name, other in others.items() if other.key == base.key] == []


_OTHER_FACTS: dict[str, Any] = {
    "vendor": "AuthenticAMD", "family": 25, "megahertz": 3000.0, "cores": 2, "threads": 4,
    "name": "Another", "caches": (CacheFacts(1, 32 << 10, 12, 64, 2),),
}  # fmt: skip
_OTHER: dict[str, Any] = {
    "name": "other", "triple": "x86_64-apple-darwin", "cpu": "znver3", "features": ("+gfni",), "vector_bits": 128,
    "has_fma": False, "has_rounding": False, "has_float16": False, "has_masks": True, "figures": '{"cores": 64}',
    "target": "c",
}  # fmt: skip


def test_every_fact_of_a_gpu_is_in_the_key() -> None:
    base = KNOWN["sm_90"]
    for f in fields(base):
        value = getattr(base, f.name)
        other = replace(base, **{f.name: f"{value}x" if isinstance(value, str) else value + 1})
        assert other.key != base.key, f.name


def test_caches_as_linux_lists_them(tmp_path: Path) -> None:
    for n, (level, kind, size, shared) in enumerate([("2", "Unified", "1024K", "0-1"), ("1", "Data", "32K", "0")]):
        folder = tmp_path / f"index{n}"
        folder.mkdir()
        facts = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared, "ways_of_associativity": "8"}
        for name, text in facts.items():
            (folder / name).write_text(text + "\n")
    assert read_caches(str(tmp_path)) == [CacheFacts(1, 32 << 10, 8, 64, 1), CacheFacts(2, 1 << 20, 8, 64, 2)]
    assert count_listed("0-3,8") == 5
    assert json.loads(assume_model().to_json())["levels"]
