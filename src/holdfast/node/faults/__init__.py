"""What one host sees of faults, and how the domain's notifier hears of it.

`detector` makes reports of what the host sees anyway, `shipper` brings them to the notifier in the
background, and `consumer` is how the replication manager hears of faults.
"""
