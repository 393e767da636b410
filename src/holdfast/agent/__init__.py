"""The agent: it starts, watches and restarts the processes of one machine.

`agent` supervises `process`es by `restart_policy` and gives proof of death; `startup` begins a domain on this
machine, `status_client` asks its processes how they are, `rolling_upgrade` brings a group to other code host
by host.
"""
