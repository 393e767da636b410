"""Hosts with a log, checkpoints and a store identity, on a disk that fails in every known way."""
