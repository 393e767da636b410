"""Finds the groups that a client calls, and keeps the client connected to the domain's hosts.

:class:`GroupLookup` finds each group by asking hosts, and keeps one ``GroupClient`` for its requests.
:class:`HostReach` connects to the given addresses, and follows the hosts wherever they move.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.connections import HostConnections, HostEvents
from holdfast.calling.group_client import GroupClient
from holdfast.calling.targets import KnownHosts
from holdfast.client.admin_client import Given, give
from holdfast.model.admin.groups import Order
from holdfast.model.calls import (
    FollowHosts,
    Locate,
    Located,
    Redirected,
    RefusalCode,
    Replies,
    ToClient,
    Turned,
    Whereabouts,
)
from holdfast.model.errors import NoSuchGroup, Unavailable
from holdfast.model.ids import SECOND, ClientId, GroupId, HostId
from holdfast.model.reference import Reference
from holdfast.net import Address, ConnectionSettings

ASK_S: Final = 1.0
"""How long one host may take to say where a group is, before another is asked."""
PAUSE_S: Final = 0.05
NO_GROUP: Final = GroupId(0)
CALLERS_KEPT: Final = 1_000
"""How many groups without a proxy a client remembers how to call. A forgotten one is looked up again when it
is called, under a new client id."""


def new_client() -> ClientId:
    """A new id under which a group remembers requests (FTC-91).

    Each sequence of request numbers starts at 1 and needs its own id: under a used one, a new request would
    be answered with the reply to an old one.
    """
    return ClientId(secrets.token_hex(12))


class GroupLookup:
    """The groups that one client calls.

    *hosts* returns its connections; *on_reference* is called when a group may be reached at other places;
    *new_client* makes the id under which each group knows this client.
    """

    def __init__(
        self,
        policy: CallPolicy,
        config: ClientConfig,
        *,
        hosts: Callable[[], HostConnections],
        on_reference: Callable[[], None],
        new_client: Callable[[], ClientId] = new_client,
    ) -> None:
        self._policy = policy
        self._config = config
        self._new_client = new_client
        self._hosts = hosts
        self._on_reference = on_reference
        self._callers: dict[GroupId, GroupClient] = {}
        self._questions: dict[int, asyncio.Future[Located | Turned]] = {}
        self._asked = 0

    def references(self) -> Iterator[Reference]:
        """The known references of the groups."""
        return (caller.reference for caller in self._callers.values())

    def forget(self, group: GroupId) -> None:
        """Drop a group that was deleted."""
        caller = self._callers.pop(group, None)
        if caller is not None:
            caller.close()

    def supersede(self, name: str, *, by: GroupId) -> None:
        """Note that the group of that name is now *by*: any other that had the name was deleted."""
        for caller in self._callers.values():
            if caller.reference.name == name and caller.reference.group != by:
                caller.is_gone = True

    def close(self) -> None:
        """End all unfinished calls now, as unknown if they may have been executed."""
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()

    async def find(self, *, name: str = "", group: GroupId = NO_GROUP) -> GroupClient:
        """The client of the group with that name or number. Raises ``NoSuchGroup``, ``Unavailable``."""
        for known in self._callers.values():
            is_named = known.reference.name == name and not known.is_gone
            if is_named or known.reference.group == group:
                # Moved to the end: the least recently used are forgotten first.
                self._callers[known.reference.group] = self._callers.pop(known.reference.group)
                return known
        located = await self._locate(name, group)
        reference = located.reference
        self._forget_gone(reference.name)
        # Another task may have found it meanwhile: all its request numbers must come from one client.
        if reference.group not in self._callers:
            self._forget_unused()
            self._callers[reference.group] = GroupClient(
                reference,
                self._new_client(),
                located.time_ns,
                hosts=self._hosts(),
                config=self._config,
                on_reference=lambda _: self._on_reference(),
            )
            self._on_reference()
        return self._callers[reference.group]

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        for caller in self._callers.values():
            caller.on_up(host)

    def on_down(self, host: HostId) -> None:
        for caller in self._callers.values():
            caller.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        match message:
            case Replies(group=group) | Turned(group=group) if group in self._callers:
                self._callers[group].on_message(host, message)
            case Redirected(reference=reference) if reference.group in self._callers:
                self._callers[reference.group].on_message(host, message)
            case Located(frame=frame) | Turned(frame=frame, group=0):
                question = self._questions.get(frame)
                if question is not None and not question.done():
                    question.set_result(message)

    # --- finding groups

    def _forget_gone(self, name: str) -> None:
        """Forget deleted groups of that name; at most one is remembered for each name."""
        gone = [
            group for group, each in self._callers.items() if each.is_gone and each.reference.name == name
        ]
        for group in gone:
            self._callers.pop(group).close()

    def _forget_unused(self) -> None:
        """Make room for one more by forgetting groups without waiting calls and without a proxy."""
        unused = [group for group, each in self._callers.items() if each.is_idle and not each.is_held]
        for group in unused[: max(0, len(unused) + 1 - CALLERS_KEPT)]:
            self._callers.pop(group).close()

    async def _locate(self, name: str, group: GroupId) -> Located:
        """Ask one host after the other, until one knows (FTC-69)."""
        what = name or f"group {group}"
        try:
            async with asyncio.timeout(self._policy.duration_ns / SECOND):
                while True:
                    for host in self._hosts().connected:
                        answer = await self._ask(host, lambda frame: Locate(frame, name, group))
                        if isinstance(answer, Located):
                            return answer
                        if answer is not None and answer.code is RefusalCode.NO_SUCH_GROUP:
                            raise NoSuchGroup(answer.text or f"there is no group {what!r}")
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            waited_s = self._policy.duration_ns / SECOND
            raise Unavailable(f"nobody could say within {waited_s:g} s where {what!r} is") from None

    async def _ask(self, host: HostId, question: Callable[[int], Locate]) -> Located | Turned | None:
        """One host's answer; None if there is none in time."""
        self._asked += 1
        frame = self._asked
        answer: asyncio.Future[Located | Turned] = asyncio.get_running_loop().create_future()
        self._questions[frame] = answer
        try:
            self._hosts().send(host, question(frame))
            async with asyncio.timeout(ASK_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._questions[frame]


class ReachedGroups(HostEvents, Protocol):
    """The called groups, which are notified of events of the hosts."""

    def references(self) -> Iterable[Reference]: ...


class HostReach:
    """The hosts that one client reaches, starting from *addresses*. Nothing happens until :meth:`open`."""

    def __init__(
        self,
        endpoint: ConnectionSettings,
        addresses: list[Address],
        called: ReachedGroups,
        config: ClientConfig,
        *,
        insecure: bool,
    ) -> None:
        self._endpoint = endpoint
        self._first_addresses = addresses
        self._called = called
        self._config = config
        self._insecure = insecure
        self._known = KnownHosts()
        self._hosts: HostConnections | None = None
        self._connected = asyncio.Event()
        self._is_keeping = False

    async def open(self, within_s: float) -> None:
        """Start to connect; returns when one host is connected. Raises ``Unavailable``."""
        self._hosts = HostConnections(self._endpoint, self, self._config, insecure=self._insecure)
        self._hosts.keep(self._first_addresses)
        try:
            async with asyncio.timeout(within_s):
                await self._connected.wait()
        except TimeoutError:
            where = ", ".join(map(str, self._first_addresses))
            why = "; ".join(self._hosts.failures)
            said = f"none of {where} could be reached within {within_s:g} s"
            raise Unavailable(f"{said}: {why}" if why else said) from None

    async def close(self) -> None:
        """Close all connections."""
        hosts, self._hosts = self._hosts, None
        if hosts is not None:
            await hosts.close()

    @property
    def hosts(self) -> HostConnections:
        """The connections. Raises ``Unavailable`` if they are closed."""
        if self._hosts is None:
            raise _closed()
        return self._hosts

    async def give(self, wanted: Order, kind: type[Given]) -> Given:
        """Have an order executed by any known host. Raises ``Unavailable`` if closed, or the order's
        error.
        """
        if self._hosts is None:
            raise _closed()
        addresses = list(dict.fromkeys(self._addresses()))
        return await give(addresses, self._endpoint, wanted, kind, insecure=self._insecure)

    def keep_connected_soon(self) -> None:
        """Connect to every host before it is needed.

        This runs at most once per turn of the loop, since a host that dies makes many groups move together.
        """
        if not self._is_keeping:
            self._is_keeping = True
            asyncio.get_running_loop().call_soon(self._keep_connected)

    def _keep_connected(self) -> None:
        self._is_keeping = False
        if self._hosts is not None:
            self._hosts.keep(self._addresses())

    def _addresses(self) -> list[Address]:
        known = self._known.addresses(self._called.references())
        return [*self._first_addresses, *map(Address.parse, known)]

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        if self._hosts is None:
            return  # it connected while the others were being closed
        self._connected.set()
        self._hosts.send(host, FollowHosts())
        self._called.on_up(host)

    def on_down(self, host: HostId) -> None:
        if self._hosts is None or not self._hosts.connected:
            self._connected.clear()
        self._called.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        if isinstance(message, Whereabouts):
            self._known.learn(message.hosts)
            self.keep_connected_soon()
        else:
            self._called.on_message(host, message)


def _closed() -> Unavailable:
    return Unavailable("the domain is closed: use it within `async with`")
