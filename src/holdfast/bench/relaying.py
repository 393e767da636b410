"""The objects of ``bench nested``: each operation awaits one of another group, and does nothing else."""

from holdfast.model.outcome import CallCycle, CallRefused, NestedOutcomeUnknown
from holdfast.styles.context import context
from holdfast.styles.interface import interleaved, query


class Relay:
    """Has another group add up; its operations stand in line behind the one that waits."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.passed = 0

    async def relay(self) -> int:
        added: int = await context.group(self.to).add(1)
        self.passed += 1
        return added


@interleaved
class InterleavedRelay(Relay):
    """The same; others begin while one waits."""


class Neighbour:
    """Calls on another, who may be on the way here, or not at home."""

    def __init__(self) -> None:
        self.met = 0

    async def visit(self, whom: str, timeout_s: float) -> str:
        """How it ended: ``met``, ``circle``, or ``away``."""
        try:
            await context.group(whom, timeout_s=timeout_s).greet()
        except CallCycle:
            return "circle"
        except (CallRefused, NestedOutcomeUnknown):
            return "away"
        self.met += 1
        return "met"

    def greet(self) -> None:
        return

    @query
    def times_met(self) -> int:
        return self.met
