"""From blocks, reductions in expressions and loops through tiles to plain statements."""
