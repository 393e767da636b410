"""The process of a host: its life, its object graph, and what binds cores to this machine.

`host` is its life, `assembly` builds its groups, `frame_dispatch` hands on what comes in, `store` and
`session` open what it stands on, `heartbeat_thread` runs beside the loop, `faults` detects and reports. A
host is known by id and incarnation, never by address or pid. Its store is locked from before it serves until
its process is gone, and that lock, or `waitpid` of its own child, is the only proof of death that an agent
gives (K2).
"""
