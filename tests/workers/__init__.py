"""Scripts that tests start as the nodes of a real network."""
