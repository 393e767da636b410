"""Changing the members, as primary: drop the silent, let in who has caught up (M1, M2, M4-M6, V5).

One change at a time, from exactly the view last won, asked again with the same nonce until the authority has
definitely answered: a change in doubt is never given up by reading (M2). From before a learner is asked for
until then it is required, in commits and in leases. The request leaves only once it has acknowledged
everything that may be committed by then: what this primary has committed, and all it held at its claim.
*Without that* (being a window behind suffices): A* {A} has committed up to 100, learner C holds 95; A asks
for {A, C}; it is applied; A burns; C claims without 96 to 100.
*Or* (what this primary knows to be committed suffices): A* {A,B} has committed up to 24; both are restarted;
A claims, and knows of nothing committed; learner C holds 5; A adds C, drops B, which is late, and burns; C
claims without 6 to 24.

A learner that is required and stops acknowledging is not, any more: it may answer and yet take nothing.
*Without that:* A* {A,B} is about to add C, whose log is full; C asks again and again, acknowledges nothing,
and nothing commits.

Who was dropped because calls waited for it stays away for a while, longer each time it comes back only to be
waited for again (M4); not who died or lost what it had, for whom nobody waits. And a group that cannot go on
without it takes it at once: a slow member is better than none.
*Without that:* A* {A,B,C} has dropped B, which is to stay away for a minute; C burns, and may not be dropped
(M1); B is back and has everything, and nothing commits for a minute.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.authority.views import ViewChange, ViewMember, Why
from holdfast.model.ids import HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.ports import same
from holdfast.sequence.progress import NOTHING, Progress
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_state import find, without

DOUBLINGS_MAX: Final = 5
"""How often the time for which a member stays away is doubled."""


@dataclass(slots=True)
class _Absence:
    """A host that was dropped because calls waited for it: when it may be listed again (M4)."""

    wait_ns: int
    until: int
    back_at: int | None = None
    """When it was let in again; None before."""

    def again(self, now: int, return_ns: int) -> "_Absence":
        """It was dropped once more: forgiven if it had stayed for as long as anybody is ever kept away."""
        longest_ns = return_ns << DOUBLINGS_MAX
        is_forgiven = self.back_at is not None and now - self.back_at > longest_ns
        wait_ns = return_ns if is_forgiven else min(2 * self.wait_ns, longest_ns)
        return _Absence(wait_ns, now + wait_ns)


class Membership:
    """Decides which change to ask for; *ask* asks, and :attr:`Standing.pending` holds it until answered."""

    def __init__(
        self, footing: MemberState, submission: Submission, ask: Callable[[ViewChange], None]
    ) -> None:
        self._on = footing
        self._submission = submission
        self._ask = ask
        self._absent: dict[HostId, _Absence] = {}

    def sweep(self) -> None:
        """Ask for the change that is most wanted, if any."""
        on = self._on
        if on.standing.pending is not None or on.standing.seen is None:
            return
        if on.standing.joining is not None:
            self._go_on_joining(on.standing.joining)
            return
        gone, awaited = self._gone(), self._awaited()
        leaving = gone or awaited
        if leaving is not None and self._may_spare_one():
            if gone is None:
                self._keep_away(leaving.host)
            self._drop(leaving, self._why_gone(leaving) if gone is not None else "calls waited for it")
            return
        candidate = self._candidate(is_urgent=leaving is not None)
        if candidate is not None:
            on.standing.joining = candidate.member
            self._go_on_joining(candidate.member)
            return
        spared = self._spared()
        if spared is not None:
            self._drop(spared)

    def forget_useless_learners(self) -> None:
        """Who is not required and answers nothing, or shall be no member, is forgotten; it says hello when it
        is back."""
        on = self._on
        required = tuple(on.standing.required())
        for follower in self._submission.followers.all():
            is_silent = on.now - follower.heard_at > on.config.silence_ns
            is_useless = is_silent or not on.standing.is_wanted(follower.member)
            if is_useless and find(required, follower.member) is None:
                self._submission.followers.remove(follower)

    def end(self) -> None:
        """No longer primary: what was asked stays asked, and whoever is primary now decides."""
        self._on.standing.joining = None
        self._absent.clear()

    # --- dropping

    def _may_spare_one(self) -> bool:
        """Whether enough stay listed without it (M1)."""
        return len(self._on.standing.listed) > self._on.config.min_in_sync

    def _gone(self) -> ViewMember | None:
        """A listed member that is dead (K2), or has lost what it had (V5)."""
        for member, follower in self._others():
            if follower is None or follower.is_short or self._on.is_dead(follower.member):
                return member
        return None

    def _why_gone(self, member: ViewMember) -> str:
        """For people: most who are dropped were started anew on purpose."""
        follower = self._submission.followers.get(member)
        if follower is None:
            return "nothing is heard of it"
        return "it is back with less than it had" if follower.is_short else "its process has ended"

    def _awaited(self) -> ViewMember | None:
        """The listed member for which calls have waited too long: the longest silent, or one that lags."""
        on = self._on
        overdue: list[tuple[int, ViewMember]] = []
        for member, follower in self._others():
            if follower is None:
                continue
            if follower.owing_since is not None and self._owes_long(follower):
                overdue.append((follower.owing_since, member))
            elif self._lags(follower):
                overdue.append((on.now, member))
        return min(overdue, key=lambda each: each[0])[1] if overdue else None

    def _owes_long(self, follower: Progress) -> bool:
        """Whether calls have waited for it for too long."""
        on, since = self._on, follower.owing_since
        if since is None:
            return False
        # What it sent while this host slept is not read yet.
        return on.now - max(since, on.ports.leases.awake_since()) >= on.config.silence_ns

    def _spared(self) -> ViewMember | None:
        """One that shall be no member any more (M6), if enough others answer without it: *else* the group
        would be left with a silent one that it may not drop (M1)."""
        on = self._on
        for member, _ in self._others():
            if not on.standing.is_wanted(member):
                others = (each for each in on.standing.listed if not same(each, member))
                answering = sum(map(self._submission.is_answering, others))
                return member if answering >= on.config.min_in_sync else None
        return None

    def _others(self) -> Iterator[tuple[ViewMember, Progress | None]]:
        """The listed members but this one."""
        for member in self._on.standing.listed:
            if not same(member, self._on.me):
                yield member, self._submission.followers.get(member)

    def _lags(self, follower: Progress) -> bool:
        """Whether it holds up its peers (M4). Of one that has said nothing in this reign yet nothing is known
        but its silence: a new primary would else drop whoever answers second."""
        if follower.acknowledged == NOTHING:
            return False
        others = [
            self._submission.acknowledged_by(member)
            for member in self._on.standing.listed
            if not same(member, follower.member)
        ]
        return bool(others) and min(others) - follower.acknowledged > self._on.config.lag_limit

    def _keep_away(self, host: HostId) -> None:
        """For a while it is not listed again, if the group can do without."""
        now, return_ns = self._on.now, self._on.config.return_ns
        known = self._absent.get(host)
        fresh = _Absence(return_ns, now + return_ns)
        self._absent[host] = known.again(now, return_ns) if known is not None else fresh

    def _drop(self, member: ViewMember, text: str = "") -> None:
        on = self._on
        on.note("drop", host=member.host, store=member.store)
        members = tuple(each for each in on.standing.listed if not same(each, member))
        if on.standing.is_wanted(member):
            self._change(members, Why.DROPPED, member, text)
        else:
            self._change(members, Why.REMOVED, member)

    # --- adding

    def _candidate(self, *, is_urgent: bool) -> Progress | None:
        on = self._on
        for follower in self._submission.followers.all():
            absence = self._absent.get(follower.member.host)
            is_welcome = is_urgent or absence is None or on.now >= absence.until
            is_listed = find(on.standing.listed, follower.member) is not None
            if is_welcome and not is_listed and self._may_join(follower):
                return follower
        return None

    def _may_join(self, follower: Progress) -> bool:
        """It shall be a member (M5), answers, and is within a window of the tail."""
        on = self._on
        return (
            on.standing.is_wanted(follower.member)
            and follower.acknowledged != NOTHING
            and not on.is_dead(follower.member)
            and on.store.tail.position - follower.acknowledged <= on.config.window
            and on.now - follower.heard_at < on.config.silence_ns
        )

    def _go_on_joining(self, member: ViewMember) -> None:
        on = self._on
        follower = self._submission.followers.get(member)
        if follower is None or follower.member != member or not self._may_join(follower):
            self._give_up_joining()
        elif follower.acknowledged >= self._submission.perhaps_committed:
            # An older store of the same host is gone for good: its place is taken (V5).
            follower.is_short = False  # it was dropped for what it lacked, and has it again
            absence = self._absent.get(member.host)
            if absence is not None:
                absence.back_at = on.now
            on.note("add", host=member.host, store=member.store)
            self._change((*without(on.standing.listed, member.host), member), Why.ADDED, member)
        elif self._owes_long(follower):
            self._keep_away(member.host)
            self._give_up_joining()

    def _give_up_joining(self) -> None:
        """Nothing was asked yet, so it may be."""
        self._on.standing.joining = None
        self._submission.maybe_commit()

    # --- asking

    def _change(self, members: tuple[ViewMember, ...], why: Why, whom: ViewMember, text: str = "") -> None:
        on = self._on
        on.standing.joining = None
        # Whoever leaves forgets once it is not listed: it must not come to be by an older record (M5).
        record = on.standing.record if why is Why.ADDED else None
        given = record.unchanged() if record is not None else None
        self._ask(on.wish(members, why, whom.host, given=given, text=text))
