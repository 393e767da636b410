"""A follower of a sequence with all that is around it, by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import View, ViewMember
from holdfast.model.ids import (
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Nonce,
    Opening,
    Position,
    Revision,
    StoreId,
)
from holdfast.model.ports import NoTrace
from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.leases import NOBODY
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.messages import Submit
from holdfast.sequence.ports import Durability, HostPorts
from holdfast.sequence.store import GroupStore
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_state import ViewState
from holdfast.storage.record import Point

GROUP = GroupId(1)
C = HostId("c")
MANY_BYTES = 1 << 20
E1, E2 = Epoch(1), Epoch(2)


class Surroundings:
    """Clock, network, leases and application of one follower, by hand."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.committed: list[Position] = []

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 0

    def send(self, peer: str, message: object) -> None:
        self.sent.append(message)

    def latest_beat(self, host: HostId) -> tuple[Incarnation, int]:
        return NOBODY, 17

    def on_committed(self, up_to: Position) -> None:
        self.committed.append(up_to)

    def nothing(self, *_: object) -> Any:
        return None


class Follower:
    """Host b with records of epoch 1, listed in a view of epoch 1."""

    def __init__(self, records: int) -> None:
        self.around = around = Surroundings()
        durability = Durability()
        self.log = MemoryLog(durability.on_durable)
        self.store = GroupStore(GROUP, self.log, durability)
        for number in range(records):
            self.store.append(E1, b"%d" % number, 1)
        self.log.flush()
        me = ViewMember(host=HostId("b"), store=StoreId("b"), incarnation=Incarnation(1), opening=Opening(1))
        view = View(group=GROUP, epoch=E1, primary=HostId("a"), members=(me,), nonce=Nonce("n"))
        nothing: Callable[..., Any] = around.nothing
        ports = HostPorts(
            clock=around,
            timers=nothing,
            network=around,
            random=nothing,  # type: ignore[arg-type]  # a follower draws nothing
            trace=NoTrace(),
            recipes=Recipes(around),  # type: ignore[arg-type]  # nor asks the authority
            claims=around,  # type: ignore[arg-type]  # nothing of it
            catchup_limiter=around,  # type: ignore[arg-type]  # nor asks by itself
            leases=around,  # type: ignore[arg-type]  # of which it needs one answer
            log=self.log,
            durability=durability,
            checkpoints=around,  # type: ignore[arg-type]  # and keeps no state
            flush=nothing,
            identity=nothing,
            nonce=nothing,
            on_doubt_settled=nothing,
            on_lost=nothing,
            on_superseded=nothing,
            on_halted=nothing,
        )
        standing = ViewState(me, Seen("views/1", view, Revision(1)))
        self.on = MemberState(
            GROUP,
            me,
            SequenceConfig(),
            ports,
            around,
            self.store,
            standing,
            Position(0),  # type: ignore[arg-type]
        )
        self.on.epoch = E1
        self.acceptance = Acceptance(self.on)

    def submit(self, submit: Submit) -> list[Any]:
        """What it answers, once everything is synced."""
        self.around.sent.clear()
        self.acceptance.on_submit(C, submit)
        self.log.flush()
        return self.around.sent


def submission(
    claimant: GroupStore,
    after: int,
    records: int,
    *,
    epoch: Epoch = E2,
    tail: Point | None = None,
    committed: int = 0,
    is_unproven: bool = False,
) -> Submit:
    previous = claimant.point_at(Position(after))
    assert previous is not None
    return Submit(
        GROUP,
        epoch,
        Incarnation(1),
        previous,
        claimant.after(Position(after), records, MANY_BYTES)[0] if records else (),
        Position(committed),
        tail or claimant.tail,
        is_unproven,
    )


A, B = HostId("a"), HostId("b")


class Passing(Surroundings):
    """Surroundings whose time passes."""

    time_ns = 0

    def now(self) -> int:
        return self.time_ns


def start_primary(on: MemberState, around: Passing) -> Submission:
    """A is primary; B is listed, and an earlier process of B was heard."""
    on.ports = dataclasses.replace(on.ports, clock=around, network=around)
    on.me = on.standing.me = ViewMember(
        host=A, store=StoreId("a"), incarnation=Incarnation(1), opening=Opening(1)
    )
    behind = ViewMember(host=B, store=StoreId("b"), incarnation=Incarnation(7), opening=Opening(1))
    view = View(group=GROUP, epoch=E2, primary=A, members=(on.me, behind), nonce=Nonce("m"))
    on.standing.seen, on.epoch = Seen("views/1", view, Revision(2)), E2
    submission = Submission(on, lambda: None, lambda: None)
    submission.begin(is_unproven=False)
    return submission
