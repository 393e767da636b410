"""What commands show of a running domain: its hosts and what is wrong (:mod:`.domain_table`), as agents tell
it where the domain is elsewhere (:mod:`.remote_status`), and the files that hosts send (:mod:`.shipping`)."""
