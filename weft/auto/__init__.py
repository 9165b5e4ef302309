"""The automatic scheduler: a schedule for any tensor program in milliseconds, chosen by a model of the machine.

How it goes, in the order of the files:

- `stages` reads off the loop program what there is to know of each block: iterators, affine accesses, work.
- `draft` is a schedule under way: steps may be tried and taken back, and every decision is written down (`plan`).
- `fuse` decides what is computed where: expensive parts of formulas get stages (`fuse_parts`), cheap stages are
  inlined, others are computed together in shared outer loops (`align`, `fuse_chains`, `fuse_tiles`, `chain`), or by
  themselves.
- Strategies schedule the nest of one block (or a chain of blocks that share loops); each looks at how iterators are
  used, never at names: `dots` and `contraction` (operands reused along different iterators), `rows` (reductions with
  little reuse), `lookups` (rows that data choose), `windows` (stencils), `moves` (transposes and other reorderings),
  `pointwise` (all else).
- `scheduler` runs them, and falls back to simpler ones where a step is refused.

Everything is done with the public primitives of `weft.schedules`, so everything is checked.
"""
