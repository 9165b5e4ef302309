"""Whole models: Weft against what people run them with today, in turns, each in a process of its own.

`networks` says what is run, `export` writes it as ONNX with the results that are right, `peers` run it, `conductor`
gives each its turns, `report` writes what came out. ``python -m bench.models`` runs it.
"""
