"""What everyone shares: ids, CSNs, errors, ports. A core; it knows nobody else.

Owns the words. Values are immutable and compare by value; no module here does IO, reads a clock, or
keeps state. Behaviour (generating CSNs, replicating, storing) belongs to the packages that import this one.
"""
