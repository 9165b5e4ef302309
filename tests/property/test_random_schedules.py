"""Random programs times random schedules: what is accepted computes the same, what is refused really conflicts.

`bulk_schedules` does the same in bulk.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schedule_cases import NoMeaning, check_case, draw_case, take_steps

EXAMPLES = int(os.environ.get("WEFT_RANDOM_SCHEDULES", "75"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_schedules_keep_the_result(data: Any) -> None:
    try:
        case = draw_case(data.draw)
        take_steps(case, data.draw)
        check_case(case)
    except NoMeaning:
        assume(False)
