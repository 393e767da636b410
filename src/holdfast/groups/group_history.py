"""Records what happens to a group on one host, and copies it to the authority when there is time.

A :class:`GroupHistory` receives the notes of its member and its style, as the structured log does. It
measures the steps of a failover by the time between them, and remembers the latest views. :class:`Histories`
copies what the host of a primary remembers to the group's history at the authority, some time after the
event, so that no caller waits for it.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final

import msgspec

from holdfast.authority.history import (
    CODE_CHANGES_MAX,
    GIVEN_UP_MAX,
    Chapter,
    CodeChange,
    GivenUp,
    History,
    Steps,
    Unkept,
    write_history,
)
from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import NoGroup, View, ViewMember
from holdfast.groups.ports import MakeTimers
from holdfast.model.ids import MILLISECOND, SECOND, Epoch, GroupId, HostId, Nonce
from holdfast.model.ports import Clock, Trace

VIEWS_KEPT: Final = 8
"""How many views are remembered: so many in a row may have had a primary that ended before it wrote them
down."""
LEISURE_NS: Final = 250 * MILLISECOND
"""How long there must be no news before anything is written. After a change the authority is busy with more
important work, perhaps for a thousand groups."""
LEISURE_NS_MAX: Final = 5 * SECOND
"""The longest time that a stream of news from one group after another can delay writing."""
PAUSE_NS: Final = 20 * MILLISECOND
"""The pause between writing two groups, so that a thousand histories keep neither the host nor the authority
busy."""

GROUND_NS: Final = 5 * SECOND
"""How long before a claim its cause may lie. Only reading the view and comparing with others (V5) lie between
the two."""

FIRST_ANSWER_NS: Final = 5 * SECOND
"""A call answered later than this was made later: its caller did not wait for the failover."""


class GroupHistory:
    """The history of one group, as the member *me* sees it. It is a Trace that passes everything on to
    *trace*. *on_news* is called when there is something to write."""

    def __init__(self, trace: Trace, clock: Clock, on_news: Callable[[], None], me: ViewMember) -> None:
        self._trace = trace
        self._clock = clock
        self._on_news = on_news
        self._ground_at: int | None = None
        self._silent_ns: int | None = None
        self._claimed_at: int | None = None
        self._ready_at: int | None = None
        self._claimed = Epoch(0)
        self._steps: dict[Epoch, Steps] = {}
        self._views: dict[Epoch, View] = {}
        self._given_up: dict[str, GivenUp] = {}
        self._me = me
        self.unkept: Unkept | None = None
        """The result of this process's last checkpoint. None before the first, because a failure of the
        previous process may still apply."""
        self._code_change: CodeChange | None = None
        """A code change that is ordered, while no calls are served with the new code yet."""
        self._code_changes: list[CodeChange] = []

    def on_ground(self, view: View | None, host: HostId, at: int, silent_ns: int | None = None) -> None:
        """Remember that this process learned at *at* that *host* is dead, or has been silent for *silent_ns*.
        If it is the primary of *view*, a failover began then."""
        is_known = self._ground_at is not None and at - self._ground_at < GROUND_NS
        if view is not None and view.primary == host and not is_known:
            self._ground_at, self._silent_ns = at, silent_ns

    def on_view(self, view: View) -> None:
        self._ground_at = None
        self._views[view.epoch] = view
        for epoch in sorted(self._views)[:-VIEWS_KEPT]:
            del self._views[epoch]
            self._steps.pop(epoch, None)

    def note(self, kind: str, **fields: object) -> None:
        self._trace.note(kind, **fields)
        now = self._clock.now()
        match kind, fields:
            case "claim", {"epoch": int(epoch)}:
                self._claimed = Epoch(epoch)
                self._claimed_at = self._began(now)
            case "won", {"epoch": int(epoch)}:
                if self._claimed_at is not None and self._claimed == epoch:
                    claimed_ns, silent_ns = now - self._claimed_at, self._silent_ns
                    self._steps[self._claimed] = Steps(claimed_ns=claimed_ns, silent_ns=silent_ns)
                self._on_news()
            case "serving", _:
                self._measured(committed_ns=now - (self._claimed_at or now))
            case "replayed", {"operations": int(operations)}:
                self._measured(replayed=operations)
            case "taken_up", _:
                self._measured(ready_ns=now - (self._claimed_at or now))
                self._tell_steps()
                self._ready_at = now if self._claimed_at is not None else None
                self._take_code_change()
                self._claimed_at = None
                self._on_news()
            case "upgraded", {"from_code": str(old), "to_code": str(new), "position": int(position)}:
                # The first code that serves a group is not a change.
                change = CodeChange(from_code=old, to_code=new, position=position, at_ns=self._clock.wall())
                self._code_change = change if position > 1 else None
            case "answered", _:
                ready_at, self._ready_at = self._ready_at, None
                if ready_at is not None and now - ready_at < FIRST_ANSWER_NS:
                    self._trace.note("first_answer", after_ns=now - ready_at)
            case "poisoned", {"request": str(request), "call": str(call), "attempts": int(attempts)}:
                at_ns = self._clock.wall()
                self._given_up[request] = GivenUp(request=request, call=call, attempts=attempts, at_ns=at_ns)
                if len(self._given_up) > GIVEN_UP_MAX:
                    del self._given_up[next(iter(self._given_up))]
                self._on_news()
            case "checkpoint_failed", {"why": str(why)}:
                self._on_unkept(why)
            case "checkpoints_well", _:
                self._on_unkept("")
            case _:
                return

    def _on_unkept(self, why: str) -> None:
        me = self._me
        self.unkept = Unkept(host=me.host, why=why, at_ns=self._clock.wall(), incarnation=me.incarnation)
        self._on_news()

    def _take_code_change(self) -> None:
        """Record the pending code change. It is committed, because calls are taken only after that."""
        if self._code_change is not None:
            self._code_changes.append(self._code_change)
            del self._code_changes[:-CODE_CHANGES_MAX]
            self._code_change = None

    def code_changes(self) -> tuple[CodeChange, ...]:
        """Return the latest code changes that this host's member made (E7)."""
        return tuple(self._code_changes)

    def given_up(self) -> tuple[GivenUp, ...]:
        """Return the latest calls that this host's member gave up (E4)."""
        return tuple(self._given_up.values())

    def chapters(self) -> tuple[Chapter, ...]:
        """Return the latest views, with the times measured here."""
        return tuple(Chapter.of(view, self._steps.get(epoch)) for epoch, view in self._views.items())

    def _began(self, now: int) -> int:
        """Return when the cause of the current claim appeared. An old silence does not count: the primary
        came back from it, though no view says so."""
        ground_at, self._ground_at = self._ground_at, None
        if ground_at is not None and now - ground_at < GROUND_NS:
            return ground_at
        self._silent_ns = None
        return now

    def _tell_steps(self) -> None:
        """Report the duration of a failover to this host that has ended, for those who measure failovers."""
        steps = self._steps.get(self._claimed) if self._claimed_at is not None else None
        if steps is not None:
            self._trace.note(
                "failed_over",
                claimed_ns=steps.claimed_ns,
                committed_ns=steps.committed_ns,
                ready_ns=steps.ready_ns,
                silent_ns=steps.silent_ns,
            )

    def _measured(self, **fields: int) -> None:
        """Add measurements, but only during a claim: an object can become ready again without one."""
        if self._claimed_at is not None and self._claimed in self._steps:
            self._steps[self._claimed] = msgspec.structs.replace(self._steps[self._claimed], **fields)


