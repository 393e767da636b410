"""Groups of every style on the production cores, called by production clients, under every fault."""
