"""The scenarios: one module each, whose ``SCENARIO`` is its class; loaded by name, only when called for."""

from typing import Final

HIDDEN: Final = ("groups", "register")
"""Scenarios that test the simulator itself, or are in the making; they run only when named."""
