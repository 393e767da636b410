"""The scenarios: one folder each, with everything that belongs to it.

Its `scenario` module has the class as ``SCENARIO``; modules whose names begin with `planted` list bugs that
it must find. Loaded by name, only when called for.
"""

from typing import Final

HIDDEN: Final = ("register",)
"""Scenarios that test the simulator itself; they run only when named."""
