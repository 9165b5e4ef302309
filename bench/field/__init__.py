"""Weft against the field: the same work by everyone, in turns, on one machine.

`workloads` says what is computed, `peers` how others say it, `worker` runs one of them in a process of its own,
`conductor` gives each its turns, `report` writes what came out. ``python -m bench.field`` runs it.
"""
