"""A debugger for programs with block and thread loops: every thread at once, each access watched."""
