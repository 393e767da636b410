"""The process of a host: its startup and shutdown, its objects, and their drivers on this machine.

`host` runs the process from start to stop, `assembly` builds its groups, `frame_dispatch` routes incoming
frames, `store` and `session` open the host's disk and its session, `heartbeat_thread` runs beside the event
loop, and `faults` detects and reports faults. A host is identified by its id and incarnation, never by
address or pid. Its store stays locked from before it serves until the process is gone. An agent accepts only
that lock, or `waitpid` of its own child, as proof of death (K2).
"""
