"""Housing: the groups of one host, wired from cores alone.

Owns what a host does with its groups: which of the domain's it has a member of, their turns and wakes,
their checkpoints and stamps, what it knows of the others; judging, serving and answering clients' frames.
Everything goes through ports (:mod:`.ports`): a host's process binds them to its event loop, sockets and
disk, the simulator to its world, and neither wires a group in a way of its own.

Leaves to others: opening the store and the session, loading classes, carrying frames, proof of deaths.
"""
