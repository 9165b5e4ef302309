"""The tuner: measures other schedules than the automatic one in a budget of seconds, and keeps what is faster.

- A space (`spaces`) says which candidates there are: plans of the strategies of `weft.auto` (`plan_space`), changes to
  a trace (`trace_space`), sketches by derivation rules (`sketch_space`), knobs of a user's schedule (`knob_space`).
  Every candidate is a trace, whose steps are checked by the primitives themselves.
- A strategy (`strategies`) asks a space for candidates and is told how they ended; the same seed draws the same.
- `candidate_process` compiles and runs candidates in processes that can be lost; `compare` says when one is faster.
- `tuner` brings these together in a budget of wall time; `records` of all of it are kept (`weft.runtime.records`).
"""
