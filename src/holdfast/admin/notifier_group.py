"""The domain's fault notifier: created when first needed, found, and sent fault reports (T6).

It is an ordinary group, created by the first host that needs it; a domain without faults has none.
"""

import asyncio
from collections.abc import Callable, Sized
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import structlog

from holdfast.admin.group_spec import GroupSpecDraft
from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.proposals import DesiredStateView
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.connections import HostConnections
from holdfast.calling.group_client import GroupClient
from holdfast.execution.interface import QUERY_MARK
from holdfast.execution.records import encode_arguments
from holdfast.faults.backlog import Filed
from holdfast.faults.notifier import Notifier
from holdfast.groups.host_groups import HostGroups
from holdfast.model.admin.groups import CreateGroup, min_in_sync_default
from holdfast.model.calls import Redirected, Replies, ToClient, Turned
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, ClientId, HostId, Nonce
from holdfast.model.reference import Reference
from holdfast.model.system_groups import NOTIFIER
from holdfast.net import Address, ConnectionSettings, Expected, Role

REPLICAS: Final = 3
"""The number of members, or the number of hosts if there are fewer (:mod:`.snapshot`)."""
MADE_BY: Final = Nonce("holdfast-faults")
"""The nonce of the creation, the same at every host, so that they all create the same group."""
KNOWN_S: Final = 10.0
"""How long this host may take to hear of a group that the authority has."""
LOOK_S: Final = 0.05
POLICY: Final = CallPolicy(duration_ns=10 * SECOND, outcome_ns=20 * SECOND)

log = structlog.get_logger("holdfast.faults")


class NotifierGroups:
    """Finds the fault notifier for one host, or creates it."""

    def __init__(
        self, groups: HostGroups, groups_admin: GroupsAdmin, desired: DesiredStateView, hosts: Sized
    ) -> None:
        """*hosts* are the hosts of the domain, which may become more."""
        self._groups = groups
        self._groups_admin = groups_admin
        self._desired = desired
        self._hosts = hosts

    @property
    def name(self) -> str:
        """The group that receives reports: the registered one (FTC-180), or else the domain's own."""
        return self._desired.state().fault_notifier or NOTIFIER

    async def ensure(self) -> str:
        """The name of the group. The domain's own is created if it does not exist. Raises ``Unavailable``."""
        name = self.name
        if name == NOTIFIER and self._groups.catalog.find(NOTIFIER) is None:
            await self._make()
        return name

    async def reference(self) -> Reference:
        """A reference to the notifier, which is created if necessary. Raises ``Unavailable``."""
        name = await self.ensure()
        catalog = self._groups.catalog
        try:
            async with asyncio.timeout(KNOWN_S):
                while True:
                    group = catalog.find(name)
                    found = catalog.reference(group) if group is not None else None
                    if found is not None:
                        return found
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise Unavailable(f"the fault notifier {name} is not to be found") from None

    async def _make(self) -> None:
        order = CreateGroup(
            name=NOTIFIER,
            class_name=f"{Notifier.__module__}:{Notifier.__qualname__}",
            style="warm_passive",
            replicas=REPLICAS,
            minimum=1,
            membership="infrastructure",
            min_in_sync=min_in_sync_default(min(REPLICAS, len(self._hosts))),
            nonce=MADE_BY,
        )
        made = await self._groups_admin.create(order, self._places, is_system=True)
        log.info("the fault notifier is made", group=made.group, on=made.placed_on)

    def _places(self, drafted: GroupSpecDraft) -> list[HostId]:
        """As many hosts as are available now: during an outage there may be fewer than it should have.

        The manager brings the group to its full number later.
        """
        return self._groups_admin.places(drafted, is_whole=False)


class NotifierLine:
    """A connection to the notifier's members, open while there is something to send.

    It is not kept open in between: its heartbeats would cost more than all reports of a quiet day.
    """

    def __init__(
        self, reference: Reference, groups: HostGroups, endpoint: ConnectionSettings, name: str
    ) -> None:
        self._groups = groups
        self._hosts = HostConnections(
            replace(endpoint, expected=Expected(roles=frozenset({Role.HOST}))),
            self,
            ClientConfig(),
            insecure=False,
        )
        self._caller = GroupClient(
            reference,
            ClientId(name),
            groups.stamps.time_ns(),
            hosts=self._hosts,
            config=ClientConfig(),
            on_reference=self._keep,
        )
        self._is_own = reference.name == NOTIFIER
        self._keep(reference)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._caller.close()
        await self._hosts.close()

    async def push(self, reports: tuple[Filed, ...]) -> None:
        """Deliver the reports. Raises the call's error."""
        events = [each.report.to_event() for each in reports]
        keys = [each.once for each in reports]
        # A notifier that somebody else registered has only the specification's method.
        await self.ask(Notifier.push_sequence_fault, *((events, keys) if self._is_own else (events,)))

    async def ask(self, method: Callable[..., Any], *arguments: object, returns: Any = None) -> Any:
        """Call a method of the notifier; *returns* is the type of its result. Raises the call's error."""
        encoded = bytes(encode_arguments(arguments, {}))
        is_query = bool(getattr(method, QUERY_MARK, False))
        return await self._caller.call(method.__name__, encoded, POLICY, is_query, returns=returns)

    def _keep(self, reference: Reference) -> None:
        sessions = self._groups.catalog.sessions
        self._hosts.keep(
            Address.parse(sessions[each.host].address if each.host in sessions else each.address)
            for each in reference.members
        )

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        self._caller.on_up(host)

    def on_down(self, host: HostId) -> None:
        self._caller.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        if isinstance(message, Replies | Turned | Redirected):
            self._caller.on_message(host, message)
