"""Orders about streams: to which group one is bound, the keys and lives of its sources, what members show."""

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.app_code.finder import BadClass
from holdfast.app_code.loader import load_code
from holdfast.authority.driver import insist
from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Authority, Listing, Seen, perform
from holdfast.authority.sessions import Session
from holdfast.authority.streams import (
    NoStream,
    StreamRecord,
    StreamTaken,
    bind_stream,
    edit_stream,
    key_of,
    list_streams,
    unbind_stream,
    with_key,
    with_life,
    without_key,
)
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.streams import (
    BindStream,
    EndStreamRule,
    InspectStreams,
    ListStreams,
    LoseStream,
    MakeSourceKey,
    OpenSource,
    SourceKeyMade,
    SourceOpened,
    StreamAnswer,
    StreamInfo,
    StreamList,
    StreamLost,
    StreamMember,
    StreamOrder,
    StreamRulesEnded,
    StreamsInspected,
    UnbindStream,
)
from holdfast.model.errors import InvalidRequest, NoSuchGroup, Unavailable
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.net import Address
from holdfast.net.udp import require_multicast
from holdfast.streams.annex import streams_of

UDP = "udp"
"""Under this name a host's session says where it takes datagrams."""
TCP = "streams"
"""The same over TCP."""


class LocalStreams(Protocol):
    """The streams of this host, as far as orders are about them."""

    def inspected(self, name: str, group: str, query: str = "") -> StreamsInspected: ...

    def end_rule(self, name: str, rule: int) -> int:
        """How many were ended. Raises ``Unavailable`` if another member leads."""
        ...

    def lose(self, name: str, part: float) -> None:
        """Throw away so much of a stream. Raises ``InvalidRequest``."""
        ...


