"""From the fork-join form of a GPU program to the grid form, which CUDA is: one nest of threads, with barriers."""