class Histories:
    """Writes the histories of one host's groups to the authority, one after the other."""

    def __init__(
        self, recipes: Recipes, clock: Clock, timers: MakeTimers, nonce: Callable[[], Nonce]
    ) -> None:
        self._recipes = recipes
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._nonce = nonce
        self._news: dict[GroupId, GroupHistory] = {}
        self._is_busy = False
        self._rests_since = 0
        self._told_at = 0

    def begin(
        self, group: GroupId, trace: Trace, me: ViewMember, views: Mapping[GroupId, Seen[View]]
    ) -> GroupHistory:
        """The history of a member that begins, after the view that is known of its group."""
        history = GroupHistory(trace, self._clock, lambda: self.tell(group, history), me)
        seen = views.get(group)
        if seen is not None:
            history.on_view(seen.value)
        return history

    def tell(self, group: GroupId, history: GroupHistory) -> None:
        """Schedule the history of *group* to be written."""
        self._news[group] = history
        self._told_at = self._clock.now()
        self._rest()

    def close(self) -> None:
        self._timers.close()

    def _rest(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._rests_since = self._clock.now()
            self._timers.set(LEISURE_NS, "write")

    def _on_timer(self, _: Hashable) -> None:
        quiet_at = min(self._told_at + LEISURE_NS, self._rests_since + LEISURE_NS_MAX)
        if self._clock.now() < quiet_at:
            self._timers.set(quiet_at - self._clock.now(), "write")
        else:
            self._write_next()

    def _write_next(self) -> None:
        if not self._news:
            self._is_busy = False
            return
        group, history = next(iter(self._news.items()))
        del self._news[group]
        recipe = write_history(
            group,
            history.chapters(),
            history.given_up(),
            history.code_changes(),
            history.unkept,
            nonce=self._nonce(),
        )
        self._recipes.start(recipe, partial(self._written, group, history))

    def _written(self, group: GroupId, history: GroupHistory, answer: object) -> None:
        if isinstance(answer, History | NoGroup):
            self._timers.set(PAUSE_NS, "write")
        else:
            self._news.setdefault(group, history)
            self._is_busy = False
            self._rest()
