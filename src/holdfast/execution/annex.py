"""Annexes: what other packages add to a group, with records, a state and messages of their own (W9, W10).

A package such as streams orders records of its own kind in a group's sequence, keeps a part of the group's
state, and lets members tell each other things. It does that as an *annex* of the object. Each group's
:class:`.definition.Definition` says which annexes it has.

- :class:`Annex` is one annex of one member, for as long as the member lives. It hears what other members
  tell, does what is due in each turn, and orders records while its member leads.
- :class:`AnnexState` is its part of the state of one object. Records act on it in the order of their
  positions, as they do on the object, and it is saved, loaded, compared and given up with the object.
- :class:`AnnexPorts` is what a member gives an annex.

A record may have to wait for something that only this member's annex can get, such as a message that was
ordered by its number and has not arrived. It is applied once the annex is ready; what comes after it waits.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from holdfast.authority.views import ViewMember
from holdfast.execution.capture import NotCapturable
from holdfast.execution.effects import Job
from holdfast.execution.records import Annexed, encode_arguments, encode_arguments_in_order
from holdfast.model.calls import Request
from holdfast.model.errors import HoldfastError, InvalidRequest, invariant
from holdfast.model.ids import ClientId, Epoch, HostId, Position
from holdfast.model.outcome import Outcome
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.messages import PART_CHARACTERS_MAX, PeerMessage
from holdfast.sequence.peer_messages import Peer

CLIENT: Final = "annex/"
"""The ids of clients under which annexes call methods of the object begin with this. No real client's id
contains a slash."""


class UnknownAnnex(HoldfastError):
    """Raised when a state has a part of an annex that this host does not have."""

    code = "unknown_annex"


@dataclass(frozen=True, slots=True)
class AnnexOperation:
    """A record that is being applied."""

    first: Position
    positions: int
    """How many positions it takes, from *first* on."""
    body: bytes
    time_ns: int
    """The group's time: the only clock that may matter here."""
    calls: list[tuple[str, msgspec.Raw | tuple[object, ...]]] = field(default_factory=list)

    def call(self, method: str, *arguments: object) -> None:
        """Have the object execute a method, after those ordered before: now, or once they have ended. Nobody
        gets the reply. At most one method for each position. The arguments are encoded, so they must be
        values that msgpack knows."""
        self._add(method, encode_arguments_in_order(arguments, {}))

    def call_plain(self, method: str, *arguments: object) -> None:
        """The same, for arguments in which there are no sets: they need not be searched for any."""
        self._add(method, encode_arguments(arguments, {}))

    def call_made(self, method: str, *arguments: object) -> None:
        """The same, for a method that never waits, and arguments that are what it takes, and nobody else's:
        they are handed over as they are. In a checkpoint they are encoded as by :meth:`call_plain`."""
        self._add(method, arguments)

    def _add(self, method: str, arguments: msgspec.Raw | tuple[object, ...]) -> None:
        if len(self.calls) == self.positions:
            raise InvalidRequest(f"a record of {self.positions} positions calls at most as many methods")
        self.calls.append((method, arguments))


class AnnexState(Protocol):
    """An annex's part of the state of one object. The same records give the same state, on every member and
    in every replay."""

    def is_ready(self, body: bytes) -> bool:
        """Whether a record may be applied now. If not, everything waits, until :attr:`AnnexPorts.ready` is
        called. A member that waits makes no checkpoints, and its log grows: an annex that does not get ready
        in time has the object renewed. Always true where the annex has no ports."""
        ...

    def apply(self, operation: AnnexOperation) -> None:
        """Apply a record. Nothing may be ordered from here."""
        ...

    def on_failed(self, method: str, arguments: msgspec.Raw | tuple[Any, ...], outcome: bytes) -> None:
        """A method that a record had the object execute has not returned: it raised, or was given up (E4).
        What it changed stays. Every member and every replay hears of it at the same place."""
        ...

    def save(self) -> bytes:
        """The state; empty as long as no record was applied, so that an annex that was never used is as good
        as none."""
        ...

    def load(self, saved: bytes) -> None:
        """Go on from what :meth:`save` returned. Raises ``msgspec.DecodeError`` for anything else."""
        ...

    def digest(self) -> bytes:
        """A digest that is equal for equal states."""
        ...

    @property
    def is_comparable(self) -> bool:
        """Whether a digest that differs from another member's tells anything. An annex that had to go on
        without something, and tells the others by a record of its own, knows already that it differs."""
        ...


class Annex(Protocol):
    """One annex of one member."""

    @property
    def name(self) -> str:
        """Its name in records, states and messages, for ever; at most ``PART_CHARACTERS_MAX`` characters."""
        ...

    def state(self) -> AnnexState:
        """Make its part of the state of a new object."""
        ...

    def positions(self, body: bytes) -> int:
        """How many positions a record with this *body* takes: 1 to ``ANNEX_POSITIONS_MAX``."""
        ...

    def bind(self, ports: "AnnexPorts") -> None:
        """Take the member's ports, before anything else happens. An annex that is not bound, because its
        object is only made to try a state or to replay records, makes states and does nothing else."""
        ...

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        """Handle what the annex of another member told, in the present epoch (W1). A turn follows."""
        ...

    def turn(self) -> None:
        """Do what is due, also on members that do not lead. Only here, and in events from outside the group,
        may the annex order records, renew the object or hand over."""
        ...

    def next_ns(self) -> int | None:
        """When, by the clock, :meth:`turn` must be called even if nothing happens; None if there is no
        need."""
        ...


