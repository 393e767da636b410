"""How a primary changes the list of members: drop silent ones, add those that caught up (M1, M2, M4-M6, V5).

The primary makes one change at a time, from exactly the view it last won. It repeats the request with the
same nonce until the authority has answered definitely; reading a view never settles a change in doubt (M2). A
learner that is to be added becomes required, for commits and leases, before the request is sent, and stays so
until the answer. The request is sent only once the learner has acknowledged everything that may be committed
by then: what this primary has committed, and all that it held at its claim.
*Without it* (being within a window is enough): A* {A} has committed up to 100, learner C holds 95; A asks for
{A, C}; it is applied; A burns; C claims without 96 to 100.
*Or* (what this primary knows to be committed is enough): A* {A,B} has committed up to 24; both are restarted;
A claims, and knows of nothing committed; learner C holds 5; A adds C, drops B, which is late, and burns; C
claims without 6 to 24.

A required learner that stops acknowledging is no longer required, since it may answer and yet accept nothing.
*Without it:* A* {A,B} is about to add C, whose log is full; C asks again and again, acknowledges nothing, and
nothing commits.

A member that was dropped because calls waited for it stays unlisted for a while, and longer each time that
happens again (M4). This does not apply to a member that died or lost its data, since calls do not wait for
such a member. A group that cannot commit without the member takes it at once: a slow member is better than
none.
*Without it:* A* {A,B,C} has dropped B, which is to stay away for a minute; C burns, and may not be dropped
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
"""How often the time for which a dropped member stays unlisted is doubled at most."""


@dataclass(slots=True)
class _Absence:
    """A host that was dropped because calls waited for it, and when it may be listed again (M4)."""

    wait_ns: int
    until: int
    back_at: int | None = None
    """When the host was listed again; None before that."""

    def again(self, now: int, return_ns: int) -> "_Absence":
        """The absence after another drop. The wait starts over if the host had stayed listed for longer than
        the longest absence."""
        longest_ns = return_ns << DOUBLINGS_MAX
        is_forgiven = self.back_at is not None and now - self.back_at > longest_ns
        wait_ns = return_ns if is_forgiven else min(2 * self.wait_ns, longest_ns)
        return _Absence(wait_ns, now + wait_ns)


class Membership:
    """Decides which view change to ask for. *ask* sends it, and :attr:`.view_state.ViewState.pending` holds
    it until the answer."""

    def __init__(self, state: MemberState, submission: Submission, ask: Callable[[ViewChange], None]) -> None:
        self._on = state
        self._submission = submission
        self._ask = ask
        self._absent: dict[HostId, _Absence] = {}

    def sweep(self) -> None:
        """Ask for the most urgent change, if there is one."""
        on = self._on
        if on.standing.pending is not None or on.standing.seen is None:
            return
        if on.standing.joining is not None:
            self._go_on_joining(on.standing.joining)
            return
        if self._is_all_well():
            return
        gone, overdue = self._gone(), self._overdue()
        leaving = gone or overdue or self._departing() or self._without_space()
        if leaving is not None and self._may_spare_one():
            if gone is None and overdue is not None:
                self._keep_away(leaving.host)
            self._drop(leaving, self._why_dropped(leaving, gone, overdue))
            return
        candidate = self._candidate(is_urgent=leaving is not None)
        if candidate is not None:
            on.standing.joining = candidate.member
            self._go_on_joining(candidate.member)
            return
        to_remove = self._to_remove()
        if to_remove is not None:
            self._drop(to_remove)

    def _is_all_well(self) -> bool:
        """Whether no change can be due, seen at a glance: nobody leaves, all follow, live and have space, and
        nobody has owed anything for long or is far behind the tail. While calls are made, fifty sweeps a
        second find nothing else, and the whole examination takes 110 Python calls."""
        on = self._on
        if on.leaving or not self._submission.is_steady():
            return False
        tail, now = on.store.tail.position, on.now
        for each in self._submission.followers.all:
            if tail - each.acknowledged > on.config.lag_limit:
                return False
            if each.owing_since is not None and now - each.owing_since >= on.config.silence_ns:
                return False
        return True

    def forget_useless_learners(self) -> None:
        """Forget followers that are not required and either are silent or should not be members. They say
        hello when they are back."""
        on = self._on
        if self._submission.exact is not None:
            return  # all who follow are listed, and all listed follow
        required = tuple(on.standing.required())
        for follower in self._submission.followers.all:
            is_silent = on.now - follower.heard_at > on.config.silence_ns
            is_useless = is_silent or not on.standing.is_wanted(follower.member)
            if is_useless and find(required, follower.member) is None:
                self._submission.followers.remove(follower)
        # Somebody may have spoken in the name of a listed member, which is then unknown until now (K7).
        self._submission.meet_listed()

    def end(self) -> None:
        """End this primary's work on the members. A change that was requested stays requested; the next
        primary decides about it."""
        self._on.standing.joining = None
        self._absent.clear()

    # --- dropping

    def _may_spare_one(self) -> bool:
        """Whether enough members stay listed after one is dropped (M1)."""
        return len(self._on.standing.listed) > self._on.config.min_in_sync

    def _gone(self) -> ViewMember | None:
        """A listed member that is dead (K2) or has lost what it had (V5)."""
        for member, follower in self._others():
            if follower is None or follower.is_short or self._on.is_dead(follower.member):
                return member
        return None

    def _departing(self) -> ViewMember | None:
        """A listed member whose process asked to be dropped, because it is about to end (K5), if enough
        others answer without it. A primary that is about to end itself drops nobody. *Otherwise* a domain
        that stops as a whole would leave each group with one member in sync, and the group waits for that one
        when the domain is started again."""
        on = self._on
        if on.leaving and not on.is_stopping(on.me):
            for member, follower in self._others():
                is_leaving = follower is not None and on.is_leaving(follower.member)
                if is_leaving and self._is_enough_without(member):
                    return member
        return None

    def _without_space(self) -> ViewMember | None:
        """A listed member whose host is short of disk space, so that nothing more can be ordered (D5), if
        enough others answer without it."""
        for member, follower in self._others():
            if follower is not None and follower.lacks_space and self._is_enough_without(member):
                return member
        return None

    def _why_dropped(self, member: ViewMember, gone: ViewMember | None, overdue: ViewMember | None) -> str:
        """Why that member is dropped, for people."""
        if member is gone:
            return self._why_gone(member)
        if member is overdue:
            return "calls waited for it"
        is_departing = member is self._departing()
        return "its host is being stopped" if is_departing else "its host is short of disk space"

    def _why_gone(self, member: ViewMember) -> str:
        """Why that member is dropped, for people: most dropped members were restarted on purpose."""
        follower = self._submission.followers.get(member)
        if follower is None:
            return "nothing is heard of it"
        return "it is back with less than it had" if follower.is_short else "its process has ended"

    def _overdue(self) -> ViewMember | None:
        """The listed member for which calls have waited too long: the one silent for longest, or one that
        lags."""
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
        """Whether calls have waited too long for this follower."""
        on, since = self._on, follower.owing_since
        if since is None:
            return False
        # What the follower sent while this host was paused has not been read yet.
        return on.now - max(since, on.ports.leases.awake_since()) >= on.config.silence_ns

    def _to_remove(self) -> ViewMember | None:
        """A listed member that should no longer be one (M6), if enough others answer without it. *Otherwise*
        the group might be left with a silent member that it may not drop (M1)."""
        on = self._on
        for member, _ in self._others():
            if not on.standing.is_wanted(member):
                return member if self._is_enough_without(member) else None
        return None

    def _is_enough_without(self, member: ViewMember) -> bool:
        others = (each for each in self._on.standing.listed if not same(each, member))
        return sum(map(self._submission.is_answering, others)) >= self._on.config.min_in_sync

    def _others(self) -> Iterator[tuple[ViewMember, Progress | None]]:
        """The listed members other than this one, with their progress."""
        for member in self._on.standing.listed:
            if not same(member, self._on.me):
                yield member, self._submission.followers.get(member)

    def _lags(self, follower: Progress) -> bool:
        """Whether this follower holds up its peers (M4). If it has acknowledged nothing to this primary yet,
        only its silence is known; otherwise a new primary would drop whichever member answers second."""
        if follower.acknowledged == NOTHING:
            return False
        others = [
            self._submission.acknowledged_by(member)
            for member in self._on.standing.listed
            if not same(member, follower.member)
        ]
        return bool(others) and min(others) - follower.acknowledged > self._on.config.lag_limit

    def _keep_away(self, host: HostId) -> None:
        """Keep that host unlisted for a while, if the group can do without it."""
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
        for follower in self._submission.followers.all:
            absence = self._absent.get(follower.member.host)
            is_due = (absence is None or on.now >= absence.until) and not follower.lacks_space
            is_welcome = is_urgent or is_due
            is_listed = find(on.standing.listed, follower.member) is not None
            if is_welcome and not is_listed and self._may_join(follower):
                return follower
        return None

    def _may_join(self, follower: Progress) -> bool:
        """Whether this follower should be a member (M5), answers, and is within a window of the tail."""
        on = self._on
        return (
            on.standing.is_wanted(follower.member)
            and follower.acknowledged != NOTHING
            and not on.is_dead(follower.member)
            and not on.is_leaving(follower.member)
            and on.store.tail.position - follower.acknowledged <= on.config.window
            and on.now - follower.heard_at < on.config.silence_ns
        )

    def _go_on_joining(self, member: ViewMember) -> None:
        on = self._on
        follower = self._submission.followers.get(member)
        if follower is None or follower.member != member or not self._may_join(follower):
            self._give_up_joining()
        elif follower.acknowledged >= self._submission.perhaps_committed:
            # The new store replaces an older store of the same host, which is gone for good (V5).
            follower.is_short = False  # it was dropped for what it lacked, and has it again
            self._submission.review()
            absence = self._absent.get(member.host)
            if absence is not None:
                absence.back_at = on.now
            on.note("add", host=member.host, store=member.store)
            self._change((*without(on.standing.listed, member.host), member), Why.ADDED, member)
        elif self._owes_long(follower):
            self._keep_away(member.host)
            self._give_up_joining()

    def _give_up_joining(self) -> None:
        """Stop adding the learner, which is possible because the change has not been requested yet."""
        self._on.standing.joining = None
        self._submission.maybe_commit()

    # --- requesting

    def _change(self, members: tuple[ViewMember, ...], why: Why, whom: ViewMember, text: str = "") -> None:
        on = self._on
        on.standing.joining = None
        # A member that leaves forgets its data once it is not listed. An older record must not list it again
        # (M5).
        record = on.standing.record if why is Why.ADDED else None
        given = record.unchanged() if record is not None else None
        self._ask(on.propose(members, why, whom.host, given=given, text=text))
