"""Finds groups that wait for each other in a circle, and breaks the circle (E10).

The theory is in :mod:`holdfast.model.deadlock`. When a call has waited for a moment, its host sends a probe
to the primary of the called group. If the call is queued there, that primary adds the calls that its queue
waits for and sends the probe on, until nobody waits or the probe has come full circle. The host that sees the
circle finds its youngest call, and tells the primary of the group in whose queue that call is to refuse it.
That primary checks its own state again before it orders the refusal.
"""

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Final

from msgspec import structs

from holdfast.calling.deadline import DeadlineTimer
from holdfast.execution.effects import Outgoing
from holdfast.execution.nested_call import client_of
from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import DiskGuard, GroupsPorts
from holdfast.model.deadlock import PATH_MAX, GiveWay, Probe, Waits, circle_in, victim
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, GroupId, HostId
from holdfast.styles.admission import in_circle
from holdfast.styles.outgoing import held_up
from holdfast.styles.stateless import Stateless

FIRST_NS: Final = 20 * MILLISECOND
"""How long a call may go unanswered before the first probe; most calls are answered by then."""
LONGEST_NS: Final = 1 * SECOND
"""The longest pause between two probes for the same call. Probes get lost, so they repeat, and the pauses
double up to this."""
SWEEP_NS: Final = 5 * MILLISECOND
"""Calls that are due within this time of each other are checked together."""
MESSAGES_MAX: Final = 256
"""How many messages one host sends within :data:`FIRST_NS`. Further probes are sent later."""


@dataclass(slots=True)
class _Watched:
    hosted: HostedGroup
    outgoing: Outgoing
    pause_ns: int = FIRST_NS


class DeadlockProbes:
    """Probes the calls that the groups of one host have made, and handles the probes that arrive."""

    def __init__(
        self,
        me: HostId,
        hosted: Mapping[GroupId, HostedGroup],
        catalog: GroupCatalog,
        ports: GroupsPorts,
        guard: DiskGuard,
    ) -> None:
        self._me = me
        self._hosted = hosted
        self._catalog = catalog
        self._ports = ports
        self._soon = guard.soon
        self._timers = guard.timers(self._on_timer)
        self._alarm = DeadlineTimer(self._timers, ports.clock, "ask")
        self._watched: list[tuple[int, int, _Watched]] = []
        """A heap of calls, ordered by the time of their next probe. A call that has ended is removed when
        that time comes."""
        self._number = 0
        self._window_ns = 0
        """When the current window for counting messages began."""
        self._sent = 0

    def watch(self, hosted: HostedGroup, outgoing: Outgoing) -> None:
        """Watch a call that a group here makes to another group of this domain."""
        self._push(_Watched(hosted, outgoing), self._ports.clock.now() + FIRST_NS)

    def close(self) -> None:
        self._watched.clear()
        self._timers.close()

    # --- sending probes

    def _push(self, watched: _Watched, due_ns: int) -> None:
        self._number += 1
        heappush(self._watched, (due_ns, self._number, watched))
        self._alarm.by(due_ns)

    def _on_timer(self, tag: Hashable) -> None:
        self._alarm.rang()
        now = self._ports.clock.now()
        while self._watched and self._watched[0][0] <= now + SWEEP_NS:
            _, _, each = heappop(self._watched)
            if self._is_waiting(each.hosted, each.outgoing):
                if len(each.outgoing.chain) > 1 or self._holds_up_others(each.hosted):
                    self._follow(each.hosted, each.outgoing, ())
                each.pause_ns = min(each.pause_ns * 2, LONGEST_NS)
                self._push(each, now + each.pause_ns)
        if self._watched:
            self._alarm.by(self._watched[0][0])

    def _is_waiting(self, hosted: HostedGroup, outgoing: Outgoing) -> bool:
        """Whether the call has no outcome yet and this host is the one that waits for it."""
        is_here = self._hosted.get(hosted.group) is hosted and hosted.is_ready
        execution = hosted.style.execution if is_here and not isinstance(hosted.style, Stateless) else None
        return execution is not None and execution.line.is_waiting_for(outgoing.caller, outgoing.call)

    def _holds_up_others(self, hosted: HostedGroup) -> bool:
        """Whether an operation of another group waits for one in the queue of *hosted*, or may be refused for
        lack of room. If not, and the waiting operation does not come from another group either, only clients
        wait for it, so it is in no circle. *Without that:* five hundred interleaved operations wait, and each
        is probed again and again."""
        execution = None if isinstance(hosted.style, Stateless) else hosted.style.execution
        return execution is not None and (execution.line.holds_up_others or not hosted.replica.has_room)

    def _follow(self, hosted: HostedGroup, outgoing: Outgoing, path: tuple[Waits, ...]) -> None:
        """Probe the group that the operation of *hosted* that made *outgoing* waits for, or break the circle
        if it is closed."""
        link = _link(hosted, outgoing)
        circle = circle_in(path, link)
        if circle:
            self._break(circle)
            return
        called = self._catalog.find(outgoing.group)
        if called is not None and len(path) < PATH_MAX:
            client = client_of(hosted.group, outgoing.caller)
            self._send(Probe(called, client, outgoing.call, (*path, link)))

    def _break(self, circle: tuple[Waits, ...]) -> None:
        index = victim(circle)
        if index is None:
            return
        young, behind = circle[index], circle[(index + 1) % len(circle)]
        names = tuple(each.name for each in (*circle[index:], *circle[:index]))
        client = client_of(young.group, young.request)
        self._send(GiveWay(behind.group, client, young.call, young.expiration_s, behind, names))

    def _send(self, message: Probe | GiveWay) -> None:
        seen = self._catalog.views.get(message.group)
        now = self._ports.clock.now()
        if now - self._window_ns >= FIRST_NS:
            self._window_ns, self._sent = now, 0
        if seen is None or self._sent >= MESSAGES_MAX:
            return
        self._sent += 1
        if seen.value.primary == self._me:
            self._soon(partial(self.on_message, self._me, message))
        else:
            self._ports.network.send(seen.value.primary, message)

    # --- handling probes

    def on_message(self, peer: HostId, message: Probe | GiveWay) -> None:
        """Handle a probe or a request to give way, from another host or from this one."""
        hosted = self._hosted.get(message.group)
        if hosted is None or not hosted.is_ready or isinstance(hosted.style, Stateless):
            return  # the group has moved; the waiting host probes again
        execution = hosted.style.execution
        held = execution and held_up(
            execution, hosted.member.committed, message.request, has_room=hosted.replica.has_room
        )
        if not held:
            return
        if isinstance(message, GiveWay):
            is_behind = any(_link(hosted, each).is_same(message.behind) for each in held.by)
            if held.is_unbegun and is_behind:
                self._refuse(hosted, message)
            return
        path = (*message.path[:-1], structs.replace(message.path[-1], is_unbegun=held.is_unbegun))
        for outgoing in held.by:
            self._follow(hosted, outgoing, path)

    def _refuse(self, hosted: HostedGroup, message: GiveWay) -> None:
        with suppress(Rejected, Unavailable):  # the waiting host probes again
            outcome = in_circle(message.circle[0], message.circle)
            hosted.replica.withdraw(message.request, message.expiration_s, outcome)
            hosted.history.note("circle", group=hosted.group, circle=message.circle)
        hosted.ask_turn()


def _link(hosted: HostedGroup, outgoing: Outgoing) -> Waits:
    caller, call, root = outgoing.caller, outgoing.call, outgoing.root
    return Waits(hosted.group, hosted.record.name, *caller, call, root, outgoing.expiration_s)
