"""A domain, as its clients know it: a few addresses to begin with, and groups to call."""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, overload

import msgspec

from holdfast.calling.caller import Caller
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.hosts import Hosts
from holdfast.client.criteria import NONE
from holdfast.client.faults import Faults
from holdfast.client.members import Members
from holdfast.client.objects import Objects
from holdfast.client.ordering import AboutGroups, Given, give
from holdfast.client.properties import Properties
from holdfast.client.proxy import Group
from holdfast.model.abroad import SCHEME
from holdfast.model.calls import (
    HOSTS_MAX,
    FollowHosts,
    HostAt,
    Locate,
    Located,
    Redirected,
    RefusalCode,
    Replies,
    RequestId,
    ToClient,
    Turned,
    Whereabouts,
)
from holdfast.model.errors import InvalidRequest, NoSuchGroup, Unavailable
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.orders import (
    CreateGroup,
    DeleteGroup,
    GroupInfo,
    GroupList,
    ListGroups,
    Order,
)
from holdfast.model.reference import NAME_CHARACTERS_MAX, Reference
from holdfast.model.units import SECOND
from holdfast.net import Address, Endpoint, Expected, Identity, Role, Tls
from holdfast.styles.interface import Interface

T = TypeVar("T")

Durability = Literal["disk", "memory"]
OnTotalLoss = Literal["wait", "restart"]
Membership = Literal["infrastructure", "application"]
ASK_S: Final = 1.0
"""How long one host is given to say where a group is, before another is asked."""
PAUSE_S: Final = 0.05
NO_GROUP: Final = GroupId(0)


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
    identity = Identity(domain, Role.CLIENT, name)
    endpoint = Endpoint(identity, tls=tls, expected=Expected(roles=frozenset({Role.HOST})))
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
    """One client of one domain. Made by :func:`connect`; to be used by one event loop, within its context.

    Every client has an id of its own, under which the groups remember its requests (FTC-91).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        addresses: list[Address],
        policy: CallPolicy,
        config: ClientConfig,
        *,
        insecure: bool,
    ) -> None:
        policy.validate()
        config.validate()
        self.client = ClientId(secrets.token_hex(12))
        self._endpoint = endpoint
        self._addresses = addresses
        self._policy = policy
        self._config = config
        self._insecure = insecure
        self._hosts: Hosts | None = None
        self._callers: dict[GroupId, Caller] = {}
        self._whereabouts: dict[HostId, HostAt] = {}
        self._questions: dict[int, asyncio.Future[Located | Turned]] = {}
        self._asked = 0
        self._is_keeping = False
        self._connected = asyncio.Event()
        self._faults: Faults | None = None

    async def __aenter__(self) -> Self:
        self._hosts = Hosts(self._endpoint, self, self._config, insecure=self._insecure)
        self._hosts.keep(self._addresses)
        try:
            await self._some_host(self._policy.duration_ns / SECOND)
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
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()
        hosts, self._hosts = self._hosts, None
        if hosts is not None:
            await hosts.close()

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
    def objects(self) -> Objects:
        """The replication manager as a factory of objects."""
        return Objects(self._give)

    def factory(self, location: str) -> Objects:
        """The factory at that location, which makes objects without replicas."""
        return Objects(self._give, location)

    @overload
    async def group(self, name: str) -> Group[Any]: ...

    @overload
    async def group(self, name: str, cls: type[T]) -> Group[T]: ...

    async def group(self, name: str, cls: type[Any] | None = None) -> Group[Any]:
        """The group of that name; with *cls*, its methods are known beforehand.

        Raises ``InvalidRequest`` when there is no such group, ``Unavailable`` when nobody could say.
        """
        caller = await self.caller(name)
        interface = Interface(cls) if cls is not None else None
        domain = self._endpoint.identity.domain
        return Group(caller, self._policy, interface, members=Members(name, self._give), domain=domain)

    async def caller(self, name: str) -> Caller:
        """The requests to the group of that name, for whoever has arguments and ids of its own. Raises as
        :meth:`group`."""
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise InvalidRequest(f"a group's name has 1 to {NAME_CHARACTERS_MAX} characters")
        return await self._caller(name=name)

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
        except (TypeError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"the arguments of {cls} have no form in JSON: {error}") from None
        await self._order(wanted)
        return await self.group(name) if isinstance(cls, str) else await self.group(name, cls)

    async def delete(self, name: str) -> None:
        """End a group, and forget its state. Raises ``InvalidRequest`` when there is none of that name."""
        (gone,) = await self._order(DeleteGroup(name=name))
        caller = self._callers.pop(gone.group, None)
        if caller is not None:
            caller.close()

    async def groups(self, *, is_whole: bool = False) -> tuple[GroupInfo, ...]:
        """All groups of the domain; *is_whole*: with those that it made for itself."""
        return await self._order(ListGroups(is_whole=is_whole))

    async def outcome(self, request: RequestId | str) -> Any:
        """What became of a request whose outcome was unknown; settles it: if it has not run, it never will.

        Returns or raises what the call would have; ``CallRefused`` with reason ``never_runs`` when it was not
        executed; ``CallOutcomeUnknown`` when the group no longer knows.
        """
        about = RequestId.parse(request) if isinstance(request, str) else request
        caller = await self._caller(group=about.group)
        return await caller.outcome(about, self._policy)

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        if self._hosts is None:
            return  # it came while the others were hung up
        self._connected.set()
        self._hosts.send(host, FollowHosts())
        for caller in self._callers.values():
            caller.on_up(host)

    def on_down(self, host: HostId) -> None:
        if self._hosts is None or not self._hosts.connected:
            self._connected.clear()
        for caller in self._callers.values():
            caller.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        match message:
            case Whereabouts(hosts=hosts):
                self._learn(hosts)
            case Replies(group=group) | Turned(group=group) if group in self._callers:
                self._callers[group].on_message(host, message)
            case Redirected(reference=reference) if reference.group in self._callers:
                self._callers[reference.group].on_message(host, message)
            case Located(frame=frame) | Turned(frame=frame):
                question = self._questions.get(frame)
                if question is not None and not question.done():
                    question.set_result(message)

    # --- finding groups

    async def _caller(self, *, name: str = "", group: GroupId = NO_GROUP) -> Caller:
        for known in self._callers.values():
            is_named = known.reference.name == name and not known.is_gone
            if is_named or known.reference.group == group:
                return known
        located = await self._locate(name, group)
        reference = located.reference
        self._forget_gone(reference.name)
        # Somebody else may have found it meanwhile: its numbers must come from one place.
        if reference.group not in self._callers:
            self._callers[reference.group] = Caller(
                reference,
                self.client,
                located.time_ns,
                hosts=self._running(),
                config=self._config,
                on_reference=self._on_reference,
            )
            self._on_reference(reference)
        return self._callers[reference.group]

    def _forget_gone(self, name: str) -> None:
        """Of groups that were removed one is remembered for each name, and no more."""
        gone = [
            group for group, each in self._callers.items() if each.is_gone and each.reference.name == name
        ]
        for group in gone:
            self._callers.pop(group).close()

    async def _locate(self, name: str, group: GroupId) -> Located:
        """Ask one host after the other, until one knows (FTC-69)."""
        what = name or f"group {group}"
        try:
            async with asyncio.timeout(self._policy.duration_ns / SECOND):
                while True:
                    for host in self._running().connected:
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
        """One host's answer; None when there is none in time."""
        self._asked += 1
        frame = self._asked
        answer: asyncio.Future[Located | Turned] = asyncio.get_running_loop().create_future()
        self._questions[frame] = answer
        try:
            self._running().send(host, question(frame))
            async with asyncio.timeout(ASK_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._questions[frame]

    def _learn(self, hosts: Iterable[HostAt]) -> None:
        """Hosts know where the others went; of one that is gone the last address is kept."""
        for each in hosts:
            known = self._whereabouts.get(each.host)
            has_room = known is not None or len(self._whereabouts) < HOSTS_MAX
            if has_room and (known is None or known.incarnation < each.incarnation):
                self._whereabouts[each.host] = each
        self._keep_connected_soon()

    def _on_reference(self, _: Reference) -> None:
        self._keep_connected_soon()

    def _keep_connected_soon(self) -> None:
        """Be connected to every host, before it is needed: looked at once per turn, since a host that dies
        makes many groups move together."""
        if not self._is_keeping:
            self._is_keeping = True
            asyncio.get_running_loop().call_soon(self._keep_connected)

    def _keep_connected(self) -> None:
        self._is_keeping = False
        if self._hosts is not None:
            self._hosts.keep(self._known_addresses())

    def _known_addresses(self) -> list[Address]:
        members = (member for caller in self._callers.values() for member in caller.reference.members)
        told = (each.address for each in self._whereabouts.values())
        texts = dict.fromkeys((*told, *(member.address for member in members)))
        return [*self._addresses, *map(Address.parse, texts)]

    async def _order(self, wanted: AboutGroups) -> tuple[GroupInfo, ...]:
        return (await self._give(wanted, GroupList)).groups

    async def _give(self, wanted: Order, kind: type[Given]) -> Given:
        self._running()
        addresses = list(dict.fromkeys(self._known_addresses()))
        return await give(addresses, self._endpoint, wanted, kind, insecure=self._insecure)

    async def _some_host(self, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                await self._connected.wait()
        except TimeoutError:
            where = ", ".join(map(str, self._addresses))
            raise Unavailable(f"none of {where} could be reached within {within_s:g} s") from None

    def _running(self) -> Hosts:
        if self._hosts is None:
            raise Unavailable("the domain is closed: use it within `async with`")
        return self._hosts
