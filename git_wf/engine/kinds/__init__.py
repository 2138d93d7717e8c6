"""One file a node kind."""
