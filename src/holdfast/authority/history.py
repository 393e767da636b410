"""What became of a group: its latest views, why each replaced the one before, and how long that took.

For people. A view carries its own cause, so that nothing needs to be written besides it when time is short;
whoever is primary copies the views it has seen here, afterwards and at leisure, each with what was measured.
A view that nobody who lived on had seen is missing from the history, and its number shows that.
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
"""Views of one group that are remembered: about 15 kB."""
GIVEN_UP_MAX: Final = 16
"""Calls of one group that were given up and are remembered."""
CODE_CHANGES_MAX: Final = 32
"""Changes of one group's code that are remembered."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, as measured by who made it: nanoseconds since it had ground to claim."""

    claimed_ns: int
    """The authority has answered."""
    committed_ns: int | None = None
    """What the claimant held is committed in the new epoch (K1)."""
    ready_ns: int | None = None
    """The object is ready: calls are taken."""
    replayed: int = 0
    """Operations that the object had not executed yet, and that were executed for it to be ready."""
    silent_ns: int | None = None
    """How long before that ground the claimant had last heard of the old primary's host."""


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """One view."""

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
    """Processes that it ended."""
    at_ns: int = 0
    """The wall clock of who gave it up."""


class Unkept(msgspec.Struct, frozen=True, kw_only=True):
    """A member whose last checkpoint failed: its state could not be captured, or not be read back (E9)."""

    host: HostId
    why: str
    """Empty: it was made."""
    at_ns: int = 0
    """The wall clock of its host."""
    incarnation: Incarnation = Incarnation(0)
    """Of the process: the host's next one may not have tried yet."""


class CodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The group went on with other code (E7)."""

    from_code: str
    to_code: str
    position: int
    at_ns: int = 0
    """The wall clock of who served first with it."""


class History(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    """The latest views of a group, and the latest calls it gave up, oldest first."""

    group: GroupId
    chapters: tuple[Chapter, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    unkept: tuple[Unkept, ...] = ()
    """Members whose last checkpoint failed, by host; also of processes that are gone: what could not be read
    back then is the group's state, whoever serves it now."""
    kept_at_ns: int = 0
    """When a checkpoint was made by a member whose last one had failed, or who had made none since it took
    up the group or was started: what failed before that is over, unless that process says otherwise."""
    code_changes: tuple[CodeChange, ...] = ()

    def with_chapters(self, more: Iterable[Chapter]) -> "History":
        """With *more*; of two of the same epoch the one that says more stays."""
        known = {each.epoch: each for each in self.chapters}
        for each in more:
            if each.epoch not in known or each.steps is not None:
                known[each.epoch] = each
        latest = sorted(known.values(), key=lambda each: each.epoch)[-CHAPTERS_MAX:]
        return msgspec.structs.replace(self, chapters=tuple(latest))

    def with_given_up(self, more: Iterable[GivenUp]) -> "History":
        """With *more*, each request once."""
        known = {each.request: each for each in (*more, *self.given_up)}
        latest = sorted(known.values(), key=lambda each: each.at_ns)[-GIVEN_UP_MAX:]
        return msgspec.structs.replace(self, given_up=tuple(latest))

    def with_unkept(self, news: Unkept) -> "History":
        """With the latest that one host says of its checkpoints."""
        known = {each.host: each for each in (*self.unkept, news)}
        kept_at_ns = self.kept_at_ns
        if not news.why:
            del known[news.host]
            if known:  # as hardly ever: nothing is written for what changes nothing
                kept_at_ns = max(kept_at_ns, news.at_ns)
        unkept = tuple(known[host] for host in sorted(known))
        return msgspec.structs.replace(self, unkept=unkept, kept_at_ns=kept_at_ns)

    def unkept_now(self, running: Mapping[HostId, Incarnation]) -> Iterator[Unkept]:
        """Those that still count, where these processes are in session: what each of them said last, and
        what those that are gone said of a state of which no checkpoint was made since."""
        for each in self.unkept:
            if running.get(each.host) == each.incarnation or each.at_ns > self.kept_at_ns:
                yield each

    def with_code_changes(self, more: Iterable[CodeChange]) -> "History":
        """With *more*, each position once."""
        known = {each.position: each for each in (*more, *self.code_changes)}
        latest = sorted(known.values(), key=lambda each: each.position)[-CODE_CHANGES_MAX:]
        return msgspec.structs.replace(self, code_changes=tuple(latest))


@answering
def read_history(group: GroupId) -> Recipe[History]:
    """What is written of *group*: an empty history, when nothing is."""
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
    """Add these, and what a host says of its checkpoints. Run again after a doubt it adds them once."""
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
        # Compared with the record, too: a late writer must not leave a history of a group that was removed.
        result = yield from change(
            [record.unchanged(), found.unchanged()], [put(found.key, wanted)], nonce=nonce
        )
        if isinstance(result, Applied):
            return wanted
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the history of group {group}")
