"""States of which no checkpoint could be made, for whoever asks about a group (PROTOCOL E9).

A member writes down at the authority why its last checkpoint failed. That outlives its process: what could
not be read back is the group's state, and whoever takes over executes the same calls again and holds the same
state. So the reason counts until a checkpoint is made, not until somebody dies.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from holdfast.authority.history import History, read_history
from holdfast.authority.recipe import Authority, perform
from holdfast.housing.directory import GroupDirectory
from holdfast.model.orders import GroupInfo, UnkeptInfo
from holdfast.model.units import SECOND
from holdfast.node.insisting import insist

ADVICE: Final = (
    "the checkpoint before it and all calls since are kept, and executed again by whoever takes over; put "
    "right what is named, a state by a call of the group's own, or calls are refused once the log is full"
)


class UnkeptStates:
    """As the authority has them, and as far as they count with the hosts that are in session."""

    def __init__(self, directory: GroupDirectory, authority: Authority) -> None:
        self._directory = directory
        self._authority = authority

    async def of(self, info: GroupInfo) -> tuple[UnkeptInfo, ...]:
        return self.among(info, await self.history(info))

    async def history(self, info: GroupInfo) -> History:
        found: History = await insist(lambda: perform(self._authority, read_history(info.group)), History)
        return found

    def among(self, info: GroupInfo, history: History) -> tuple[UnkeptInfo, ...]:
        """Of the members that the group has, or is about to lose."""
        running = {host: session.incarnation for host, session in self._directory.sessions.items()}
        members = {*info.placed_on, *info.leaving}
        return tuple(
            UnkeptInfo(at_ns=each.at_ns, host=each.host, why=each.why)
            for each in history.unkept_now(running)
            if each.host in members
        )


def unkept_says(unkept: tuple[UnkeptInfo, ...]) -> Iterator[str]:
    """In words, for people; the same reason of several members once."""
    hosts: dict[str, list[UnkeptInfo]] = {}
    for each in unkept:
        hosts.setdefault(each.why, []).append(each)
    for why, failed in hosts.items():
        since = datetime.fromtimestamp(min(each.at_ns for each in failed) / SECOND, UTC)
        where = ", ".join(each.host for each in failed)
        yield f"the last checkpoint of {where} failed ({since:%Y-%m-%d %H:%M:%S} UTC): {why}"
    if hosts:
        yield ADVICE
