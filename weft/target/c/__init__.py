"""Portable C11 with OpenMP pragmas: source that reads like its loop program, built by the system's compiler."""
