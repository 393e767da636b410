"""The embedded authority under every fault it claims to survive, with hosts that depend on it."""
