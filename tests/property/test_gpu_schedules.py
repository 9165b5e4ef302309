"""Random programs times random schedules with loops bound to blocks and threads: the grid form computes the same.

Some of the grids are built by NVRTC too, as far as it is there. ``WEFT_RANDOM_GPU_SCHEDULES`` says how many to try.
"""

from __future__ import annotations

import os
from typing import Any

from check_gpu_schedule import bind_loops, check_grid
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schedule_cases import NoMeaning, draw_case, take_steps

EXAMPLES = int(os.environ.get("WEFT_RANDOM_GPU_SCHEDULES", "45"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_grids_keep_the_result(data: Any) -> None:
    try:
        case = draw_case(data.draw)
        take_steps(case, data.draw, most=4)
        assert case.schedule is not None
        bind_loops(data.draw, case.schedule)
        check_grid(case, case.schedule, ["nvrtc"] if not data.draw(st.integers(0, 3)) else [])
    except NoMeaning:
        assume(False)
