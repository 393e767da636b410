"""The replication manager at work, at every host at once, on groups that are called all the time."""
