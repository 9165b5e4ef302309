"""Values kept in registers instead of memory."""
