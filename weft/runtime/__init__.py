"""What runs machine code: arrays in and out, the call path, threads, loading, the artifact store.

`loader` maps object code into the process, `kernel` calls it through ctypes, `fastcall` calls it in a
fraction of a microsecond, `arrays` describes what callers pass, `threads` holds the one `parallel_for`,
`store` keeps compiled artifacts on disk. Nothing here knows tensor programs.
"""
