"""Verified rewrites of loop programs: each primitive in a file of its own, the question whether it is legal beside it.

A primitive is two pure functions: ``check_x(kernel, ..., numerics=...)`` answers with a `Verdict`, and
``x(kernel, ...)`` does it and returns a `Rewrite`. `Schedule` asks, does, and writes down: its trace is
the schedule as data, which prints, reads back and replays.
"""
