"""The simulator's own test: servers that each keep a list of numbers on disk, and a client for each."""
