"""Tests which host a client tries next: no round of failures is its last."""

import random
from collections.abc import Callable, Hashable

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.ports import RequestPorts
from holdfast.calling.requests import NO_ARGUMENTS, Requests
from holdfast.calling.targets import Targets
from holdfast.model.calls import Calls, Reads, RefusalCode, Replies, Seen, Turned
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId
from holdfast.model.outcome import encode_returned
from holdfast.model.ports import TimerId
from holdfast.model.reference import MemberAddress, Reference

A, B = HostId("a"), HostId("b")
REFERENCE = Reference(
    GroupId(1), "ledger", Epoch(1), A, (MemberAddress(A, "127.0.0.1:1"), MemberAddress(B, "127.0.0.1:2"))
)


def test_a_round_ends_when_its_last_host_hangs_up() -> None:
    """One host turned the call away, the other went silent and is gone. The first is asked again."""
    addresses = Targets(REFERENCE)
    addresses.on_connected(A)
    addresses.on_connected(B)
    assert not addresses.on_failed(A)
    assert addresses.target() == B
    addresses.on_disconnected(B)
    assert addresses.target() == A


class Machine:
    """A clock that stands still, a network that keeps what it is given, and all other ports."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []
        self.ended: list[object] = []

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 0

    def timers(self, on_timer: Callable[[Hashable], None]) -> "Machine":
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        return TimerId(1)

    def cancel(self, timer: TimerId) -> None:
        return None

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def stream(self, name: str) -> random.Random:
        return random.Random(1)

    def note(self, event: str, **facts: object) -> None:
        return None

    def invocations(self) -> Requests:
        """The requests of one client that is connected to all hosts."""
        ports = RequestPorts(
            clock=self,
            timers=self.timers,
            network=self,
            random=self,
            trace=self,
            on_ended=lambda handle, how, _: self.ended.append(handle),
            later=lambda: None,
            on_reference=lambda reference: None,
        )
        made = Requests(REFERENCE, ClientId("me"), 0, ports=ports, config=ClientConfig())
        for host in (A, B):
            made.on_connected(host)
        return made

    def frames(self, kind: type) -> list[tuple[str, int]]:
        """The hosts to which frames of this kind went, and the frames' numbers."""
        return [(peer, each.frame) for peer, each in self.sent if isinstance(each, kind)]  # type: ignore[attr-defined]  # of a kind that has one


def test_a_stale_read_does_not_send_calls_back_to_who_could_not_serve() -> None:
    """Any member answers a stale read, so the answer does not show who takes calls, and the round goes on."""
    machine = Machine()
    invocations = machine.invocations()
    invocations.call("call", "deposit", NO_ARGUMENTS, CallPolicy())
    read = invocations.call("read", "balance", NO_ARGUMENTS, CallPolicy(), stale_ms=1000)
    invocations.flush()
    [(primary, frame)] = machine.frames(Calls)
    [(reader, _)] = machine.frames(Reads)
    assert primary == A
    invocations.on_message(A, Turned(frame, REFERENCE.group, RefusalCode.NOT_PRIMARY))
    invocations.on_message(HostId(reader), Replies(REFERENCE.group, [read], [encode_returned(4)], Seen(), 0))
    assert machine.ended == ["read"]
    invocations.flush()
    assert [peer for peer, _ in machine.frames(Calls)] == [A, B]


def test_a_call_that_was_answered_makes_every_host_worth_another_try() -> None:
    """A host that answers a call serves, so the primary of the reference comes first again."""
    machine = Machine()
    invocations = machine.invocations()
    invocations.call("first", "deposit", NO_ARGUMENTS, CallPolicy())
    invocations.flush()
    invocations.on_message(A, Turned(1, REFERENCE.group, RefusalCode.UNAVAILABLE))
    number = invocations.call("second", "deposit", NO_ARGUMENTS, CallPolicy())
    invocations.flush()
    invocations.on_message(B, Replies(REFERENCE.group, [number], [encode_returned(4)], Seen(), 0))
    invocations.call("third", "deposit", NO_ARGUMENTS, CallPolicy())
    invocations.flush()
    assert [peer for peer, _ in machine.frames(Calls)] == [A, B, A]
