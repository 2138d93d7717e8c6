"""One file a verb: parse, call ops, print."""
