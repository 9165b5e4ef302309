"""The CPU: loop programs to LLVM text (`lower`, `emit*`), LLVM text to object code (`llvm`), machines (`host`)."""
