"""One file a verb. Nothing here prints; each change of refs is a plan, then its apply."""
