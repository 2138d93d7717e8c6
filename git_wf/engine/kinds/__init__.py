"""One module a kind of node."""
