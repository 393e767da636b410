"""The simulated world: event heap, clocks, network, connections, disks, SQLite on them, and the trace."""
