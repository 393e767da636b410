"""The history of a group: its latest views, why each replaced the one before, and how long that took.

The history is for people. A view carries its own cause, so that nothing else needs to be written when time is
short. The primary later copies the views it has seen into the history, each with its measurements. When no
surviving primary had seen a view, the history lacks it, and the gap in the epochs shows that.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import ATTEMPTS_MAX, Contended, InDoubt, Recipe, answering, change, put, read
from holdfast.authority.views import Cause, NoGroup, View
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce

CHAPTERS_MAX: Final = 64
"""The most views kept for one group: about 15 kB."""
GIVEN_UP_MAX: Final = 16
"""The most abandoned calls kept for one group."""
CODE_CHANGES_MAX: Final = 32
"""The most code changes kept for one group."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of a claim's steps in nanoseconds, measured by the claimant from its reason to claim."""

    claimed_ns: int
    """Until the authority answered."""
    committed_ns: int | None = None
    """Until everything the claimant held was committed in the new epoch (K1)."""
    ready_ns: int | None = None
    """Until the object was ready and calls were accepted."""
    replayed: int = 0
    """How many operations had to be executed before the object was ready."""
    silent_ns: int | None = None
    """How long before that reason the claimant had last heard from the old primary's host."""


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """One view of the group's history."""

    epoch: Epoch
    primary: HostId
    in_sync: tuple[HostId, ...]
    cause: Cause
    steps: Steps | None = None

    @classmethod
    def of(cls, view: View, steps: Steps | None = None) -> "Chapter":
        in_sync = tuple(member.host for member in view.members)
        return cls(epoch=view.epoch, primary=view.primary, in_sync=in_sync, cause=view.cause, steps=steps)


class GivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """A call that ended too many processes and is not tried again (E4)."""

    request: str
    call: str
    """The method and its arguments, in words."""
    attempts: int
    """How many processes the call ended."""
    at_ns: int = 0
    """The wall clock of the member that abandoned the call."""


class Unkept(msgspec.Struct, frozen=True, kw_only=True):
    """A member whose last checkpoint failed: its state could not be captured or read back (E9)."""

    host: HostId
    why: str
    """The reason; empty when the checkpoint was made."""
    at_ns: int = 0
    """The wall clock of the member's host."""
    incarnation: Incarnation = Incarnation(0)
    """The incarnation of the process; the host's next process may not have tried a checkpoint yet."""


class CodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The group changed to other code (E7)."""

    from_code: str
    to_code: str
    position: int
    at_ns: int = 0
    """The wall clock of the member that first served with the new code."""


class History(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    """The latest views of a group, and the latest calls it abandoned, oldest first."""

    group: GroupId
    chapters: tuple[Chapter, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    unkept: tuple[Unkept, ...] = ()
    """Members whose last checkpoint failed, by host. Processes that are gone are included: the state that
    could not be read back is still the group's state, whichever member serves it now."""
    kept_at_ns: int = 0
    """When a member last made a checkpoint after a failure, or made its first one since it took up the group
    or started. Earlier failures no longer count, unless the process that reported them is still running."""
    code_changes: tuple[CodeChange, ...] = ()

    def with_chapters(self, more: Iterable[Chapter]) -> "History":
        """Return the history with *more* added. In each epoch, the chapter with measurements stays."""
        known = {each.epoch: each for each in self.chapters}
        for each in more:
            if each.epoch not in known or each.steps is not None:
                known[each.epoch] = each
        latest = sorted(known.values(), key=lambda each: each.epoch)[-CHAPTERS_MAX:]
        return msgspec.structs.replace(self, chapters=tuple(latest))

    def with_given_up(self, more: Iterable[GivenUp]) -> "History":
        """Return the history with *more* added, each request once."""
        known = {each.request: each for each in (*more, *self.given_up)}
        latest = sorted(known.values(), key=lambda each: each.at_ns)[-GIVEN_UP_MAX:]
        return msgspec.structs.replace(self, given_up=tuple(latest))

    def with_unkept(self, news: Unkept) -> "History":
        """Return the history with one host's latest report about its checkpoints."""
        known = {each.host: each for each in (*self.unkept, news)}
        kept_at_ns = self.kept_at_ns
        if not news.why:
            del known[news.host]
            if known:  # rarely true; otherwise nothing is written, because nothing changes
                kept_at_ns = max(kept_at_ns, news.at_ns)
        unkept = tuple(known[host] for host in sorted(known))
        return msgspec.structs.replace(self, unkept=unkept, kept_at_ns=kept_at_ns)

    def unkept_now(self, running: Mapping[HostId, Incarnation]) -> Iterator[Unkept]:
        """The failed checkpoints that still count, given the processes in session.

        These are the last report of each running process, and the reports of processes that are gone if no
        checkpoint has been made since.
        """
        for each in self.unkept:
            if running.get(each.host) == each.incarnation or each.at_ns > self.kept_at_ns:
                yield each

    def with_code_changes(self, more: Iterable[CodeChange]) -> "History":
        """Return the history with *more* added, each position once."""
        known = {each.position: each for each in (*more, *self.code_changes)}
        latest = sorted(known.values(), key=lambda each: each.position)[-CODE_CHANGES_MAX:]
        return msgspec.structs.replace(self, code_changes=tuple(latest))


@answering
def read_history(group: GroupId) -> Recipe[History]:
    """Read the history of *group*; an empty one when nothing has been written."""
    found = yield from read(keys.history(group), History)
    return found.value if found.value is not None else History(group=group)


@answering
def write_history(
    group: GroupId,
    chapters: tuple[Chapter, ...],
    given_up: tuple[GivenUp, ...] = (),
    code_changes: tuple[CodeChange, ...] = (),
    unkept: Unkept | None = None,
    *,
    nonce: Nonce,
) -> Recipe[History | NoGroup | Contended | InDoubt]:
    """Add these entries and a host's checkpoint report. Run again after a doubt, it adds nothing twice."""
    for _ in range(ATTEMPTS_MAX):
        record = yield from read(keys.group(group), GroupRecord)
        if record.value is None:
            return NoGroup(group)
        found = yield from read(keys.history(group), History)
        known = found.value if found.value is not None else History(group=group)
        wanted = known.with_chapters(chapters).with_given_up(given_up).with_code_changes(code_changes)
        wanted = wanted.with_unkept(unkept) if unkept is not None else wanted
        if wanted == known:
            return known
        # The record is compared too: a late writer must not leave a history of a group that was removed.
        result = yield from change(
            [record.unchanged(), found.unchanged()], [put(found.key, wanted)], nonce=nonce
        )
        if isinstance(result, Applied):
            return wanted
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the history of group {group}")
