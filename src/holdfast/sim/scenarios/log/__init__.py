"""Hosts that keep a log, checkpoints and an identity on a disk that does everything disks do."""
