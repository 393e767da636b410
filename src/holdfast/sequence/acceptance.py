"""How a backup or a learner takes records: check them, store their bytes, acknowledge them once synced.

Rules. A follower refuses messages of an older epoch (S2). It makes the epoch that it follows durable in the
same sync as its first acknowledgement in that epoch (V3). An acknowledgement means "my log equals yours up to
here", never "I have this many records": it covers only what was compared with the primary's records, not
whatever else lies in the log (M3).

On its first acceptance in a new epoch a follower drops what lies beyond the primary's tail *at its claim*,
and nothing else. After that it drops whatever differs from the records it receives.
*Without it* (dropping everything beyond the message): B holds 1..7, 5 of them committed; C claims with 1..6
and sends 1..3 first; B drops 4..7 and acknowledges 3; C dies; B claims without 4 and 5.
"""

from collections.abc import Callable
from functools import partial

from holdfast.authority.views import View
from holdfast.model.errors import Conflict, Overloaded, invariant
from holdfast.model.ids import Epoch, HostId, Position
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Accepted, Hello, Knows, Submit
from holdfast.sequence.role import Role
from holdfast.sequence.store import order_of
from holdfast.storage.record import HEADER


class Acceptance:
    """One member's work as a follower of the current primary."""

    def __init__(self, state: MemberState) -> None:
        self._on = state
        self.primary: HostId | None = None
        """The host of the primary that this member follows; None when it is unknown."""
        self.heard_at: int | None = None
        """When this member last accepted something in this epoch."""
        self.is_stopped = False
        """Set while a claim of this member is unanswered. It then acknowledges nothing, because the primary
        that it wants to replace might rest its reads on that acknowledgement (R1)."""
        self.on_first_heard: Callable[[], None] = lambda: None
        self._asked_at: int | None = None

    def follow(self, epoch: Epoch, primary: HostId | None) -> None:
        """Follow *primary*, which orders records in *epoch*."""
        on = self._on
        if epoch > on.epoch or primary != self.primary:
            self.heard_at = None
            self._asked_at = None
        if epoch > on.epoch:
            on.epoch, on.epoch_since = epoch, on.now
        self.primary = primary

    def follow_view(self, view: View) -> None:
        """Follow the primary of *view*, unless a later epoch is followed already."""
        if view.epoch >= self._on.epoch:
            self.follow(view.epoch, None if view.primary == self._on.me.host else view.primary)

    def disbelieve(self, heard: Epoch, view: View, role: Role) -> bool:
        """Forget the epoch *heard* of, which nobody ever won (K7); returns whether this member followed it
        and now follows *view*. Its log did not: a member whose log has followed such an epoch stops (A5)."""
        on = self._on
        on.note("never_issued", heard=heard, epoch=view.epoch)
        on.overtaken_in = min(on.overtaken_in, view.epoch)
        if on.epoch <= view.epoch or role not in (Role.BACKUP, Role.LEARNER):
            return False
        on.epoch = view.epoch
        self.follow_view(view)
        return True

    def on_submit(self, primary: HostId, submit: Submit) -> None:
        """Take a Submit whose epoch is not older than ours; :meth:`.member.Member.on_message` has checked
        that."""
        on = self._on
        if submit.epoch > on.epoch or primary != self.primary:
            self.follow(submit.epoch, primary)
        store = on.store
        # The log has followed the epoch of its tail, and nearly always that is the one.
        is_new = submit.epoch > store.tail.epoch and submit.epoch > store.followed()
        if is_new and self._holds_more(submit):
            on.send(primary, Knows(on.group, submit.epoch, on.committed))
            on.note("knows_more", of=primary, committed=on.committed, claimed_with=submit.tail.position)
            return
        previous = submit.previous
        is_met = previous == store.tail or store.point_at(previous.position) == previous
        if submit.incarnation != on.me.incarnation or not is_met:
            self.ask()
            return
        if submit.records and on.ports.lacks_space() and on.standing.own_entry is None:
            on.note("no_space")  # nobody waits for a learner, and it takes no more than it has room for (D5)
            return
        is_first, self.heard_at = self.heard_at is None, on.ports.clock.now()
        if is_first:
            self.on_first_heard()
        try:
            if is_new:
                self._accept_epoch(submit.tail.position)
            verified = self._take(submit)
        except Overloaded as full:
            # The member acknowledges nothing, so the primary sends these records again.
            on.note("log_full", why=str(full))
            return
        # Records that the primary held at its claim may be committed, although it does not know that yet.
        is_whole = verified >= max(submit.committed, submit.tail.position)
        store.when_durable(partial(self._acknowledge, submit.epoch, verified, is_whole))
        on.ports.flush()
        on.advance(min(submit.committed, verified))

    def is_fed_since(self, moment_ns: int | None) -> bool:
        """Whether the primary has sent something in this epoch, and after *moment_ns* if that is given."""
        return self.heard_at is not None and (moment_ns is None or self.heard_at > moment_ns)

    def ask(self) -> None:
        """Tell the primary what this member holds, so that it sends what is missing (S2, M3)."""
        on = self._on
        if self.primary is None or self.is_stopped:
            return
        if self._asked_at is not None and on.now - self._asked_at < on.config.ask_ns:
            return
        self._asked_at = on.now
        me = on.me
        points = on.store.points()
        on.send(self.primary, Hello(on.group, on.epoch, me.store, me.incarnation, me.opening, points))

    def _holds_more(self, submit: Submit) -> bool:
        """Whether following this claimant would lose records that may be committed (V5)."""
        on = self._on
        if submit.tail.position < on.committed:
            return True
        is_listed = on.standing.own_entry is not None
        return submit.is_unproven and is_listed and order_of(on.store.tail) > order_of(submit.tail)

    def _accept_epoch(self, tail: Position) -> None:
        """Follow the new epoch durably, and drop what lies beyond the tail that the primary claimed with."""
        store = self._on.store
        self._drop(store.boundary_below(min(tail, store.tail.position)).position)

    def _take(self, submit: Submit) -> Position:
        """Store those records that are new; returns the position up to which this log now equals the
        primary's."""
        store = self._on.store
        verified = submit.previous.position
        try:
            for encoded in submit.records:
                checksum, _, _, _, first, count, _, _ = HEADER.unpack_from(encoded)
                last = Position(first + count - 1)
                if first <= store.tail.position:
                    held = store.point_at(last)
                    if held is not None and held.checksum == checksum:
                        verified = last
                        continue
                    self._drop(Position(first - 1))
                store.append_received(encoded)
                verified = last
        except Conflict as wrong:
            self._on.note("not_continuing", why=str(wrong))
        return verified

    def _drop(self, after: Position) -> None:
        on = self._on
        invariant(after >= on.committed, "what is committed is never dropped")
        on.store.drop(after, on.epoch)

    def _acknowledge(self, epoch: Epoch, verified: Position, is_whole: bool) -> None:
        """Acknowledge, now that the log is durable up to *verified*, where it equals the primary's.
        *is_whole* says whether that includes everything that may have been committed."""
        on = self._on
        if epoch != on.epoch or self.primary is None or self.is_stopped:
            return
        if is_whole and (on.is_doubtful or not on.is_settled):
            on.settle()
        incarnation, beat = on.ports.leases.latest_beat(self.primary)
        on.confirm(self.primary, incarnation, epoch)
        me = on.me
        held = on.store.live_bytes()
        on.ports.network.send(
            self.primary,
            Accepted(
                *(on.group, epoch, me.store, me.incarnation, verified, beat, incarnation, held),
                on.ports.lacks_space(),
            ),
        )
