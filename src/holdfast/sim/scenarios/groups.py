"""Replicated groups under every fault; so far the same as ``sequence``."""

from holdfast.sim.scenarios.sequence import SCENARIO

__all__ = ["SCENARIO"]
