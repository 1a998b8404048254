"""Methods in which nobody waits: what they are, what a node is, where it lives."""
