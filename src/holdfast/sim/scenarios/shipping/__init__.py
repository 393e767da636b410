"""Hosts that fetch versions of a set of files from others, while disks, processes and the network fail."""
