"""Applications that change while their groups run: versions rolled forward and back, under faults (E7)."""