@dataclass(frozen=True, slots=True)
class AnnexPorts:
    """A member, as one of its annexes uses it."""

    clock: Clock
    trace: Trace
    me: Callable[[], ViewMember]
    epoch: Callable[[], Epoch]
    leads: Callable[[], bool]
    """Whether this member is primary and takes calls, so that it may order."""
    term: Callable[[], int]
    """How often this member has begun to take calls as primary. When it begins, everything that was ordered
    before is executed; what an annex knows of its own records that are not executed yet is of one term."""
    state: Callable[[], AnnexState | None]
    """The annex's part of the present object; None while there is no object."""
    peers: Callable[[], tuple[Peer, ...]]
    """The other members (:meth:`holdfast.sequence.peer_messages.PeerMessages.peers`)."""
    tell: Callable[[HostId, bytes], bool]
    """Tells the same annex of the member on that host something; whether it was sent. No promise (W1)."""
    order: Callable[[bytes], Position]
    """Orders a record with this body. Returns its last position. Raises ``Unavailable`` if this member does
    not lead, ``Overloaded``, ``InvalidRequest``; then nothing has changed."""
    ready: Callable[[], None]
    """Lets the member go on: a record for which the annex was not ready may be applied now, perhaps."""
    wake: Callable[[], None]
    """Requests a turn soon."""
    query: Callable[[str, tuple[object, ...]], Outcome | None]
    """Has the object answer a method that changes nothing, as a query would; None if there is no object, or
    what a query may see is older than what is applied."""
    renew: Callable[[str], None]
    """Gives up a backup's object at the end of the turn, for this reason, and takes the primary's state in
    its place (O3). Until then the member stays listed, acknowledges, and leads only if nobody else can. On a
    primary it does nothing: hand over first."""
    hand_over: Callable[[HostId, str], None]
    """As primary: hands the group over to the member on that host, for this reason (K5). Raises
    ``InvalidRequest``, ``Unavailable``."""
    fault: Callable[[str, str], None]
    """Reports a fault (:attr:`holdfast.styles.ports.StylePorts.fault`)."""


class AnnexStates:
    """The parts that annexes have of the state of one object, by their names."""

    def __init__(self, annexes: Iterable[Annex]) -> None:
        self._annexes = {each.name: each for each in annexes}
        invariant(
            all(0 < len(name) <= PART_CHARACTERS_MAX for name in self._annexes), "an annex has a short name"
        )
        self._states = {name: each.state() for name, each in self._annexes.items()}

    def get(self, name: str) -> AnnexState | None:
        return self._states.get(name)

    def is_ready(self, record: Annexed) -> bool:
        """Whether *record* may be applied now (W10). One that no annex knows is found out when it is
        applied."""
        state = self._states.get(record.annex)
        return state is None or state.is_ready(record.body)

    def on_failed(self, job: Job, outcome: bytes) -> None:
        """A job that nobody waits for has not returned: if it is of an annex, tell that."""
        state = self._states.get(job.client.removeprefix(CLIENT)) if job.client.startswith(CLIENT) else None
        if state is not None:
            state.on_failed(job.method, job.arguments, outcome)

    def save(self) -> dict[str, bytes]:
        """What was saved, by annex, without those that were never used. Each is read back (E9). Raises
        ``NotCapturable``."""
        found: dict[str, bytes] = {}
        for name, state in self._states.items():
            saved = state.save()
            if saved:
                found[name] = saved
                self._read_back(name, saved, state)
        return found

    def load(self, saved: Mapping[str, bytes]) -> None:
        """Go on from what :meth:`save` returned. Raises :class:`UnknownAnnex`."""
        for name in saved:
            if name not in self._states:
                raise UnknownAnnex(f"the state has a part of {name!r}, which this host does not know")
        for name, annex in self._annexes.items():
            self._states[name] = annex.state()
            if name in saved:
                self._states[name].load(saved[name])

    def digests(self) -> list[bytes]:
        """What makes the parts of two members comparable; empty if no annex was used."""
        used = [(name, state) for name, state in sorted(self._states.items()) if state.save()]
        return [part for name, state in used for part in (name.encode(), state.digest())]

    @property
    def are_comparable(self) -> bool:
        return all(state.is_comparable for state in self._states.values())

    def _read_back(self, name: str, saved: bytes, state: AnnexState) -> None:
        back = self._annexes[name].state()
        try:
            back.load(saved)
        except Exception as error:
            raise NotCapturable(f"the part of {name} cannot be read back: {error}") from None
        if back.digest() != state.digest():
            raise NotCapturable(f"the part of {name} would not come back as it is")


def client_of(annex: str) -> ClientId:
    """The client under which an annex calls methods of the object."""
    return ClientId(f"{CLIENT}{annex}")


def requests_of(first: Position, record: Annexed) -> list[Request]:
    """The requests that may run when *record* is applied at *first*."""
    return [Request(client_of(record.annex), first + index) for index in range(record.positions)]


def jobs_of(operation: AnnexOperation, annex: str, expiration_s: int) -> list[Job]:
    """The operations that a record has the object execute. Nobody waits for their replies, as for those of
    timers."""
    return [
        Job(
            client_of(annex),
            operation.first + index,
            method,
            arguments,  # type: ignore[arg-type]  # a tuple is encoded as what Raw has
            expiration_s,
            operation.time_ns,
            is_timer=True,
        )
        for index, (method, arguments) in enumerate(operation.calls)
    ]
