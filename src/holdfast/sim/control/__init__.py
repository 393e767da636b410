"""Hosts of the scenario `control`: the production managers, a context of unique tokens, and its book."""
