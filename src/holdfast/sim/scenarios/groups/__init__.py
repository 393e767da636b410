"""Groups of every style on the production host, called by production clients, under every fault."""
