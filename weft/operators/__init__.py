"""What `define` and `operator` return: one object that ties language, target and runtime together."""
