"""What a member knows of its group's view, and of the change under way (V1, M1, M2, M5, W3).

This module only computes; it sends nothing. *Required* are all members that may claim after any answer that
the authority may still give: the listed ones and, while a change is unanswered, those that it would list.
Nothing commits, and no read under a lease is answered, without them (S3, R1).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewChange, ViewMember
from holdfast.model.ids import Epoch, HostId, Incarnation, StoreId
from holdfast.sequence.ports import Me, same

_MEMORY: Final = "memory-"


def _tell_nobody() -> None:
    return


@dataclass(slots=True)
class ViewState:
    """One member's knowledge of its group's view."""

    me: Me
    seen: Seen[View] | None = None
    """The newest view known; a compare-and-set is made against it."""
    record: Seen[GroupRecord] | None = None
    """The group's record, which says where it should have members; None when unknown, and then any member is
    allowed."""
    is_barred: bool = False
    """By the record, this member never leads (W3). Kept beside the record, because calls look at it."""
    listed: tuple[ViewMember, ...] = field(default=(), init=False)
    """The members of the newest view; kept beside it, because each call asks for them nine times."""
    on_change: Callable[[], None] = field(default=_tell_nobody, init=False)
    """Called after every change of what is known here. The primary keeps beside it who exactly follows."""
    _pending: ViewChange | None = field(default=None, init=False)
    _joining: ViewMember | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.seen is not None:
            self.learn(self.seen)

    @property
    def pending(self) -> ViewChange | None:
        """The change that was requested and is not definitely answered: claim, drop or add. One at a time."""
        return self._pending

    @pending.setter
    def pending(self, change: ViewChange | None) -> None:
        self._pending = change
        self.on_change()

    @property
    def joining(self) -> ViewMember | None:
        """A learner that is about to be added: it is already required, although not requested yet (M2)."""
        return self._joining

    @joining.setter
    def joining(self, learner: ViewMember | None) -> None:
        self._joining = learner
        self.on_change()

    @property
    def view(self) -> View | None:
        return self.seen.value if self.seen is not None else None

    @property
    def epoch(self) -> Epoch:
        return self.seen.value.epoch if self.seen is not None else Epoch(0)

    @property
    def own_entry(self) -> ViewMember | None:
        """This member's entry in the view; None when it is not listed."""
        return find(self.listed, self.me)

    @property
    def primary(self) -> ViewMember | None:
        """The primary's entry; its incarnation is that of the process that won this epoch."""
        view = self.view
        if view is None:
            return None
        return next((member for member in view.members if member.host == view.primary), None)

    def is_wanted(self, member: ViewMember) -> bool:
        """Whether *member* should be a member, as far as is known (M5)."""
        return self.record is None or self.record.value.wants(member)

    def may_lead(self, host: HostId) -> bool:
        """Whether the member on *host* may become primary, as far as is known (W3)."""
        return self.record is None or self.record.value.may_lead(host)

    @property
    def is_as_wanted(self) -> bool:
        """Whether all listed members should be members, and this one may be primary."""
        return self.record is None or (not self.is_barred and all(map(self.record.value.wants, self.listed)))

    def required(self) -> list[ViewMember]:
        """The members that must acknowledge and hold leases, including this one if it is listed."""
        members = list(self.listed)
        extra = list(self._pending.new.members) if self._pending is not None else []
        if self._joining is not None:
            extra.append(self._joining)
        members += [member for member in extra if find(tuple(members), member) is None]
        return members

    def learn(self, seen: Seen[View]) -> None:
        self.seen, self.listed = seen, seen.value.members
        self.on_change()

    def learn_record(self, seen: Seen[GroupRecord]) -> bool:
        """Take in the record, and return True, if it is newer than the one known."""
        if self.record is not None and self.record.modified >= seen.modified:
            return False
        self.record = seen
        self.is_barred = not seen.value.may_lead(self.me.host)
        self.on_change()
        return True


def memory_store(host: HostId, incarnation: Incarnation) -> StoreId:
    """The store id of a member in memory, which names its process; a restarted one is never the listed one
    (V4)."""
    return StoreId(f"{_MEMORY}{host}-{incarnation}")


def is_volatile(store: StoreId) -> bool:
    """Whether that store is only the memory of a process (V4)."""
    return store.startswith(_MEMORY)


def find(members: tuple[ViewMember, ...], member: ViewMember) -> ViewMember | None:
    return next((each for each in members if same(each, member)), None)


def without(members: tuple[ViewMember, ...], host: HostId) -> tuple[ViewMember, ...]:
    return tuple(member for member in members if member.host != host)


def with_me(members: tuple[ViewMember, ...], me: Me) -> tuple[ViewMember, ...]:
    """The members, with this member's entry updated to its present process (V1)."""
    return tuple(me if same(member, me) else member for member in members)


def members_after_claim(view: View, me: Me, *, min_in_sync: int, is_released: bool) -> tuple[ViewMember, ...]:
    """The members listed after *me* has claimed. The old primary is removed, unless that would leave fewer
    than ``min_in_sync`` (M1), or it has handed over, or it was this member itself before a restart."""
    members = with_me(view.members, me)
    remaining = without(members, view.primary)
    if is_released or view.primary == me.host or len(remaining) < min_in_sync:
        return members
    return remaining
