"""Facts as tables that people read: what the command line and the analyses print with."""
