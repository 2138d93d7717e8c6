"""Walks a workflow graph. It is handed a recorder and a listener, and knows no git."""
