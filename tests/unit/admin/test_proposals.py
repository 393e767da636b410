"""Requests for changes while coordinators change, fall silent or answer that they do not know."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.admin.proposals import (
    ProposalForwarding,
    ProposalPatience,
    Proposals,
    RefusedThere,
    Told,
    Wanted,
    granted,
)
from holdfast.control.coordination.dedup import (
    Dedup,
    NeverGranted,
    Wish,
    decode_body,
    decode_wish,
    encode_wish,
)
from holdfast.control.coordination.participant import NotCoordinator
from holdfast.control.coordination.ports import Accepted, Failed, Outcome, Tell, Unsettled
from holdfast.control.coordination.state_file import Context
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import HostId

A, B = HostId("a"), HostId("b")
Treatment = Callable[[Wish, Tell], None]


class Coordinator:
    """Stands for host a's manager: grants wishes at once, unless *treatments* handles the next
    differently.
    """

    def __init__(self) -> None:
        self.context = Context()
        self.coordinator: HostId | None = A
        self.treatments: list[Treatment] = []
        self.seen: list[Wish] = []
        self._once = Dedup(_append)

    def update(self, change: bytes, tell: Tell) -> None:
        if self.coordinator != A:
            raise NotCoordinator(self.coordinator)
        wish = decode_wish(change)
        self.seen.append(wish)
        if self.treatments:
            self.treatments.pop(0)(wish, tell)
        else:
            self.grant(change, tell)

    def grant(self, change: bytes, tell: Tell) -> None:
        try:
            body, reply = self._once.apply(self.context.body, change)
        except InvalidRequest as error:
            tell(Failed(error))
            return
        self.context = Context(self.context.cas + 1, body)
        tell(Accepted(self.context.cas, reply))

    @property
    def body(self) -> bytes:
        return decode_body(self.context.body).body


def _append(body: bytes, change: bytes) -> tuple[bytes, bytes]:
    if change == b"!":
        raise InvalidRequest("not this")
    return body + change, b"%d" % len(body)


PATIENT = ProposalPatience(wish_s=60.0, pause_s=0.001, seen_s=0.01)
IMPATIENT = ProposalPatience(wish_s=0.2, pause_s=0.001, seen_s=0.01)
"""For wishes that nobody will grant."""


class Pair:
    """Host a, which coordinates, and host b, which was asked. *losses*: whether each message is lost."""

    def __init__(self, *, again_s: float = 0.05) -> None:
        self.a = Coordinator()
        self.b = SimpleNamespace(coordinator=A, context=Context(), look=lambda: None)
        self.losses: list[bool] = []
        self._at_a = ProposalForwarding(lambda peer, message: self._carry(self._b_hears, message))
        self.at_b = ProposalForwarding(
            lambda peer, message: self._carry(self._a_hears, message), again_s=again_s
        )
        self.wishing = Proposals(B, cast(Any, self.b), self.at_b, PATIENT)

    def _carry(self, hears: Callable[[Any], None], message: object) -> None:
        if not (self.losses and self.losses.pop(0)):
            asyncio.get_running_loop().call_soon(hears, message)

    def _a_hears(self, message: Wanted) -> None:
        self._at_a.on_wanted(B, message, cast(Any, self.a))

    def _b_hears(self, message: Told) -> None:
        self.at_b.on_told(message)


def run(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    return asyncio.run(work)


def here(patience: ProposalPatience = PATIENT) -> tuple[Coordinator, Proposals]:
    a = Coordinator()
    return a, at(a, patience)


def at(a: Coordinator, patience: ProposalPatience) -> Proposals:
    return Proposals(A, cast(Any, a), ProposalForwarding(lambda peer, message: None), patience)


def answers(outcome: Outcome) -> Treatment:
    return lambda wish, tell: tell(outcome)


def test_a_wish_is_granted_here_or_through_the_coordinator() -> None:
    a, own = here()
    assert run(own.wish(b"x", "w1")) == Accepted(1, b"0")
    pair = Pair()
    assert run(pair.wishing.wish(b"x", "w1")) == Accepted(1, b"0")
    assert pair.a.body == a.body == b"x"


@pytest.mark.parametrize("losses", [[True], [False, True], [True, True, False, True]])
def test_lost_messages_are_said_again_and_the_wish_is_granted_once(losses: list[bool]) -> None:
    """This holds whether the wish or its answer was lost."""
    pair = Pair()
    pair.losses = losses
    outcome = run(pair.wishing.wish(b"x", "w1"))
    assert isinstance(outcome, Accepted)
    assert outcome.reply == b"0"
    assert pair.a.body == b"x"


def test_a_wish_is_made_again_as_soon_as_whom_it_was_told_is_gone() -> None:
    """The host does not wait for an answer that will not come: here that would take all day."""
    pair = Pair(again_s=86_400.0)
    pair.losses = [True]

    async def work() -> Outcome:
        desired = asyncio.create_task(pair.wishing.wish(b"x", "w1"))
        while pair.losses:
            await asyncio.sleep(0)
        pair.at_b.give_up()
        return await desired

    assert run(work()) == Accepted(1, b"0")


def test_an_unsettled_wish_is_made_again_and_granted_once() -> None:
    a, own = here()
    a.treatments = [lambda wish, tell: a.grant(encode_wish(wish), lambda _: tell(Unsettled(7)))]
    outcome = run(own.wish(b"x", "w1"))
    assert isinstance(outcome, Accepted)
    assert a.body == b"x"


def test_a_refusal_after_doubt_is_settled_before_it_is_told() -> None:
    """The first copy may still be on its way: after this answer it must never be granted."""
    a, own = here()
    a.treatments = [answers(Unsettled(7)), answers(Failed(InvalidRequest("not now")))]
    outcome = run(own.wish(b"x", "w1"))
    assert isinstance(outcome, Failed)
    assert "not now" in str(outcome.why)
    assert [each.change for each in a.seen] == [b"x", b"x", b""]
    late = list[Outcome]()
    a.grant(encode_wish(a.seen[0]), late.append)
    assert isinstance(late[0], Failed)
    assert isinstance(late[0].why, NeverGranted)


def test_what_was_perhaps_granted_is_never_said_to_have_failed() -> None:
    """Nobody coordinates afterwards: the outcome names the update that was left open."""
    a, own = here(IMPATIENT)

    def leave_open(wish: Wish, tell: Tell) -> None:
        a.coordinator = None
        tell(Unsettled(7))

    a.treatments = [leave_open]
    outcome = run(own.wish(b"x", "w1"))
    assert outcome == Unsettled(7)
    with pytest.raises(OutcomeUnknown, match="update 7"):
        granted(outcome)


def test_a_definite_failure_is_tried_again_and_told_when_patience_ends() -> None:
    a, own = here()
    a.treatments = [answers(Failed(Rejected("rolled back")))] * 2
    assert isinstance(run(own.wish(b"x", "w1")), Accepted)
    a.coordinator = None
    own = at(a, IMPATIENT)
    outcome = run(own.wish(b"y", "w2"))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.why, Unavailable)
    with pytest.raises(Unavailable):
        granted(outcome)
    assert a.body == b"x"


def test_settling_tells_a_reply_or_that_it_never_runs_or_that_nobody_knows() -> None:
    a, own = here()
    run(own.wish(b"x", "w1"))
    assert run(own.settle("w1")) == Accepted(2, b"0")
    never = run(own.settle("w2"))
    assert isinstance(never, Failed)
    assert isinstance(never.why, NeverGranted)
    a.coordinator = None
    own = at(a, IMPATIENT)
    assert run(own.settle("w3")) == Unsettled(0)


@pytest.mark.parametrize(
    ("why", "kind", "code"),
    [
        (InvalidRequest("no"), RefusedThere, "invalid_request"),
        (NeverGranted("no"), RefusedThere, "never_granted"),
    ],
)
def test_a_refusal_keeps_its_code_on_the_way(
    why: HoldfastError, kind: type[HoldfastError], code: str
) -> None:
    pair = Pair()
    pair.a.treatments = [answers(Failed(why))]
    outcome = run(pair.wishing.wish(b"x", "w1"))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.why, kind)
    assert outcome.why.code == code
