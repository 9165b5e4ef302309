"""The automatic scheduler: a schedule for any tensor program in milliseconds, chosen by a model of the machine.

How it goes, in the order of the files:

- `stages` reads off the loop program what there is to know of each block: iterators, affine accesses, work.
- `draft` is a schedule under way: steps may be tried and taken back, and every decision is written down (`plan`).
- `fuse` decides what is computed where: expensive parts of formulas get stages (`fuse_parts`), cheap stages are
  inlined, others can be computed together in shared outer loops (`align`, `fuse_chains`, `fuse_tiles`); whether they
  are is a plan (`chain_plan`, `chain_time`, `chain`).
- Strategies (`strategy`) list plans for the nest of one block and apply one of them; each looks at how iterators are
  used, never at names: `reduction` (as a `contraction`, whose operands are reused along different iterators, over
  small windows as `pools`, or in `rows`), `lookups` (rows that data choose), `windows` (stencils), `moves`
  (transposes and other reorderings), `pointwise` (all else).
- `estimate` is the time model. A `sketch` draws the nests that a plan would make, so plans are ranked before one is
  applied; the model reads it as it reads a scheduled program.
- `scheduler` lists the steps and `driver` runs them, on GPUs too: each as a whole or not at all. No schedule ends in
  an error: what is refused, or fails, is left out, and what turns out not to fit the machine is barred and all done
  again without it, until what is left fits.

Everything is done with the public primitives of `weft.schedules`, so everything is checked.
"""
