"""A domain that moves between two authorities while movers, hosts and authorities fail (A8)."""
