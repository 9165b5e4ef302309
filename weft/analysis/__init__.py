"""What a program touches, before it runs: copies in lowered operands, reuse distances, misses of caches.

Accesses are those of `weft.poly.leaves`. Simulated memory is the loop program itself with each access replaced by a
simulated one, compiled as any other program is; closed forms stand beside it and are tested against it.
"""
