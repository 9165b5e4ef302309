"""Weft on a GPU against device copy bandwidth, PyTorch (eager and compiled) and cuBLAS: ``python -m bench.gpu``.

``workloads`` says what is computed, ``measure`` how it is timed, ``report`` makes the table.
"""
