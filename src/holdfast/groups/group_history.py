"""What happened to a group, as one host saw it, and writing that down at the authority when there is time.

A chronicle hears its member's and its style's notes, like the structured log does, and takes the time between
those that make a fail-over. It remembers the latest views. The host of a primary copies what it remembers to
the group's history, some time after the event: nobody who waits for an answer waits for this.
"""

from collections.abc import Callable, Hashable
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
from holdfast.authority.recipe import Recipes
from holdfast.authority.views import NoGroup, View, ViewMember
from holdfast.groups.ports import MakeTimers
from holdfast.model.ids import MILLISECOND, SECOND, Epoch, GroupId, HostId, Nonce
from holdfast.model.ports import Clock, Trace

VIEWS_KEPT: Final = 8
"""So many views in a row may have had a primary that ended before it wrote them down."""
LEISURE_NS: Final = 250 * MILLISECOND
"""After a change the authority is busy with what matters more, perhaps of a thousand groups: so nothing is
written before there was no news for this long."""
LEISURE_NS_MAX: Final = 5 * SECOND
"""But news of one group after the other does not put off writing for longer."""
PAUSE_NS: Final = 20 * MILLISECOND
"""Between two groups: the histories of a thousand are no reason to keep a host or the authority busy."""

GROUND_NS: Final = 5 * SECOND
"""Reading the view and comparing with others (V5) lie between ground and claim, and nothing else."""

FIRST_ANSWER_NS: Final = 5 * SECOND
"""Whoever is answered later has called later: nobody was waiting for the fail-over."""


class GroupHistory:
    """Of one group, at the member *me*. A Trace: everything is passed on to *trace*. *on_news*: there is
    something to write."""

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
        """What became of this process's last checkpoint; None before the first: of the process before it
        nothing is known to be over."""
        self._code_change: CodeChange | None = None
        """Ordered, and not yet served by."""
        self._code_changes: list[CodeChange] = []

    def on_ground(self, view: View | None, host: HostId, silent_ns: int | None = None) -> None:
        """*host* is dead, or silent; if it is the primary of *view*, this is where a fail-over begins. It was
        last heard so long ago."""
        now = self._clock.now()
        is_known = self._ground_at is not None and now - self._ground_at < GROUND_NS
        if view is not None and view.primary == host and not is_known:
            self._ground_at, self._silent_ns = now, silent_ns

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
                # The first code that a group is served by is no change of it.
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
        """What was ordered is committed, or calls would not be taken."""
        if self._code_change is not None:
            self._code_changes.append(self._code_change)
            del self._code_changes[:-CODE_CHANGES_MAX]
            self._code_change = None

    def code_changes(self) -> tuple[CodeChange, ...]:
        """The latest that this host's member brought about (E7)."""
        return tuple(self._code_changes)

    def given_up(self) -> tuple[GivenUp, ...]:
        """The latest calls that this host's member gave up (E4)."""
        return tuple(self._given_up.values())

    def chapters(self) -> tuple[Chapter, ...]:
        """The latest views, with what was measured here."""
        return tuple(Chapter.of(view, self._steps.get(epoch)) for epoch, view in self._views.items())

    def _began(self, now: int) -> int:
        """When there was ground for the claim that is being made. A silence of long ago was another one: the
        primary came back, and no view says so."""
        ground_at, self._ground_at = self._ground_at, None
        if ground_at is not None and now - ground_at < GROUND_NS:
            return ground_at
        self._silent_ns = None
        return now

    def _tell_steps(self) -> None:
        """A failover to this host is over: for who counts how long they take."""
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
        """Only while a claim is under way: an object may be taken up again without one."""
        if self._claimed_at is not None and self._claimed in self._steps:
            self._steps[self._claimed] = msgspec.structs.replace(self._steps[self._claimed], **fields)


class Histories:
    """Writes the chronicles of one host's groups, one after the other."""

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

    def tell(self, group: GroupId, chronicle: GroupHistory) -> None:
        """There is something to write of *group*."""
        self._news[group] = chronicle
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
        group, chronicle = next(iter(self._news.items()))
        del self._news[group]
        recipe = write_history(
            group,
            chronicle.chapters(),
            chronicle.given_up(),
            chronicle.code_changes(),
            chronicle.unkept,
            nonce=self._nonce(),
        )
        self._recipes.start(recipe, partial(self._written, group, chronicle))

    def _written(self, group: GroupId, chronicle: GroupHistory, answer: object) -> None:
        if isinstance(answer, History | NoGroup):
            self._timers.set(PAUSE_NS, "write")
        else:
            self._news.setdefault(group, chronicle)
            self._is_busy = False
            self._rest()
