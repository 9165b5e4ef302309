"""Printed tensor programs read back to equal ones."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from random_programs import RandomProgram, programs

from weft.lang.parse import parse_programs
from weft.tensor.printer import print_program


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_text_reads_back(random: RandomProgram) -> None:
    program = list(parse_programs(random.text, "<random>").values())[-1]
    text = print_program(program)
    again = list(parse_programs(text, "<printed>").values())[-1]
    assert again == program, text
    assert print_program(again) == text
