"""The command line: ``weft run``, ``weft show``, ``weft check``, ``weft demo``."""
