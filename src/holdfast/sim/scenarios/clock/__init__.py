"""Masters that assign CSNs and exchange vectors while their clocks, disks, links and processes fail."""
