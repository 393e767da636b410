"""Who lives on a host, and how members come and go: taken in, given up, begun anew, forgotten.

A member ends only between two events, never within one of its own: what it holds of the log must be there
until then.
"""

from collections.abc import Callable
from functools import partial

from holdfast.authority.groups import GroupRecord
from holdfast.authority.outcome import Seen
from holdfast.housing.directory import GroupDirectory
from holdfast.housing.grounds import Grounds
from holdfast.housing.housed import Housed
from holdfast.housing.memory import Soon
from holdfast.housing.ports import Journal
from holdfast.housing.suspects import Suspects
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import GroupId, HostId, Incarnation
from holdfast.sequence.role import Role


class Lodging:
    """The members in *housed*. *furnish* makes one, *on_given_up* is told of each that has ended, *on_halted*
    of one that stopped though its group exists, *on_record* of one that may be taken in again."""

    def __init__(
        self,
        housed: dict[GroupId, Housed],
        directory: GroupDirectory,
        grounds: Grounds,
        suspects: Suspects,
        journal: Journal,
        soon: Soon,
        *,
        furnish: Callable[[GroupRecord], Housed],
        on_given_up: Callable[[Housed], None],
        on_halted: Callable[[GroupId, str], None],
        on_record: Callable[[Seen[GroupRecord]], None],
    ) -> None:
        self._housed = housed
        self._directory = directory
        self._grounds = grounds
        self._suspects = suspects
        self._journal = journal
        self._soon = soon
        self._furnish = furnish
        self._on_given_up = on_given_up
        self._on_halted = on_halted
        self._on_record = on_record
        self._deaths: dict[HostId, Incarnation] = {}
        self._gone: dict[GroupId, None] = {}
        """Groups that were removed, and whose members have not ended yet."""
        self._ended: dict[GroupId, None] = {}
        """Groups of which a member has ended here, in this process, that still exist."""

    # --- coming

    def take_in(self, seen: Seen[GroupRecord]) -> None:
        """Let a member of that group live here, unless its class or its state cannot be had."""
        record = seen.value
        try:
            housed = self._furnish(record)
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            self._journal.error(
                "a group cannot be housed", group=record.group, name=record.name, why=str(error)
            )
            return
        self._housed[record.group] = housed
        for host, incarnation in self._deaths.items():
            housed.member.on_death(host, incarnation)
        housed.member.on_record(seen)
        self.start(housed)
        self._journal.info("a group is housed", group=record.group, name=record.name, style=record.style)

    def start(self, housed: Housed) -> None:
        """Let it begin from the view that was listed or watched, as soon as there is one: it comes with the
        record. One that takes another's place asks: what is known here may be older than what ended that."""
        seen = self._directory.views.get(housed.group)
        if housed.group in self._ended:
            housed.member.start()
        elif seen is not None:
            housed.member.start(seen)

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """Those who come later are told as well (K2)."""
        self._deaths[host] = max(incarnation, self._deaths.get(host, incarnation))

    # --- going

    def on_gone(self, housed: Housed, *, is_removed: bool) -> None:
        """The group is no more: its member ends. What it held stays until the authority says in so many words
        that it may go (:mod:`.forgetting`)."""
        self._journal.info("a group is gone", group=housed.group, is_removed=is_removed)
        if is_removed:
            self._gone[housed.group] = None
        if housed.member.role is Role.HALTED:
            self._soon(partial(self._give_up, housed.group))
        else:
            housed.member.start()  # it finds that there is no such group any more, and halts

    def on_halted(self, group: GroupId, why: str) -> None:
        if group in self._gone:
            self._soon(partial(self._give_up, group))
        else:
            self._on_halted(group, why)

    def on_superseded(self, group: GroupId) -> None:
        """Its state here is of a history that was given up: another member takes its place, with nothing."""
        self._journal.error("a member begins anew after a forced recovery", group=group)
        self._soon(partial(self._begin_anew, group))

    def leave(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """The group leaves this host (M6): its member ends, and what it held is forgotten; *then* is called
        when that is durable."""
        self._journal.info("a group leaves", group=record.group, name=record.name)
        self._forget(record, then)

    def end(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """The same for a group that is no more anywhere."""
        self._forget(record, then)
        self._ended.pop(record.group, None)

    def _forget(self, record: GroupRecord, then: Callable[[], None]) -> None:
        housed = self._housed.get(record.group)
        if housed is not None:
            housed.member.leave()
        self._give_up(record.group)
        self._suspects.forget(record.group)
        self._grounds.of(record).keeping.forget(record.group, then)

    def _give_up(self, group: GroupId) -> None:
        housed = self._housed.pop(group, None)
        if housed is None:
            return
        housed.close()
        self._on_given_up(housed)
        self._ended[group] = None
        if group in self._gone:
            del self._gone[group], self._ended[group]

    def _begin_anew(self, group: GroupId) -> None:
        if group in self._gone:
            return  # it was removed altogether meanwhile
        housed = self._housed.get(group)
        self._give_up(group)
        if housed is not None:
            housed.ground.keeping.forget(group, partial(self._take_in_again, group))

    def _take_in_again(self, group: GroupId) -> None:
        seen = self._directory.seen_records.get(group)
        if seen is not None:
            self._on_record(seen)
