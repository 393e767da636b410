"""Applications that change under their groups: versions rolled forward and back, under faults (E7)."""
