"""Automatic schedules for GPUs: blocks and threads chosen from sizes and a model of the machine, without tuning.

How it goes, in the order of the files:

- `draft` is a schedule under way and what the machine asks for: bytes under way, threads, accesses of 16 bytes.
- `fuse` decides what is computed where. Reading memory costs more than computing, so formulas go into their readers;
  stages that share rows are computed together, one row (or a few) in a block of threads, and what is in between stays
  in registers.
- Strategies schedule the nest of one block, each by how its iterators are used, never by names: `contraction`
  (operands reused along different iterators), `rows` (reductions along memory, and chains of stages that share rows),
  `columns` (reductions across memory), `tiles` (transposes, through shared memory), `scatters` (updates at places
  that data choose), `points` (all else: a thread for a few neighbouring results).
- `fallback` is for what is left, loops around tests of arguments for example: whatever may run at once does.
- `fits` says whether the machine has registers and shared memory for all of it; what does not fit is barred.
- `scheduler` lists the steps, which `weft.auto.driver` runs.

Programs come out in fork-join form: thread loops that follow one another in a block loop, no barriers. Lowering to
CUDA joins them and puts barriers where they are needed.
"""
