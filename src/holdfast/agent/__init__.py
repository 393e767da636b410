"""The agent: it starts, watches and restarts the processes of one machine.

`agent` supervises each `process` with the delays of `restart_policy` and gives proof of death. `startup`
starts a domain on this machine, `status_client` asks its processes for their status, and `rolling_upgrade`
moves a group to new code host by host.
"""
