"""Forced recovery: what a person is told in advance, and which requests are sent to whom (V4)."""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec
import pytest

from holdfast.authority.contract import Applied as TxnApplied
from holdfast.authority.contract import Got, KeyValue, Put, Request, Txn, Unknown
from holdfast.authority.identity import Floors, Identity
from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import View, ViewMember, Why
from holdfast.model.errors import Conflict, InvalidRequest
from holdfast.model.ids import (
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    LeaseId,
    Nonce,
    Opening,
    Position,
    Revision,
    StoreId,
)
from holdfast.model.ports import TimerId
from holdfast.sequence.messages import Held, Inspect
from holdfast.sequence.recovery import Inspection, Recovery
from holdfast.storage.record import Point

GROUP = GroupId(7)
A, B, C = HostId("a"), HostId("b"), HostId("c")


def member(host: HostId) -> ViewMember:
    return ViewMember(
        host=host, store=StoreId(f"store-{host}"), incarnation=Incarnation(1), opening=Opening(1)
    )


def view(*hosts: HostId, epoch: int = 5) -> Seen[View]:
    members = tuple(member(host) for host in hosts)
    new = View(group=GROUP, epoch=Epoch(epoch), primary=hosts[0], members=members, nonce=Nonce("n"))
    return Seen("views/7", new, Revision(9))


def held(
    host: HostId, tail: int, committed: int, *, epoch: int = 5, number: int = 1, serves: bool = False
) -> Held:
    point = Point(Position(tail), Epoch(epoch), 0)
    return Held(
        GROUP, Epoch(epoch), number, member(host), point, Position(committed), False, "backup", serves
    )


def test_a_listed_member_that_holds_all_loses_nothing() -> None:
    found = Inspection(view(A, B), (held(A, 10, 9), held(B, 10, 8)), (C,))
    losses = found.losses(B)
    assert (losses.known, losses.possible, losses.is_listed) == (0, 0, True)
    assert "nothing is known to be lost" in losses.text


def test_what_others_know_to_be_committed_is_known_to_be_lost() -> None:
    """b's disk reverted to an older state: b is listed, but lacks what a committed and what c holds beyond
    that."""
    found = Inspection(view(A, B), (held(A, 8, 8), held(B, 5, 5), held(C, 11, 8)), ())
    losses = found.losses(B)
    assert (losses.known, losses.possible, losses.is_listed) == (3, 3, True)
    assert "6 to 8 were committed and are lost" in losses.text
    assert "9 to 11, held by another member, may have been committed" in losses.text


def test_a_longer_log_of_an_older_epoch_is_no_loss() -> None:
    """What a member of an older epoch holds beyond the source was never committed."""
    found = Inspection(view(A, B), (held(A, 6, 6), held(C, 9, 5, epoch=3)), (B,))
    assert (found.losses(A).known, found.losses(A).possible) == (0, 0)


def test_of_a_member_that_was_not_in_sync_more_may_be_lost_than_is_known() -> None:
    losses = Inspection(view(A, B), (held(C, 4, 4, epoch=3),), (A, B)).losses(C)
    assert not losses.is_listed
    assert "more may be lost" in losses.text


def test_of_a_member_whose_tail_was_cut_that_end_may_be_lost() -> None:
    """The member is in sync, and nobody else knows what the cut end contained (D2)."""
    found = Inspection(view(A, B), (msgspec.structs.replace(held(B, 4, 4), is_doubtful=True),), (A,))
    assert "was cut when it started" in found.losses(B).text
    assert "nothing is known to be lost" not in found.losses(B).text


def test_silent_in_sync_members_may_still_acknowledge_unless_they_need_the_source() -> None:
    """If a alone is in sync and cut off from the host that asks, it goes on by itself; if b is in sync too, a
    cannot."""
    alone = Inspection(view(A), (held(B, 4, 4),), (A, C)).losses(B)
    assert "a must not run any more" in alone.text
    together = Inspection(view(A, B), (held(B, 4, 4),), (A, C)).losses(B)
    assert "must not run" not in together.text


