"""Verified rewrites of loop programs: each primitive with the question whether it is legal beside it.

A primitive is two pure functions: ``check_x(kernel, ..., numerics=...)`` answers with a `Verdict`, and
``x(kernel, ...)`` does it and returns a `Rewrite`; their arguments are plain (names, numbers, texts).
``@primitive`` ties the two together and says how the error begins; a thin method of `Schedule` (in one of
the ``*_methods`` files) asks, does, and writes down. The trace is the schedule as data: it prints, reads back, replays.
"""
