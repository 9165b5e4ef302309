"""Random programs in bulk: batches of seeds, each checked in a process of its own that may die."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Ended(NamedTuple):
    """The last seed it got to, its exit status, and what it said of its end."""

    seed: int
    status: int
    said: str


def add_options(parser: argparse.ArgumentParser, failures: str) -> None:
    """Those that every kind of program has."""
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--failures", default=failures)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)


class Run:
    """Batches of programs, each in a process of its own; one that dies is a fault of the program it was at.

    ``arguments`` are those of a worker beyond the seeds; ``tell_death`` writes down what is known of a process that
    died.
    """

    def __init__(
        self, options: argparse.Namespace, batch: int, arguments: Sequence[str], tell_death: Callable[[Ended], None]
    ) -> None:
        self.options, self.batch, self.arguments, self.tell_death = options, batch, arguments, tell_death
        self.total, self.faults = Counter[str](), set[int]()
        self.start, self.end = time.time(), options.seed + options.count
        self.next, self.lock = options.seed, threading.Lock()
        jobs = [threading.Thread(target=self.take_batches) for _ in range(options.jobs)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()

    def seconds_left(self) -> float:
        return float(self.start + self.options.seconds - time.time())

    def take_batches(self) -> None:
        while True:
            with self.lock:
                seed, end = self.next, min(self.next + self.size_of_batch(), self.end)
                self.next = end
            while seed < end and self.seconds_left() > 0:
                seed = self.run_batch(seed, end - seed)
            if seed >= self.end or self.seconds_left() <= 0:
                return
            with self.lock:
                counted = {what: self.total[what] for what in ("cases", "checked", "faults") if self.total[what]}
                print(f"{time.time() - self.start:.0f} s, up to seed {seed}: {counted}", flush=True)

    def size_of_batch(self) -> int:
        """Less in the end, so that all jobs are done at about the same time."""
        return max(10, min(self.batch, (self.end - self.next) // (2 * self.options.jobs)))

    def run_batch(self, seed: int, count: int) -> int:
        """The seed to go on with: the one after the last that the process got to."""
        command = [sys.executable, sys.argv[0], "--worker", "--seed", str(seed), "--count", str(count)]
        command += ["--failures", self.options.failures, "--seconds", str(self.seconds_left()), *self.arguments]
        ended = run_worker(command, seed, self.count)
        if ended.status != 0:
            self.count(ended.seed, {"faults": 1})
            self.tell_death(ended)
        return ended.seed + 1

    def count(self, seed: int, counted: Mapping[str, int]) -> None:
        with self.lock:
            self.total.update(counted)
            if counted.get("faults"):
                self.faults.add(seed)

    def repeats(self) -> str:
        """A command for each fault, which checks its program again."""
        options = " ".join(self.arguments)
        return "\n".join(
            f"{sys.executable} {sys.argv[0]} --seed {seed} --count 1 {options}".rstrip() for seed in sorted(self.faults)
        )


def say(counted: Mapping[str, int]) -> None:
    """What a worker counted; ``seed`` says of which program."""
    print(json.dumps(counted), flush=True)


def run_worker(command: Sequence[str], seed: int, count: Callable[[int, Mapping[str, int]], None]) -> Ended:
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
            counted = json.loads(line)
            seed = counted.pop("seed")
            count(seed, counted)
        status = process.wait()
        errors.seek(0)
        return Ended(seed, status, errors.read())
