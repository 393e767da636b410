"""The types that all packages share: ids, CSNs, messages, errors, ports. It imports no other package.

Values are immutable and compare by value. No module here does IO, reads a clock, or keeps state. Behaviour
(generating CSNs, replicating, storing) belongs to the packages that import this one.
"""
