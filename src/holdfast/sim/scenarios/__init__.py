"""The scenarios: one module each, whose ``SCENARIO`` is its class; loaded by name, only when called for."""

from typing import Final

HIDDEN: Final = ("register",)
"""Scenarios that test the simulator itself; they run only when named."""
