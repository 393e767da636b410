"""Calls wait at a member that takes its group over, within bounds, and are answered or judged in the end."""

from types import SimpleNamespace
from typing import Any, cast

from msgspec import Raw

from holdfast.groups.call_router import CallRouter
from holdfast.groups.early_calls import BYTES_MAX, FRAMES_MAX, WAIT_NS
from holdfast.model.calls import NO_FRAME, Calls, Follow, Redirected, RefusalCode, Seen, Settle, Turned
from holdfast.model.errors import Unavailable
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId
from holdfast.model.reference import MemberAddress, Reference

GROUP = GroupId(1)
CLAIMED, WON = Epoch(3), Epoch(4)


class Client:
    """A connection that writes down what is sent."""

    def __init__(self, told: list[Any]) -> None:
        self.send = told.append


class TakingOver:
    """A host whose member of a group has claimed it, and its router."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.has_claimed = self.is_taking_over = True
        self.is_primary = self.is_ready = False
        self.view = None
        self.style = self.replica = self
        self.member = SimpleNamespace(is_lost=False)
        self.epoch = CLAIMED
        self.asked: list[int] = []
        self.due: list[int] = []
        self.told: list[Any] = []
        self.client = cast(Any, Client(self.told))
        self.router = CallRouter(
            {GROUP: cast(Any, self)},
            cast(Any, SimpleNamespace(version=lambda *_: self.epoch, views={}, reference=self.reference)),
            *cast(Any, (None, None, None, None)),
            cast(Any, SimpleNamespace(now=lambda: self.now_ns)),
            cast(Any, self.timers),
        )

    def timers(self, on_timer: Any) -> Any:
        self.ring = on_timer
        return SimpleNamespace(set=lambda delay_ns, tag: self.due.append(self.now_ns + delay_ns))

    def reference(self, *_: object) -> Reference:
        me = MemberAddress(HostId("b"), "b:1")
        return Reference(group=GROUP, name="g", version=self.epoch, primary=me.host, members=(me,))

    def on_outcome_asked(self, asker: Any, client: ClientId, number: int, *_: object, **__: object) -> None:
        if not self.is_ready:
            raise Unavailable("not served here")
        self.asked.append(number)

    def ask_turn(self) -> None:
        return None

    # --- what happens

    def send(self, number: int) -> None:
        asked = Settle(number, GROUP, CLAIMED, Seen(), number, ClientId("c"), number, 9)
        self.router.on_call(self.client, asked)

    def win(self) -> None:
        self.epoch, self.is_primary = WON, True
        self.router.on_won(GROUP)

    def serve(self) -> None:
        self.is_taking_over, self.is_ready = False, True
        self.router.on_served(GROUP)

    def run_until(self, now_ns: int) -> None:
        while self.due and self.due[0] <= now_ns:
            self.now_ns = self.due.pop(0)
            self.ring("look")
        self.now_ns = now_ns

    @property
    def turned(self) -> list[RefusalCode]:
        return [each.code for each in self.told if isinstance(each, Turned)]


def test_what_reaches_a_claimant_is_answered_when_it_serves() -> None:
    """Nobody is turned away or sent elsewhere, though the calls name the view before."""
    host = TakingOver()
    host.send(1)
    host.win()
    host.send(2)
    host.run_until(WAIT_NS // 2)
    assert host.told == []
    host.serve()
    assert (host.asked, host.told) == ([1, 2], [])


def test_followers_are_told_when_the_group_is_won_and_not_once_more() -> None:
    host = TakingOver()
    host.router.on_call(host.client, Follow(GROUP))
    host.win()
    assert [(type(each), each.frame, each.reference.version) for each in host.told] == [
        (Redirected, NO_FRAME, WON)
    ]
    host.serve()
    assert len(host.told) == 1


def test_followers_are_told_again_if_somebody_was_turned_away_meanwhile() -> None:
    host = TakingOver()
    host.router.on_call(host.client, Follow(GROUP))
    host.win()
    host.epoch = CLAIMED  # so that the frame is not sent elsewhere
    host.send(1)
    host.run_until(2 * WAIT_NS)
    assert host.turned == [RefusalCode.UNAVAILABLE]
    host.epoch = WON
    host.serve()
    assert [type(each) for each in host.told] == [Redirected, Turned, Redirected]
    assert host.asked == []


def test_a_lost_claim_turns_away_what_waits() -> None:
    host = TakingOver()
    host.send(1)
    host.is_taking_over = False
    host.run_until(WAIT_NS // 2)
    assert host.turned == [RefusalCode.NOT_PRIMARY]
    host.run_until(2 * WAIT_NS)
    assert host.due == [], "nothing waits, so nothing is looked at"


def test_who_has_gone_is_not_answered() -> None:
    host = TakingOver()
    host.send(1)
    host.router.on_gone(host.client)
    host.serve()
    assert (host.asked, host.told) == ([], [])


def test_what_waits_is_bounded_in_number_and_bytes() -> None:
    host = TakingOver()
    for number in range(FRAMES_MAX):
        host.send(number)
    assert host.turned == []
    host.send(FRAMES_MAX)
    assert host.turned == [RefusalCode.NOT_PRIMARY]

    host = TakingOver()
    long = Raw(bytes(BYTES_MAX // 2))
    for frame in range(3):
        host.router.on_call(host.client, Calls(frame, GROUP, CLAIMED, Seen(), long))
    assert host.turned == [RefusalCode.NOT_PRIMARY]
