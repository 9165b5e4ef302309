"""PolyBench-style programs: Weft's automatic and polyhedral schedules against gcc and numba on the same loops.

``programs.weft`` has those that are formulas, ``loops/`` those that update in place step by step, as loop programs;
``c/`` and ``python_loops.py`` hold the same loops for gcc and numba. ``python -m bench.polybench`` runs it.
"""
