"""The objects of ``bench nested``: each operation awaits one of another group, and does nothing else."""

from holdfast.styles.context import context
from holdfast.styles.interface import interleaved


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
