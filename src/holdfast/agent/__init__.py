"""The agent: it starts, watches and restarts the processes of one machine.

`agent` supervises each `process` with the delays of `restart_policy` and gives proof of death. `startup`
starts a domain on this machine, `machine_setup` describes a machine and `membership` keeps it in its domain.
`status_client` asks the processes for their status, `rolling_restart` restarts hosts while groups serve, and
`rolling_upgrade` moves a group to new code host by host.
"""
