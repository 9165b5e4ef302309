"""What time is: on the wall, or that of this process alone, for one thread on a machine with other work.

The conductor says which by an environment variable, so that all that is timed in a worker agrees.
"""

from __future__ import annotations

import os
import time

VARIABLE = "WEFT_BENCH_CLOCK"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

#: Seconds, by the clock of this run.
now = CLOCKS[os.environ.get(VARIABLE, "wall")]
