"""How a primary replicates records: order, send, count acknowledgements, commit (S1-S5, K1).

A position commits when every required member has acknowledged it, including this member's own sync, and at
least ``min_in_sync`` members are listed (S3). A new primary serves only after all of them have acknowledged,
in its own epoch, everything that it held at its claim (K1).

Records are sent at the end of the turn in which they were ordered; nothing waits for a batch to fill (S5). A
follower that is behind gets the same records from the log, one window at a time.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final

from holdfast.authority.views import ViewMember
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import Epoch, HostId, Incarnation, Position
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Accepted, Hello, Lacking, Submit
from holdfast.sequence.ports import same
from holdfast.sequence.progress import NOTHING, Progress, ProgressOfAll
from holdfast.sequence.role import WORDS_MAX, Rank
from holdfast.sequence.state_request import BELIEVED_TIMES
from holdfast.sequence.view_state import find
from holdfast.storage.record import ORIGIN

_told: Final = attrgetter("told")


class Submission:
    """One member's replication as primary. Idle except between :meth:`begin` and :meth:`end`."""

    def __init__(
        self, state: MemberState, on_serving: Callable[[], None], on_progress: Callable[[], None]
    ) -> None:
        self._on = state
        self._on_serving = on_serving
        self._on_progress = on_progress
        self.followers = ProgressOfAll(self.review)
        self.exact: tuple[Progress, ...] | None = None
        """The followers, if they and this member are exactly the required and wanted members; otherwise
        None. :meth:`review` keeps it, after every change of the view, of the record, of the change under
        way, and of who follows; each call asks for it nine times."""
        self.is_calm = False
        """Whether :attr:`exact` is there, and none of them is short of records or of space; kept likewise."""
        state.standing.on_change = self.review
        self.is_primary = False
        self.is_serving = False
        """Everything that this member held at its claim is committed."""
        self._term = 0
        self._claimed_tail = Position(0)
        self._epoch_tail = ORIGIN
        self._is_unproven = False
        self._own = NOTHING
        self._first_epoch = Epoch(0)
        self.has_ordered = False
        """Something was ordered since the last flush."""

    # --- becoming and ceasing to be primary

    def begin(self, *, is_unproven: bool) -> None:
        """Start as primary, after this member has won an epoch from another primary or from its own earlier
        process."""
        on = self._on
        self._term += 1
        self.is_primary, self.is_serving = True, False
        self._own = NOTHING
        self._first_epoch = on.epoch
        self._epoch_tail = on.store.tail
        self._claimed_tail = self._epoch_tail.position
        self._is_unproven = is_unproven
        self.followers.clear()
        self.meet_listed(self.surely_shared())
        self._watch_own()
        self._announce()
        on.ports.on_won(on.group)

    def go_on(self) -> None:
        """Continue as primary in the next epoch, after this member has changed the view."""
        self._epoch_tail = self._on.store.tail
        self.meet_listed()
        self._announce()
        self.maybe_commit()

    def end(self) -> None:
        self._term += 1
        self.is_primary = self.is_serving = False
        self.followers.clear()

    def surely_shared(self) -> Position | None:
        """What every listed member has, if it is close to the tail: what this member knows to be committed.
        A new primary sends what lies beyond unasked, because under load every backup got something else last
        of the primary that died. *Without it:* each of them must ask first, which takes a round trip more. A
        process that no primary has seen yet knows of little that is committed, and sends nothing unasked."""
        on = self._on
        shared = on.store.boundary_below(on.committed).position
        is_close = on.store.tail.position - shared <= on.config.window
        return shared if on.is_settled and is_close else None

    def meet_listed(self, shared: Position | None = None) -> None:
        """Follow the progress of every listed member whose progress is not known. *shared*: all of them have
        everything up to there."""
        on = self._on
        for member in on.standing.listed:
            is_known = self.followers.get(member) is not None
            if same(member, on.me) or is_known or self.followers.has_later(member.host, member.incarnation):
                continue
            # The follower likely has what we have; if not, it says what it has.
            tail = on.store.tail.position if shared is None else shared
            self.followers.add(Progress(member, next=tail, agreed=tail, heard_at=on.now, owing_since=on.now))

    def _announce(self) -> None:
        for follower in self.followers.all:
            self.send(follower, even_nothing=True)

    # --- ordering and sending

    def order(self, body: bytes, count: int) -> Position:
        """Give *body* the next *count* positions and return the last of them. An error changes nothing."""
        on = self._on
        tail = on.store.tail.position
        if len(body) > on.config.record_bytes_max:
            most = on.config.record_bytes_max
            raise InvalidRequest(f"group {on.group}: {len(body)} bytes in one record; at most {most} go")
        if tail + count - on.committed > on.config.uncommitted_max:
            raise Overloaded(f"group {on.group}: {tail - on.committed} positions are not committed yet")
        self.has_ordered = True
        return on.store.append(on.epoch, body, count)

    def flush(self) -> None:
        """Send and sync what was ordered in this turn."""
        self.has_ordered = False
        for follower in self.followers.all:
            self.send(follower)
        self._watch_own()

    def send(self, follower: Progress, *, even_nothing: bool = False) -> None:
        """Send the follower what it lacks, as far as its window allows; with *even_nothing*, at least one
        message."""
        on = self._on
        tail = on.store.tail
        records: tuple[bytes, ...] = ()
        while follower.next < tail.position or even_nothing:
            previous, last = tail, follower.next
            if last < tail.position:
                if (
                    last - max(follower.acknowledged, follower.agreed) >= on.config.window
                    or follower.in_flight_bytes >= on.config.window_bytes
                ):
                    return
                try:
                    lacked = on.store.lacked(last, on.config.batch_records_max, on.config.batch_bytes_max)
                except Overloaded:
                    # These records wait for a new file of our log; a sweep sends them later. A follower that
                    # is sent nothing is not blamed for its silence (M1).
                    follower.owing_since = on.now
                    return
                if lacked is None:
                    return  # our log no longer reaches back that far; the follower will say what it holds
                previous, records, last = lacked
            follower.sent_at = now = on.ports.clock.now()
            follower.told = on.committed
            if follower.owing_since is None:
                follower.owing_since = now
            message = Submit(
                *(on.group, on.epoch, follower.member.incarnation, previous, records),
                *(on.committed, self._epoch_tail, self._is_unproven),
            )
            on.ports.network.send(follower.member.host, message)
            if records:
                follower.next = last
                follower.sent(last, sum(map(len, records)))
            even_nothing = False

    # --- acknowledgements

    def on_accepted(self, host: HostId, accepted: Accepted) -> None:
        on = self._on
        follower = self.followers.by_id.get((host, accepted.store))
        if follower is None or accepted.incarnation != follower.member.incarnation:
            return  # from an earlier process; the present one must say itself what it holds (V5)
        if not self._first_epoch <= accepted.epoch <= on.epoch:
            return  # meant for another term
        follower.heard_at = now = on.ports.clock.now()
        beat = accepted.beat if accepted.beat_of == on.me.incarnation else 0
        follower.accepted(accepted.up_to, accepted.incarnation, accepted.epoch, beat)
        follower.log_bytes = accepted.log_bytes
        if accepted.log_bytes <= on.config.full_log_bytes:
            follower.full_since = None
        elif follower.full_since is None:
            follower.full_since = now
        if accepted.lacks_space is not follower.lacks_space:
            follower.lacks_space = accepted.lacks_space
            self.review()
        follower.next = max(follower.next, follower.acknowledged)
        tail = on.store.tail.position
        is_square = follower.acknowledged >= tail and accepted.epoch == on.epoch
        follower.owing_since = None if is_square else now
        if follower.next < tail:
            self.send(follower)
        self.maybe_commit()

    def on_hello(self, host: HostId, hello: Hello) -> Progress | None:
        """Find the point where the follower's log meets ours, and send from there; None when there is none
        (M3)."""
        on = self._on
        member = ViewMember(
            host=host, store=hello.store, incarnation=hello.incarnation, opening=hello.opening
        )
        known = self.followers.get(member)
        if self.followers.has_later(host, hello.incarnation, on.now - on.config.silence_ns):
            return known  # a late message; but a later process that stays silent may never have been (K7)
        self.followers.remove_earlier(member)
        shared = next((point for point in hello.points if on.store.point_at(point.position) == point), None)
        if known is None:
            known = Progress(member, next=Position(0), agreed=Position(0))
            self.followers.add(known)
        if known.member.incarnation != hello.incarnation:
            held = shared.position if shared is not None else NOTHING
            if held < known.acknowledged:
                known.is_short = True
                self.review()
                on.note("returned_with_less", host=host, held=held, acknowledged=known.acknowledged)
            known.acknowledged = NOTHING
            known.member = member
        known.heard_at = on.now
        if shared is None:
            return None
        known.next = known.agreed = shared.position
        known.resend_all()
        self.send(known, even_nothing=True)
        return known

    def on_confirmed(self, host: HostId, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        for follower in self.followers.of_host(host):
            if follower.member.incarnation == incarnation:
                follower.answered(incarnation, epoch, beat)

    def _watch_own(self) -> None:
        """Wait for our own sync, which counts like a backup's acknowledgement (S3)."""
        on = self._on
        if on.store.tail.position > self._own:
            on.store.when_durable(partial(self._own_durable, self._term, on.store.tail.position))
            on.ports.flush()

    def _own_durable(self, term: int, up_to: Position) -> None:
        if term == self._term:
            self._own = max(self._own, up_to)
            self.maybe_commit()
            self._on_progress()

    # --- commit

    def acknowledged_by(self, member: ViewMember) -> Position:
        if same(member, self._on.me):
            return self._own
        follower = self.followers.get(member)
        return follower.acknowledged if follower is not None else NOTHING

    def is_answering(self, member: ViewMember) -> bool:
        """Whether *member* is this one, or a follower that is alive, has acknowledged, and owes nothing for
        long."""
        on, follower = self._on, self.followers.get(member)
        if follower is None:
            return same(member, on.me)
        owes_long = follower.owing_since is not None and on.now - follower.owing_since > on.config.resend_ns
        is_whole = follower.acknowledged != NOTHING and not follower.is_short
        return is_whole and not owes_long and not on.is_dead(follower.member)

    def on_lacking(self, host: HostId, lacking: Lacking) -> bool:
        """Note whether a follower has its object (O3, E8); False if the follower is unknown."""
        on = self._on
        follower = self.followers.by_id.get((host, lacking.store))
        if follower is None or lacking.incarnation != follower.member.incarnation:
            return False
        until = on.now + BELIEVED_TIMES * on.config.lack_ns
        follower.set_rank(Rank(min(lacking.rank, Rank.UNFIT)), lacking.why[:WORDS_MAX], until)
        return True

    def rank_of(self, member: ViewMember) -> Rank:
        """How fit that member is to lead, as far as is known here."""
        if same(member, self._on.me):
            return self._on.application.fitness().rank
        follower = self.followers.get(member)
        return follower.rank_at(self._on.now) if follower is not None else Rank.NEAR

    def rank_on(self, host: HostId) -> Rank:
        """How fit the listed member on *host* is to lead, as far as is known here."""
        found = [self.rank_of(each) for each in self._on.standing.listed if each.host == host]
        return found[0] if found else Rank.NEAR

    def is_stopping(self, member: ViewMember) -> bool:
        """Whether the process that follows as that member has said that it is about to end (K5)."""
        follower = self.followers.get(member)
        return self._on.is_stopping(follower.member if follower is not None else member)

    def why_without(self, host: HostId) -> str:
        """Why the member on *host* must never lead; empty if nothing of the kind is known (E8)."""
        for each in self.followers.of_host(host):
            if each.rank_at(self._on.now) is Rank.UNFIT:
                return each.why_without or "it has no object"
        return ""

    @property
    def is_asked_for_state(self) -> bool:
        """Whether a follower has no object, and may be fetching our state (E8)."""
        for each in self.followers.all:
            if each.rank >= Rank.UNABLE and each.rank_at(self._on.now) >= Rank.UNABLE:
                return True
        return False

    @property
    def perhaps_committed(self) -> Position:
        """Positions up to here may be committed: by this primary or, until it serves, by an earlier one."""
        committed = self._on.committed
        return committed if self.is_serving else max(committed, self._claimed_tail)

    def maybe_commit(self) -> None:
        """Commit what every required member has acknowledged (S3)."""
        on = self._on
        if not self.is_primary or len(on.standing.listed) < on.config.min_in_sync:
            return
        if self.exact is not None:
            point = self._own
            for follower in self.exact:
                if follower.acknowledged < point:
                    point = follower.acknowledged
        else:
            point = min(self.acknowledged_by(member) for member in on.standing.required())
        if not self.is_serving and point >= self._claimed_tail:
            self.is_serving = True
            on.advance(point)
            self._on_serving()
        elif self.is_serving and point > on.committed:
            on.advance(point)

    def longest_log(self) -> int:
        """The bytes in the longest log among the required members, except this one and those that can do
        nothing about theirs (D4)."""
        followers = self.exact
        if followers is None:
            found = [self.followers.get(member) for member in self._on.standing.required()]
            followers = tuple([each for each in found if each is not None])
        longest = 0
        for follower in followers:
            if follower.log_bytes > longest and not (follower.full_since and self._is_stuck(follower)):
                longest = follower.log_bytes
        return longest

    def _is_stuck(self, follower: Progress) -> bool:
        """Whether the follower's log has been full for long, while ours is short and the group could do
        without it (M1). Nobody waits for it: once it takes no more records, it is dropped as any other that
        owes."""
        on, since = self._on, follower.full_since
        return (
            since is not None
            and on.now - since >= on.config.silence_ns
            and on.store.live_bytes() <= on.config.hold_bytes
            and len(on.standing.listed) > on.config.min_in_sync
        )

    def without_space(self) -> HostId | None:
        """The host of a required member that is short of disk space: nothing more is ordered (D5)."""
        on = self._on
        if on.ports.lacks_space():
            return on.me.host
        for follower in self.followers.all:
            if follower.lacks_space and find(tuple(on.standing.required()), follower.member) is not None:
                return follower.member.host
        return None

    def has_space(self, member: ViewMember) -> bool:
        """Whether the member's host has disk space, as it last said (D5)."""
        follower = self.followers.get(member)
        return follower is None or not follower.lacks_space

    def log_bytes_of(self, member: ViewMember) -> int:
        """What the member's log holds, as it last said (D4); 0 while it has said nothing."""
        follower = self.followers.get(member)
        return follower.log_bytes if follower is not None else 0

    def is_steady(self) -> bool:
        """Whether the view can only need a change because somebody falls silent or behind: every listed
        member should be one, follows and lives, nobody else follows, and no change is under way."""
        followers, on = self.exact, self._on
        if followers is None:
            return False
        if not self.is_calm:
            return False
        return not on.ports.leases.proven_dead.is_any or not any(
            on.is_dead(each.member) for each in followers
        )

    def review(self) -> None:
        """Find out whether the followers are exactly those that are required and wanted."""
        standing, followers = self._on.standing, self.followers
        others = [followers.get(each) for each in standing.listed if not same(each, self._on.me)]
        found = [each for each in others if each is not None]
        is_changing = standing.pending is not None or standing.joining is not None
        is_whole = len(found) == len(others) == len(followers.all) == len(standing.listed) - 1
        self.exact = tuple(found) if is_whole and not is_changing and standing.is_as_wanted else None
        self.is_calm = self.exact is not None and not any(
            each.is_short or each.lacks_space for each in self.exact
        )

    # --- the sweep

    def sweep(self) -> None:
        """Resend what was lost, and announce commits that no records have carried."""
        on = self._on
        now = on.now
        for follower in self.followers.all:
            waited = now - follower.sent_at
            if follower.owing_since is not None and waited >= on.config.resend_ns:
                is_known = follower.acknowledged != NOTHING
                follower.next = follower.acknowledged if is_known else follower.agreed
                follower.resend_all()
                self.send(follower, even_nothing=True)
            elif follower.told < on.committed and waited >= on.config.notify_ns:
                self.send(follower, even_nothing=True)
            elif follower.lacks_space and waited >= on.config.resend_ns:
                self.send(follower, even_nothing=True)  # it says when it has space again (D5)

    def has_news(self) -> bool:
        """Whether a follower has not been told of a commit yet."""
        committed = self._on.committed
        return min(map(_told, self.followers.all), default=committed) < committed

    def is_owed(self, since_ns: int = 0) -> bool:
        """Whether a follower has owed an acknowledgement for at least that long."""
        now = self._on.ports.clock.now()
        for each in self.followers.all:
            if each.owing_since is not None and now - each.owing_since >= since_ns:
                return True
        return False
