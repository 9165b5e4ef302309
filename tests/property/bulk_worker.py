"""A process that checks random programs one by one, and may die: what it says of them, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Ended(NamedTuple):
    """The last seed it got to, its exit status, and what it said of its end."""

    seed: int
    status: int
    said: str


def say(found: Mapping[str, int]) -> None:
    """What a worker counted; ``seed`` says of which program."""
    print(json.dumps(found), flush=True)


def run_worker(command: Sequence[str], seed: int, count: Callable[[Mapping[str, int]], None]) -> Ended:
    """Runs ``command``, which begins at ``seed``, with an artifact store of its own."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryDirectory(prefix="weft-bulk-") as cache,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "WEFT_CACHE_DIR": cache}
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            seed = found.pop("seed")
            count(found)
        status = process.wait()
        errors.seek(0)
        return Ended(seed, status, errors.read())
