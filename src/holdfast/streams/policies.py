"""Ready answers to losses: ``on_loss = holdfast.policies.market_data`` in a class makes it that class's.

Each is a few lines on what any class may use.
"""

from typing import Any

from holdfast.model.ids import SECOND
from holdfast.streams.actions import Action, Drop, Recover, Suspend
from holdfast.streams.information import LossInfo
from holdfast.streams.priorities import Lost

STALE_NS = 1 * SECOND


def strict(self: Any, info: LossInfo) -> Action:
    """Nothing is ever dropped: what cannot be recovered is left to a server that has it."""
    return Recover() | Suspend()


def gap_fill(self: Any, info: LossInfo) -> Action:
    """Recover what can be recovered in time, and go on without the rest."""
    return Recover() | Drop()


def market_data(self: Any, info: LossInfo) -> Action:
    """What is stale, or of no importance, is dropped at once; what matters is recovered if it can be."""
    if info.age.methods and info.age.least_ns >= STALE_NS:
        return Drop()
    if info.priority.is_high_lost is Lost.NO:
        return Drop()
    return Recover() | Drop()
