"""The hook for analyzers of applications: they hear every event and make reports of their own (FTC-241)."""

from collections.abc import Iterable
from typing import Protocol

from holdfast.faults.events import StructuredEvent
from holdfast.faults.reports import FaultReport
from holdfast.faults.told import Told


class Analyzer(Protocol):
    """Condenses events in its own way. It hears its own reports too, and had better know them."""

    def take(self, told: Told) -> Iterable[FaultReport | StructuredEvent]:
        """What is to be told because of this event; most often nothing."""
