"""Many devices: how each statement of a program splits over a mesh, what moves between ranks, and how long it takes.

`rules` reads from access maps how a statement splits; `moves` turns one layout into another by collectives; `ranks`
evaluates a split program over lists of arrays (the oracle); `simulate` plays a schedule of many devices.
"""
