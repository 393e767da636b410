"""A domain, as its clients know it: a few addresses to begin with, and groups to call."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import msgspec

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.group_client import GroupClient
from holdfast.client.admin_client import AboutGroups
from holdfast.client.faults import Faults
from holdfast.client.proxy import Group
from holdfast.client.resources import NONE, Members, ObjectFactory, Properties
from holdfast.client.routing import GroupLookup, HostReach
from holdfast.execution.interface import Interface
from holdfast.model.admin.groups import CreateGroup, DeleteGroup, GroupInfo, GroupList, ListGroups
from holdfast.model.calls import RequestId
from holdfast.model.errors import InvalidRequest, NoSuchGroup
from holdfast.model.ids import SECOND
from holdfast.model.reference import NAME_CHARACTERS_MAX, SCHEME, is_sendable
from holdfast.net import Address, ConnectionSettings, Expected, PeerIdentity, Role, Tls

T = TypeVar("T")

Durability = Literal["disk", "memory"]
OnTotalLoss = Literal["wait", "restart"]
Membership = Literal["infrastructure", "application"]


def connect(
    url: str,
    *,
    certs: str | Path | None = None,
    name: str | None = None,
    policy: CallPolicy | None = None,
    config: ClientConfig | None = None,
    insecure: bool = False,
) -> "Domain":
    """A domain to be entered: ``async with connect("holdfast://127.0.0.1:7400/main") as domain``.

    *url* names one or more hosts, parted by commas, and the domain. *certs* is a directory with this
    client's certificate, issued for *name*; without it only loopback is spoken to, unless *insecure*.
    Raises ``InvalidRequest`` for what cannot be meant.
    """
    domain, addresses = parse_url(url)
    name = name or f"client-{os.getpid()}-{secrets.token_hex(4)}"
    tls = Tls.load(Path(certs), Role.CLIENT, name) if certs is not None else None
    identity = PeerIdentity(domain, Role.CLIENT, name)
    endpoint = ConnectionSettings(identity, tls=tls, expected=Expected(roles=frozenset({Role.HOST})))
    return Domain(endpoint, addresses, policy or CallPolicy(), config or ClientConfig(), insecure=insecure)


def type_id_of(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def parse_url(url: str) -> tuple[str, list[Address]]:
    """The domain's name and the addresses of *url*. Raises ``InvalidRequest``."""
    hosts, slash, domain = url.removeprefix(SCHEME).partition("/")
    if not url.startswith(SCHEME) or not slash:
        raise InvalidRequest(f"{url!r}: must be {SCHEME}host:port[,host:port...]/domain")
    return domain, [Address.parse(text) for text in hosts.split(",")]