class StreamsAdmin:
    """Executes orders about streams through one host."""

    def __init__(
        self,
        host: HostId,
        catalog: GroupCatalog,
        authority: Authority,
        nonces: Callable[[], Nonce],
        wall: Callable[[], int],
    ) -> None:
        """*wall* is the machine's clock."""
        self._host = host
        self._catalog = catalog
        self._authority = authority
        self._nonces = nonces
        self._wall = wall
        self.local: LocalStreams | None = None
        """Set by the host's door for streams."""

    async def do(self, order: StreamOrder) -> StreamAnswer:
        match order:
            case BindStream():
                return StreamList(streams=(self._shown(await self._bind(order)),))
            case UnbindStream():
                return StreamList(streams=(self._shown(await self._unbind(order)),))
            case ListStreams():
                return await self._list(order)
            case OpenSource():
                return await self._open(order)
            case MakeSourceKey():
                return await self._key(order)
            case InspectStreams():
                return self._here().inspected(order.name, order.group, order.query)
            case EndStreamRule():
                return StreamRulesEnded(count=self._here().end_rule(order.name, order.rule))
            case LoseStream():
                self._here().lose(order.name, order.part)
                return StreamLost(host=self._host, name=order.name, part=order.part)

    # --- records

    async def _bind(self, order: BindStream) -> StreamRecord:
        group = self._catalog.find(order.group)
        if group is None:
            raise InvalidRequest(f"there is no group {order.group!r} that a stream could be bound to")
        style = self._catalog.records[group].style
        if style != "active":
            raise InvalidRequest(
                f"{order.group} is {style}; only the members of an active group take streams"
            )
        _check_takes_streams(self._catalog.records[group])
        if order.multicast:
            require_multicast(Address.parse(order.multicast))
        is_open = _all_here(self._catalog.sessions) if order.is_open is None else order.is_open
        wanted = StreamRecord(
            name=order.name,
            number=0,
            group=group,
            nonce=Nonce(order.nonce) or self._nonces(),
            source=order.source or order.name,
            levels=order.levels,
            exact=order.exact,
            cumulative=order.cumulative,
            created=order.created,
            back=order.back,
            before=order.before,
            is_open=is_open,
            is_paced=order.is_paced,
            multicast=order.multicast,
        )
        groups = frozenset(self._catalog.records)
        found: Seen[StreamRecord] | StreamTaken = await insist(
            lambda: perform(self._authority, bind_stream(wanted, groups=groups)), Seen, StreamTaken
        )
        if isinstance(found, StreamTaken):
            raise InvalidRequest(
                f"the stream {order.name!r} is bound to {self._group_name(found.record)!r}: "
                f"`holdfast stream unbind {order.name}` first"
            )
        return found.value

    async def _unbind(self, order: UnbindStream) -> StreamRecord:
        nonce = Nonce(order.nonce) or self._nonces()
        found: StreamRecord | NoStream = await insist(
            lambda: perform(self._authority, unbind_stream(order.name, nonce=nonce)), StreamRecord, NoStream
        )
        if isinstance(found, NoStream):
            raise no_stream(order.name)
        return found

    async def _list(self, order: ListStreams) -> StreamList:
        listing: Listing[StreamRecord] = await insist(
            lambda: perform(self._authority, list_streams()), Listing
        )
        found = [each.value for each in listing.items if order.name in ("", each.value.name)]
        if order.name and not found:
            raise no_stream(order.name)
        members: tuple[StreamMember, ...] = ()
        if order.group:
            group = self._catalog.find(order.group)
            if group is None:
                raise NoSuchGroup(f"there is no group {order.group!r}")
            found = [each for each in found if each.group == group]
            members = self._members(group)
        return StreamList(streams=tuple(self._shown(each) for each in found), members=members)

    async def _open(self, order: OpenSource) -> SourceOpened:
        nonce, now_ns = Nonce(order.nonce) or self._nonces(), self._wall()
        source, secret = order.source, secrets.token_hex(32)

        def edit(record: StreamRecord) -> StreamRecord:
            if not record.is_open or source:
                record = with_key(source or record.source, secret)(record)
            return with_life(now_ns)(record)

        record = await self._edited(order.name, edit, nonce)
        key = key_of(record, source or record.source)
        return SourceOpened(
            stream=self._shown(record),
            incarnation=record.incarnation,
            key=0 if key is None else key[0],
            secret="" if key is None else key[1].hex(),
        )

    async def _key(self, order: MakeSourceKey) -> SourceKeyMade:
        nonce = Nonce(order.nonce) or self._nonces()
        edit = (
            without_key(order.source) if order.is_dropped else with_key(order.source, secrets.token_hex(32))
        )
        key = key_of(await self._edited(order.name, edit, nonce), order.source)
        if key is None:
            return SourceKeyMade(stream=order.name, source=order.source)
        return SourceKeyMade(stream=order.name, source=order.source, key=key[0], secret=key[1].hex())

    async def _edited(
        self, name: str, edit: Callable[[StreamRecord], StreamRecord], nonce: Nonce
    ) -> StreamRecord:
        found: Seen[StreamRecord] | NoStream = await insist(
            lambda: perform(self._authority, edit_stream(name, edit, nonce=nonce)), Seen, NoStream
        )
        if isinstance(found, NoStream):
            raise no_stream(name)
        return found.value

    # --- what is shown

    def _group_name(self, record: StreamRecord) -> str:
        found = self._catalog.records.get(record.group)
        return "" if found is None else found.name

    def _shown(self, record: StreamRecord) -> StreamInfo:
        seen = self._catalog.views.get(record.group)
        return StreamInfo(
            name=record.name,
            number=record.number,
            group=record.group,
            group_name=self._group_name(record),
            source=record.source,
            levels=record.levels,
            exact=record.exact,
            cumulative=record.cumulative,
            created=record.created,
            back=record.back,
            before=record.before,
            is_open=record.is_open,
            is_paced=record.is_paced,
            multicast=record.multicast,
            sources=tuple(each.source for each in record.keys.values()),
            members=self._members(record.group),
            epoch=0 if seen is None else seen.value.epoch,
        )

    def _members(self, group: GroupId) -> tuple[StreamMember, ...]:
        seen, placed = self._catalog.views.get(group), self._catalog.records.get(group)
        primary = None if seen is None else seen.value.primary
        hosts = () if placed is None else placed.placed_on
        return tuple(self._member(host, is_primary=host == primary) for host in hosts)

    def _member(self, host: HostId, *, is_primary: bool) -> StreamMember:
        session = self._catalog.sessions.get(host)
        details = {} if session is None else session.details
        return StreamMember(
            host=host, udp=details.get(UDP, ""), tcp=details.get(TCP, ""), is_primary=is_primary
        )

    def _here(self) -> LocalStreams:
        if self.local is None:
            raise Unavailable(f"{self._host} takes no streams")
        return self.local


def _all_here(sessions: Mapping[HostId, Session]) -> bool:
    """Whether every host takes datagrams from this machine only."""
    found = [each.details.get(UDP, "") for each in sessions.values()]
    return all(Address.parse(each).is_loopback for each in found if each)


def no_stream(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"there is no stream {name!r}: `holdfast stream bind {name} --group GROUP` makes it"
    )


def _check_takes_streams(record: GroupRecord) -> None:
    """Raises ``InvalidRequest`` if objects of that class have nothing that takes messages. *Without it:* a
    source of the stream waits for ever for a group that delivers nothing."""
    try:
        cls, _ = load_code(record.class_name)
    except BadClass:
        return  # it cannot be had here; where it can, it may well take them
    if streams_of(record, cls) is None:
        raise InvalidRequest(
            f"{record.class_name} takes no streams; "
            "give it on_message(self, message: holdfast.StreamMessage) or "
            "on_messages(self, batch: list[holdfast.StreamMessage]), with these annotations"
        )
