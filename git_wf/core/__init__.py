"""What things are, and what follows from what: no input or output, no clock, no environment."""
