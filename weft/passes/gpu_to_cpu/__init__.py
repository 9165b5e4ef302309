"""GPU programs on a CPU: barriers taken out, threads as lanes, blocks merged into long rows."""
