"""The replication manager, running on every host at once, on groups that are called all the time."""