class Surroundings:
    """The clock, timers, network and authority of one host, driven by the test."""

    def __init__(self, standing: Seen[View]) -> None:
        self.standing = standing
        self.sent: list[tuple[str, Any]] = []
        self.due: list[Hashable] = []
        self.puts: list[View] = []
        self.is_mute = False
        self.recipes = Recipes(self)

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 123

    def timers(self, on_timer: Callable[[Hashable], None]) -> "Surroundings":
        self.on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.due.append(tag)
        return TimerId(0)

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("nothing is cancelled")

    def fire(self) -> None:
        due, self.due = self.due, []
        for tag in due:
            self.on_timer(tag)

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def request(self, request: Request, token: Hashable) -> None:
        if isinstance(request, Txn):
            for each in request.changes:
                assert isinstance(each, Put)
                self.puts.append(msgspec.json.decode(each.value, type=View))
            answer: Any = Unknown("mute") if self.is_mute else TxnApplied(Revision(10))
        else:
            seen = self.standing
            item = KeyValue(seen.key, msgspec.json.encode(seen.value), Revision(1), seen.modified, LeaseId(0))
            answer = Got(item, Revision(9))
        self.recipes.on_authority(token, answer)


def recovery(around: Surroundings, own: Held | None = None) -> Recovery:
    identity = Seen(
        "authority/identity", Identity(id="x", generation=1, floors=Floors(), nonce=Nonce("i")), Revision(1)
    )
    nonces = iter(range(100))
    return Recovery(
        C,
        clock=around,
        timers=around.timers,
        network=around,
        recipes=around.recipes,
        identity=lambda: identity,
        nonce=lambda: Nonce(f"n{next(nonces)}"),
        own=lambda asked: own,
    )


def test_everybody_is_asked_and_the_silent_are_named_after_a_while() -> None:
    around, found = Surroundings(view(A, B)), []
    machine = recovery(around, held(C, 4, 4))
    machine.inspect(GROUP, (A, B, C), found.append)
    assert [(peer, type(message)) for peer, message in around.sent] == [(A, Inspect), (B, Inspect)]
    machine.on_held(B, held(B, 5, 5))
    machine.on_held(A, held(B, 9, 9))  # not from the host that sent it
    assert found == []
    around.fire()
    assert found == [Inspection(around.standing, (held(B, 5, 5), held(C, 4, 4)), (A,))]
    machine.on_held(A, held(A, 6, 6))
    assert len(found) == 1


def test_the_new_view_names_one_store_and_says_what_was_given_up() -> None:
    """The change is requested again, with the same nonce, until the authority has answered definitely
    (A1)."""
    around, told = Surroundings(view(A, B)), []
    found = Inspection(around.standing, (held(B, 9, 9), held(C, 4, 4)), (A,))
    around.is_mute = True
    recovery(around).recover(found, C, told.append)
    assert told == []
    around.is_mute = False
    around.fire()
    assert around.puts[0] == around.puts[1]
    (seen,) = told
    new = seen.value
    assert (new.epoch, new.generation, new.primary, new.members) == (6, 6, C, (member(C),))
    assert (new.cause.why, new.cause.at_ns) == (Why.RECOVERED, 123)
    assert "5 to 9 were committed and are lost" in new.cause.text


def test_nothing_is_recovered_that_is_served_or_from_who_is_silent() -> None:
    around = Surroundings(view(A, B))
    for found, source in (
        (Inspection(around.standing, (held(A, 9, 9, serves=True), held(C, 4, 4)), (B,)), C),
        (Inspection(around.standing, (held(C, 4, 4),), (A, B)), A),
    ):
        with pytest.raises(InvalidRequest):
            recovery(around).recover(found, source, lambda _: None)
    assert around.puts == []


def test_losses_that_the_person_did_not_see_are_not_inflicted() -> None:
    """a was silent when the person looked and answers now: it knows that more is committed."""
    around = Surroundings(view(A, B))
    machine = recovery(around)
    before = Inspection(view(A, B), (held(B, 5, 5),), (A, C))
    now = Inspection(view(A, B), (held(A, 8, 8), held(B, 5, 5)), (C,))
    with pytest.raises(Conflict, match="6 to 8 were committed and are lost"):
        machine.recover(now, B, lambda _: None, agreed_to=before.losses(B).text)
    assert around.puts == []
    machine.recover(now, B, lambda _: None, agreed_to=now.losses(B).text)
    assert len(around.puts) == 1