class Domain:
    """One client of one domain. Made by :func:`connect`; to be used by one event loop, within its context."""

    def __init__(
        self,
        endpoint: ConnectionSettings,
        addresses: list[Address],
        policy: CallPolicy,
        config: ClientConfig,
        *,
        insecure: bool,
    ) -> None:
        policy.validate()
        config.validate()
        self._name = endpoint.identity.domain
        self._policy = policy
        self._callers = GroupLookup(
            policy,
            config,
            hosts=lambda: self._reach.hosts,
            on_reference=lambda: self._reach.keep_connected_soon(),
        )
        self._reach = HostReach(endpoint, addresses, self._callers, config, insecure=insecure)
        self._give = self._reach.give
        self._faults: Faults | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._reach.open(self._policy.duration_ns / SECOND)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up. Calls that have not ended end now: as unknown, if they may have been executed."""
        faults, self._faults = self._faults, None
        if faults is not None:
            await faults.close()
        self._callers.close()
        await self._reach.close()

    # --- for users

    @property
    def faults(self) -> Faults:
        """What goes wrong in the domain, as its notifier tells it."""
        if self._faults is None:
            self._faults = Faults(self._give, self.group)
        return self._faults

    @property
    def properties(self) -> Properties:
        """The domain's defaults, for groups made from now on."""
        return Properties(self._give)

    def type_properties(self, cls: str | type[Any]) -> Properties:
        """Those of groups of that class made from now on, over the defaults."""
        return Properties(self._give, type_id=cls if isinstance(cls, str) else type_id_of(cls))

    @property
    def objects(self) -> ObjectFactory:
        """The replication manager as a factory of objects."""
        return ObjectFactory(self._give)

    def factory(self, location: str) -> ObjectFactory:
        """The factory at that location, which makes objects without replicas."""
        return ObjectFactory(self._give, location)

    @overload
    async def group(self, name: str) -> Group[Any]: ...

    @overload
    async def group(self, name: str, cls: type[T]) -> Group[T]: ...

    async def group(self, name: str, cls: type[Any] | None = None) -> Group[Any]:
        """The group of that name; with *cls*, its methods are known beforehand.

        Raises ``InvalidRequest`` when there is no such group, ``Unavailable`` when nobody could say.
        """
        return self._proxy(await self.caller(name), cls)

    async def caller(self, name: str) -> GroupClient:
        """The requests to the group of that name, for whoever has arguments and ids of its own. Raises as
        :meth:`group`."""
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise InvalidRequest(f"a group's name has 1 to {NAME_CHARACTERS_MAX} characters")
        if not is_sendable(name):
            raise NoSuchGroup(f"there is no group {name!r}")
        return await self._callers.find(name=name)

    @overload
    async def create(
        self,
        cls: str,
        *,
        name: str,
        style: str = ...,
        replicas: int = ...,
        args: Sequence[Any] = ...,
        min_in_sync: int = ...,
        durability: Durability = ...,
        on_total_loss: OnTotalLoss = ...,
        minimum: int = ...,
        membership: Membership | Literal[""] = ...,
        properties: Mapping[str, Any] = ...,
    ) -> Group[Any]: ...

    @overload
    async def create(
        self,
        cls: type[T],
        *,
        name: str,
        style: str = ...,
        replicas: int = ...,
        args: Sequence[Any] = ...,
        min_in_sync: int = ...,
        durability: Durability = ...,
        on_total_loss: OnTotalLoss = ...,
        minimum: int = ...,
        membership: Membership | Literal[""] = ...,
        properties: Mapping[str, Any] = ...,
    ) -> Group[T]: ...

    async def create(
        self,
        cls: str | type[Any],
        *,
        name: str,
        style: str = "",
        replicas: int = 0,
        args: Sequence[Any] = (),
        min_in_sync: int = 0,
        durability: Durability = "disk",
        on_total_loss: OnTotalLoss = "wait",
        minimum: int = 0,
        membership: Membership | Literal[""] = "",
        properties: Mapping[str, Any] = NONE,
    ) -> Group[Any]:
        """Make a group of a class that the hosts can import, and connect to it.

        *cls* is ``"package.module:Class"`` or the class itself; *args* is what its object is made with.
        *properties* are asked for by name, and *style*, *replicas*, *minimum* and *membership* are those
        most often asked for; what is not comes from the class's and the domain's (:attr:`properties`), and
        else it is warm_passive, with three replicas kept by the infrastructure.
        *min_in_sync*: how many members hold an operation before it is acknowledged; 0 means two, or one of
        two or one. *durability*: whether they hold it on disk or in memory; what is in memory is lost when
        all in-sync processes are gone: the group then waits for a person, or, with *on_total_loss*, restarts
        from its newest checkpoint. *minimum* members (by default as many as *replicas*) are kept by making
        new ones elsewhere when hosts are lost, unless *membership* is the application's. Raises
        ``InvalidRequest`` for what can never be, ``Unavailable`` when too few hosts live.
        """
        try:
            wanted = CreateGroup(
                name=name,
                class_name=cls if isinstance(cls, str) else type_id_of(cls),
                style=style,
                replicas=replicas,
                arguments=msgspec.json.encode(list(args)).decode(),
                min_in_sync=min_in_sync,
                durability=durability,
                on_total_loss=on_total_loss,
                minimum=minimum,
                membership=membership,
                properties=msgspec.json.encode(dict(properties)).decode(),
            )
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"the arguments of {cls} have no form in JSON: {error}") from None
        (made,) = await self._order(wanted)
        # By its number: an earlier group of the name may still be known here.
        self._callers.supersede(name, by=made.group)
        caller = await self._callers.find(group=made.group)
        return self._proxy(caller, None if isinstance(cls, str) else cls)

    async def delete(self, name: str) -> None:
        """End a group, and forget its state. Raises ``InvalidRequest`` when there is none of that name."""
        (gone,) = await self._order(DeleteGroup(name=name))
        self._callers.forget(gone.group)

    async def groups(self, *, is_whole: bool = False) -> tuple[GroupInfo, ...]:
        """All groups of the domain; *is_whole*: with those that it made for itself."""
        return await self._order(ListGroups(is_whole=is_whole))

    @overload
    async def outcome(self, request: RequestId | str) -> Any: ...

    @overload
    async def outcome(self, request: RequestId | str, returns: type[T]) -> T: ...

    async def outcome(self, request: RequestId | str, returns: Any = None) -> Any:
        """What became of a request whose outcome was unknown; settles it: if it has not run, it never will.

        Returns or raises what the call would have; ``CallRefused`` with reason ``never_runs`` when it was not
        executed; ``CallOutcomeUnknown`` when the group no longer knows. Only operations leave an outcome: of
        a query ``never_runs`` says nothing, and it can be asked again. *returns*: the type into which the
        value is made, as the call's own proxy would have; ``ResultDoesNotFit`` when it is none.
        """
        about = RequestId.parse(request) if isinstance(request, str) else request
        caller = await self._callers.find(group=about.group)
        return await caller.outcome(about, self._policy, returns)

    def _proxy(self, caller: GroupClient, cls: type[Any] | None) -> Group[Any]:
        interface = Interface(cls) if cls is not None else None
        caller.is_held = True
        members = Members(caller.reference.name, self._give)
        return Group(caller, self._policy, interface, members=members, domain=self._name)

    async def _order(self, wanted: AboutGroups) -> tuple[GroupInfo, ...]:
        return (await self._give(wanted, GroupList)).groups
