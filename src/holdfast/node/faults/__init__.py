"""How one host detects faults and how its reports reach the domain's fault notifier.

`detector` turns what the host observes anyway into reports, `shipper` delivers them to the notifier in the
background, and through `consumer` the replication manager learns of faults.
"""
