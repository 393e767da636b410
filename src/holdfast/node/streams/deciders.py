"""The groups of this domain that decide about the losses of other groups' streams (LOSS-10, LOSS-84).

A host asks them as any caller does: over a connection of its own to their members, which is open as long as a
member here may ask, and each question is a request of its own, sent again when the called group's primary
fails. What they answer decides nothing here; the member that leads orders it (O4).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.connections import HostConnections
from holdfast.calling.group_client import GroupClient
from holdfast.execution.records import encode_arguments
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.calls import NO_FRAME, Redirected, Replies, ToClient, Turned
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND, ClientId, GroupId, HostId
from holdfast.model.outcome import error_in_words
from holdfast.model.reference import Reference
from holdfast.net import Address, ConnectionSettings, Expected, Role
from holdfast.streams.handlers import ON_LOSS
from holdfast.streams.information import LossInfo

GROUPS_MAX: Final = 64
"""The most groups that decide for the members of one host."""
NOTHING: Final = msgspec.msgpack.encode(None)

Decided = Callable[[int, bytes, str], None]
"""Takes the number of a question, the encoded action, and why there is none."""


class DeciderGroups:
    """The groups that the members of one host ask. *me* is the host's name as a caller."""

    def __init__(
        self, catalog: GroupCatalog, time_ns: Callable[[], int], endpoint: ConnectionSettings, me: ClientId
    ) -> None:
        self._catalog = catalog
        self._time_ns = time_ns
        self._me = me
        self._hosts = HostConnections(
            replace(endpoint, expected=Expected(roles=frozenset({Role.HOST}))),
            self,
            ClientConfig(),
            insecure=False,
        )
        self._callers: dict[GroupId, GroupClient] = {}

    async def close(self) -> None:
        for each in self._callers.values():
            each.close()
        self._callers.clear()
        await self._hosts.close()

    def caller(self, name: str) -> GroupClient | None:
        """What calls the group of that name, by its newest view that is known here; None if there is none, or
        there are too many."""
        group = self._catalog.find(name)
        reference = self._catalog.reference(group) if group is not None else None
        if reference is None:
            return None
        found = self._callers.get(reference.group)
        if found is None:
            self._forget_removed()
            if len(self._callers) == GROUPS_MAX:
                return None
            found = self._callers[reference.group] = self._made(reference)
            self._connect()
        elif found.reference.version < reference.version:
            found.on_message(reference.primary, Redirected(NO_FRAME, reference))
        return found

    def _made(self, reference: Reference) -> GroupClient:
        return GroupClient(
            reference,
            self._me,
            self._time_ns(),
            hosts=self._hosts,
            config=ClientConfig(),
            on_reference=lambda _: self._connect(),
        )

    def _forget_removed(self) -> None:
        for group in [each for each in self._callers if each not in self._catalog.records]:
            self._callers.pop(group).close()

    def _connect(self) -> None:
        sessions = self._catalog.sessions
        addresses = {
            each.host: each.address for caller in self._callers.values() for each in caller.reference.members
        }
        members = (host for group in self._callers for host in self._catalog.members(group))
        for host in dict.fromkeys((*addresses, *members)):
            if host in sessions:
                addresses[host] = sessions[host].address
        self._hosts.keep(map(Address.parse, addresses.values()))

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        for each in self._callers.values():
            each.on_up(host)

    def on_down(self, host: HostId) -> None:
        for each in self._callers.values():
            each.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        match message:
            case Replies(group=group) | Turned(group=group):
                caller = self._callers.get(group)
            case Redirected(reference=reference):
                caller = self._callers.get(reference.group)
            case _:
                return
        if caller is not None:
            caller.on_message(host, message)


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """The group *name*, as one member asks it: a :class:`holdfast.streams.ports.DeciderGroup`."""

    groups: DeciderGroups
    name: str
    decided: Decided

    def ask(self, number: int, info: LossInfo, within_ms: int) -> bool:
        caller = self.groups.caller(self.name)
        if caller is None:
            return False
        policy = CallPolicy(duration_ns=within_ms * MILLISECOND, outcome_ns=0)
        answer = caller.call(ON_LOSS, bytes(encode_arguments((info,), {})), policy)
        answer.add_done_callback(partial(self._on_answer, number))
        return True

    def connect(self) -> None:
        """Be ready for the first question."""
        self.groups.caller(self.name)

    def _on_answer(self, number: int, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.decided(number, _encoded(answer.result()), "")
        elif isinstance(error, HoldfastError):
            self.decided(number, NOTHING, f"{ON_LOSS} of {self.name}: {error_in_words(error)}"[:200])


def _encoded(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, OverflowError):  # it cannot be an action then
        return NOTHING
