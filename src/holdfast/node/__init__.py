"""The processes of a domain: the host, the agent that supervises hosts, and how a machine starts them all.

A driver: it wires cores to drivers and holds the few decisions that are about processes (who may start,
what counts as proof of death, how soon to restart). Every process is known by id and incarnation, never
by address or pid. A host's store is locked from before it serves until its process is gone, and that
lock, or `waitpid` of its own child, is the only proof of death an agent gives (K2).
"""
