"""The replicated sequence of groups under every fault: production sequence, log, leases and authority."""
