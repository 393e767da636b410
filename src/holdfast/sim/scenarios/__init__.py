"""The scenarios, one folder for each.

The module `scenario` of a folder has the class as ``SCENARIO``. Modules whose names begin with `planted` list
bugs that the scenario must find. A scenario is imported by name, on demand.
"""

from typing import Final

HIDDEN: Final = ("register",)
"""Scenarios that test the simulator itself; they run only when named."""
