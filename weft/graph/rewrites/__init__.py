"""Graph to graph: constants and scales folded, equal nodes merged, products joined, layouts chosen."""
