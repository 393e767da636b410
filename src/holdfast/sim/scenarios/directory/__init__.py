"""Masters of one directory that replicate while links, disks, clocks, processes and whole stores fail."""
