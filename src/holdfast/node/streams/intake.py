"""The members of groups on this host, as the reception of streams uses them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from holdfast.groups.host_groups import HostGroups
from holdfast.model.errors import Unavailable
from holdfast.model.ids import GroupId
from holdfast.node.streams.deciders import AskedGroup, DeciderGroups
from holdfast.node.streams.message_log import PLACE, HostMessageLog, LogStore
from holdfast.streams.annex import NAME, Streams
from holdfast.streams.message import Heartbeat, Message, Origin
from holdfast.streams.ports import MessageStore
from holdfast.styles.replica import Replica

SOURCE: Final = "@source"
"""The place, for the group, that a request to the source is answered from."""


class MemberIntake:
    """One member: implements :class:`holdfast.streams.reception.Intake`. What is handed to it is an event
    from outside the group, and runs under the host's guard."""

    def __init__(
        self,
        streams: Streams,
        guarded: Callable[..., Callable[..., None]],
        message_log: HostMessageLog | None = None,
        deciders: DeciderGroups | None = None,
    ) -> None:
        self.streams = streams
        self._log = message_log
        self._on_messages = guarded(streams.on_messages)
        self._on_answered = guarded(partial(streams.on_messages, place=SOURCE))
        self._on_heartbeat = guarded(streams.on_heartbeat)
        self._on_unavailable = guarded(partial(streams.on_unavailable, place=SOURCE))
        self._on_logged = guarded(partial(streams.on_messages, place=PLACE))
        self._on_not_logged = guarded(partial(streams.on_unavailable, place=PLACE))
        name = streams.handlers.settings.decider_group
        self._decider = None
        if deciders is not None and name:
            self._decider = AskedGroup(deciders, name, guarded(streams.on_decided))

    def connect(self, source: MessageStore) -> None:
        """Let the member recover messages from their source, and from the host's log if it has one, and ask
        the group that decides about its losses."""
        found = self._log
        store = None if found is None else LogStore(found, self._on_logged, self._on_not_logged)
        self.streams.connect(source=source, log=store, decider=self._decider)
        if self._decider is not None:
            self._decider.connect()

    def on_messages(self, origin: Origin, messages: Sequence[Message], *, is_answer: bool) -> None:
        if self._log is not None:
            self._log.record(origin, messages)
        (self._on_answered if is_answer else self._on_messages)(origin, messages)

    def on_heartbeat(self, origin: Origin, heartbeat: Heartbeat) -> None:
        self._on_heartbeat(origin, heartbeat)

    def on_unavailable(self, origin: Origin, first: int, last: int, reason: str) -> None:
        self._on_unavailable(origin, first, last, reason)

    def delivered(self, origin: Origin) -> int:
        ledger = self.streams.ledger
        mark = ledger.mark(origin.stream) if ledger is not None else None
        if mark is None or mark.origin.incarnation != origin.incarnation:
            return 0
        return mark.holes[0].first - 1 if mark.holes else mark.mark

    def latest(self, stream: str) -> int:
        ledger = self.streams.ledger
        mark = ledger.mark(stream) if ledger is not None else None
        return 0 if mark is None else mark.origin.incarnation

    @property
    def epoch(self) -> int:
        return self.streams.ports.epoch()

    @property
    def leads(self) -> bool:
        return self.streams.ports.leads()


class Intakes:
    """The members of this host that take streams."""

    def __init__(
        self,
        groups: HostGroups,
        request: Callable[[Origin, int, int], bool],
        message_log: HostMessageLog | None = None,
        deciders: DeciderGroups | None = None,
    ) -> None:
        """*request* asks a source for messages."""
        self._groups = groups
        self._log = message_log
        self._deciders = deciders
        self._store = _SourceStore(request)
        self._known: dict[GroupId, MemberIntake] = {}

    def get(self, group: GroupId) -> MemberIntake | None:
        """The member of that group; None if there is none here that takes streams. One that is without its
        object takes them, too: it holds what it will need when it has another (LOSS-99)."""
        streams = self.streams_of(group)
        if streams is None or not streams.is_bound:
            return None
        known = self._known.get(group)
        if known is None or known.streams is not streams:
            known = self._known[group] = MemberIntake(
                streams, self._groups.guarded, self._log, self._deciders
            )
            known.connect(self._store)
        return known

    def streams_of(self, group: GroupId) -> Streams | None:
        """The streams of the member of that group; None if it has none."""
        hosted = self._groups.hosted.get(group)
        if hosted is None or not isinstance(hosted.style, Replica):
            self._known.pop(group, None)
            return None
        found = hosted.style.annexes.get(NAME)
        return found if isinstance(found, Streams) else None

    def streams_led(self, group: GroupId) -> Streams:
        """The same of a leader. Raises ``Unavailable``."""
        found = self.streams_of(group)
        if found is None or not found.ports.leads():
            raise Unavailable("another member leads this group: ask there")
        return found


class _SourceStore:
    """A source that still has its last messages: a :class:`holdfast.streams.ports.MessageStore`."""

    def __init__(self, request: Callable[[Origin, int, int], bool]) -> None:
        self._request = request

    def request(self, origin: Origin, first: int, last: int) -> bool:
        return self._request(origin, first, last)
