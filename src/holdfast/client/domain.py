"""A domain as its clients see it: a few addresses to connect to, and groups to call."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import msgspec

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.group_client import GroupClient
from holdfast.client.admin_client import AboutGroups, Given
from holdfast.client.faults import Faults
from holdfast.client.proxy import Group
from holdfast.client.resources import NONE, Members, ObjectFactory, Properties
from holdfast.client.routing import GroupLookup, HostReach, new_client
from holdfast.client.url import parse_url
from holdfast.execution.interface import Interface
from holdfast.machine.process_tuning import spare_what_stays
from holdfast.model.admin.groups import CreateGroup, DeleteGroup, GroupInfo, GroupList, ListGroups, Order
from holdfast.model.admin.streams import BindStream, StreamList
from holdfast.model.calls import RequestId
from holdfast.model.errors import InvalidRequest, NoSuchGroup
from holdfast.model.ids import SECOND, ClientId
from holdfast.model.reference import NAME_CHARACTERS_MAX, is_sendable
from holdfast.model.validation import insist_valid
from holdfast.net import (
    Address,
    ClientKey,
    ConnectionSettings,
    Credentials,
    Expected,
    PeerIdentity,
    Role,
    Tls,
)
from holdfast.net.address import require_safe
from holdfast.net.secret_file import find_secret, read_secret

T = TypeVar("T")

Durability = Literal["disk", "memory"]
OnTotalLoss = Literal["wait", "restart"]
Membership = Literal["infrastructure", "application"]
Collector = Literal["as_is", "tuned"]


def connect(
    url: str,
    *,
    certs: str | Path | None = None,
    name: str | None = None,
    key: str | None = None,
    dir: str | Path | None = None,
    policy: CallPolicy | None = None,
    config: ClientConfig | None = None,
    insecure: bool = False,
    collector: Collector = "as_is",
) -> "Domain":
    """A domain to be entered: ``async with connect("holdfast://127.0.0.1:7400/main") as domain``.

    *url* names one or more hosts, separated by commas, and the domain. *certs* is a directory with this
    client's certificate, issued for *name*; without it the client connects only on loopback, unless
    *insecure*, and proves who it is in another way: with a *key* that ``holdfast key NAME`` printed, which
    may also stand in the URL (``holdfast://NAME:KEY@127.0.0.1:7400/main``), or, as the domain's own user,
    with the secret in the domain's directory *dir* (by default ``HOLDFAST_DIR``, or ``.holdfast`` here).

    With *collector* "tuned", Python's cyclic garbage collector is set for the whole process as hosts set
    theirs, when the domain is entered: what is alive then is never searched for cycles again, and what comes
    later seldom and in small parts. Without it, a program that has many objects and makes many calls stops
    for tens of milliseconds now and then. It stays so; ``gc.unfreeze()`` and ``gc.set_threshold()`` undo it.
    Raises ``InvalidRequest`` for invalid arguments.
    """
    if collector not in ("as_is", "tuned"):
        raise InvalidRequest(f'collector must be "as_is" or "tuned", not {collector!r}')
    domain, addresses, key_in_url = parse_url(url)
    tls, credentials = None, None
    if certs is None:
        for address in addresses:
            require_safe(address, has_tls=False, insecure=insecure)
        credentials = _credentials(domain, key or key_in_url, dir)
    if isinstance(credentials, ClientKey):
        name = name or credentials.name
    name = name or f"client-{os.getpid()}-{secrets.token_hex(4)}"
    if certs is not None:
        tls = Tls.load(Path(certs), Role.CLIENT, name)
    endpoint = ConnectionSettings(
        PeerIdentity(domain, Role.CLIENT, name),
        tls=tls,
        expected=Expected(roles=frozenset({Role.HOST})),
        credentials=credentials,
    )
    return Domain(
        endpoint,
        addresses,
        policy or CallPolicy(),
        config or ClientConfig(),
        insecure=insecure,
        is_collector_tuned=collector == "tuned",
    )


def _credentials(domain: str, key: str | None, dir: str | Path | None) -> Credentials:
    if key is not None:
        return ClientKey.parse(key)
    return read_secret(Path(dir), domain) if dir is not None else find_secret(domain)


def type_id_of(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


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
        is_collector_tuned: bool = False,
        new_client: Callable[[], ClientId] = new_client,
    ) -> None:
        insist_valid(policy, "how calls are made")
        insist_valid(config, "settings of a client")
        self._name = endpoint.identity.domain
        self._policy = policy
        self._callers = GroupLookup(
            policy,
            config,
            hosts=lambda: self._reach.hosts,
            on_reference=lambda: self._reach.keep_connected_soon(),
            new_client=new_client,
        )
        self._reach = HostReach(endpoint, addresses, self._callers, config, insecure=insecure)
        self._give = self._reach.give
        self.endpoint = endpoint
        """The identity of this client, for parts that make connections of their own."""
        self._faults: Faults | None = None
        self._is_collector_tuned = is_collector_tuned

    async def __aenter__(self) -> Self:
        try:
            await self._reach.open(self._policy.duration_ns / SECOND)
        except BaseException:
            await self.close()
            raise
        if self._is_collector_tuned:
            spare_what_stays()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Unfinished calls end now, as unknown if they may have been executed."""
        faults, self._faults = self._faults, None
        if faults is not None:
            await faults.close()
        self._callers.close()
        await self._reach.close()

    # --- for users

    async def submit(self, wanted: Order, kind: type[Given]) -> Given:
        """Have an order executed by any host of the domain. Raises the order's error, ``Unavailable``."""
        return await self._give(wanted, kind)

    @property
    def faults(self) -> Faults:
        """The faults of the domain, as its notifier reports them."""
        if self._faults is None:
            self._faults = Faults(self._give, self.group)
        return self._faults

    @property
    def properties(self) -> Properties:
        """The domain's defaults, for groups made from now on."""
        return Properties(self._give)

    def type_properties(self, cls: str | type[Any]) -> Properties:
        """The properties of groups of that class made from now on; they override the defaults."""
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
        """The group of that name; with *cls*, calls are checked against its methods before they are sent.

        Raises ``InvalidRequest`` if there is no such group, ``Unavailable`` if no host could say.
        """
        return self._proxy(await self.caller(name), cls)

    async def caller(self, name: str) -> GroupClient:
        """The low-level client of that group, for callers with their own encoded arguments and request ids.

        Raises as :meth:`group` does.
        """
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
        streams: Sequence[str] = ...,
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
        streams: Sequence[str] = ...,
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
        streams: Sequence[str] = (),
    ) -> Group[Any]:
        """Create a group of a class that the hosts can import, and connect to it.

        *cls* is ``"package.module:Class"`` or the class itself; *args* are the arguments that its object is
        created with. *properties* sets properties by name; *style*, *replicas*, *minimum* and *membership*
        set the most common ones. Properties that are not given come from the class and the domain
        (:attr:`properties`); otherwise the group is warm_passive, with three replicas maintained by the
        infrastructure.

        *min_in_sync* is how many members hold an operation before it is acknowledged; 0 means two, or one if
        there are only one or two replicas. *durability* says whether they hold it on disk or in memory. What
        is in memory is lost when all in-sync processes are gone: the group then waits for a person, or, with
        *on_total_loss*, restarts from its newest checkpoint. *minimum* members (by default as many as
        *replicas*) are maintained by creating new ones elsewhere when hosts are lost, unless *membership* is
        the application's. *streams* are bound to an active group, so that its members take their messages; if
        one cannot be bound, the group is there all the same. Raises ``InvalidRequest`` if it can never
        succeed, ``Unavailable`` if too few hosts are alive.
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
        for each in streams:
            await self._give(BindStream(name=each, group=name), StreamList)
        # Looked up by number: this client may still know an earlier group of the same name.
        self._callers.supersede(name, by=made.group)
        caller = await self._callers.find(group=made.group)
        return self._proxy(caller, None if isinstance(cls, str) else cls)

    async def delete(self, name: str) -> None:
        """Delete a group and its state. Raises ``InvalidRequest`` if there is none of that name."""
        (gone,) = await self._order(DeleteGroup(name=name))
        self._callers.forget(gone.group)

    async def groups(self, *, is_whole: bool = False) -> tuple[GroupInfo, ...]:
        """All groups of the domain; with *is_whole*, including those that it created for itself."""
        return await self._order(ListGroups(is_whole=is_whole))

    @overload
    async def outcome(self, request: RequestId | str) -> Any: ...

    @overload
    async def outcome(self, request: RequestId | str, returns: type[T]) -> T: ...

    async def outcome(self, request: RequestId | str, returns: Any = None) -> Any:
        """The outcome of a request that was unknown. Asking settles it: if it has not run, it never will.

        Returns or raises what the call would have; ``CallRefused`` with reason ``never_runs`` if it was not
        executed; ``CallOutcomeUnknown`` if the group no longer knows. Only operations leave an outcome: for a
        query ``never_runs`` says nothing, and it can be asked again. *returns* is the type that the value is
        converted to, as the call's own proxy would have done; ``ResultDoesNotFit`` if it cannot be.
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
