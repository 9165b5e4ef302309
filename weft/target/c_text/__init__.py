"""What targets that write C or C++ share: expressions, conversions, names, the state of a text under construction."""
