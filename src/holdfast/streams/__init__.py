"""Streams: messages of outside sources, delivered to every member of a group in one total order, and what
becomes of those that were lost.

A *source* numbers the messages of each of its *streams* from 1 upwards and sends each to all members. Any
member may lose any of them. The leader fixes the order of what it has, and where something is missing it asks
the application what shall become of it; every member then does the same (docs/protocol.md, section O).

``DESIGN.md`` beside this file tells how the parts fit together and which ports a host binds them to.
"""
