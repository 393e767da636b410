"""Finding groups that wait for each other in a circle, and breaking it (E10; theory in
:mod:`holdfast.model.deadlock`).

The host of a call that has waited for a moment asks along: the called group's primary, if the call stands in
line there, adds whom that line waits for and sends the question on, until nobody waits, or until it has come
round. Whoever sees it come round tells the primary of the group in whose line the youngest call stands to
refuse it, and that one looks again, at its own state, before it orders so.
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
"""After which a call that has no answer is asked about: most have one by then."""
LONGEST_NS: Final = 1 * SECOND
"""Between two questions about the same call; the pauses double up to here, as questions get lost."""
SWEEP_NS: Final = 5 * MILLISECOND
"""Calls that fall due so soon after each other are looked at together."""
MESSAGES_MAX: Final = 256
"""That one host sends within :data:`FIRST_NS`. What goes beyond is asked again later."""


@dataclass(slots=True)
class _Watched:
    housed: HostedGroup
    outgoing: Outgoing
    pause_ns: int = FIRST_NS


class DeadlockProbes:
    """Of one host: the calls its groups have made, and the questions that come by."""

    def __init__(
        self,
        me: HostId,
        housed: Mapping[GroupId, HostedGroup],
        directory: GroupCatalog,
        ports: GroupsPorts,
        guard: DiskGuard,
    ) -> None:
        self._me = me
        self._housed = housed
        self._directory = directory
        self._ports = ports
        self._soon = guard.soon
        self._timers = guard.timers(self._on_timer)
        self._alarm = DeadlineTimer(self._timers, ports.clock, "ask")
        self._watched: list[tuple[int, int, _Watched]] = []
        """A heap of calls, by when they are asked about next; those that have ended are found out then."""
        self._number = 0
        self._window_ns = 0
        """Since when messages are counted."""
        self._sent = 0

    def watch(self, housed: HostedGroup, outgoing: Outgoing) -> None:
        """A group here calls another one of this domain."""
        self._push(_Watched(housed, outgoing), self._ports.clock.now() + FIRST_NS)

    def close(self) -> None:
        self._watched.clear()
        self._timers.close()

    # --- asking

    def _push(self, watched: _Watched, due_ns: int) -> None:
        self._number += 1
        heappush(self._watched, (due_ns, self._number, watched))
        self._alarm.by(due_ns)

    def _on_timer(self, tag: Hashable) -> None:
        self._alarm.rang()
        now = self._ports.clock.now()
        while self._watched and self._watched[0][0] <= now + SWEEP_NS:
            _, _, each = heappop(self._watched)
            if self._is_waiting(each.housed, each.outgoing):
                if len(each.outgoing.chain) > 1 or self._holds_up_others(each.housed):
                    self._follow(each.housed, each.outgoing, ())
                each.pause_ns = min(each.pause_ns * 2, LONGEST_NS)
                self._push(each, now + each.pause_ns)
        if self._watched:
            self._alarm.by(self._watched[0][0])

    def _is_waiting(self, housed: HostedGroup, outgoing: Outgoing) -> bool:
        """Whether the call has no outcome yet, and this host is the one to ask for it."""
        is_here = self._housed.get(housed.group) is housed and housed.is_ready
        execution = housed.style.execution if is_here and not isinstance(housed.style, Stateless) else None
        return execution is not None and execution.line.is_waiting_for(outgoing.caller, outgoing.call)

    def _holds_up_others(self, housed: HostedGroup) -> bool:
        """Whether another group's operation waits for one that stands in line there. If not, and the
        operation that waits is no other group's either, nobody waits for it but clients: it is in no circle.
        *Without that:* five hundred interleaved operations wait, and each is asked about again and again."""
        execution = None if isinstance(housed.style, Stateless) else housed.style.execution
        return execution is not None and execution.line.holds_up_others

    def _follow(self, housed: HostedGroup, outgoing: Outgoing, path: tuple[Waits, ...]) -> None:
        """Ask whom the operation of *housed* that made *outgoing* waits for."""
        link = _link(housed, outgoing)
        circle = circle_in(path, link)
        if circle:
            self._break(circle)
            return
        called = self._directory.find(outgoing.group)
        if called is not None and len(path) < PATH_MAX:
            client = client_of(housed.group, outgoing.caller)
            self._send(Probe(called, client, outgoing.call, (*path, link)))

    def _break(self, circle: tuple[Waits, ...]) -> None:
        index = victim(circle)
        if index is None:
            return
        young, behind = circle[index], circle[(index + 1) % len(circle)]
        names = tuple(each.name for each in (*circle[index:], *circle[:index]))
        client = client_of(young.group, young.request)
        self._send(GiveWay(behind.group, client, young.call, behind, names))

    def _send(self, message: Probe | GiveWay) -> None:
        seen = self._directory.views.get(message.group)
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

    # --- answering

    def on_message(self, peer: HostId, message: Probe | GiveWay) -> None:
        """From another host, or from this one."""
        housed = self._housed.get(message.group)
        if housed is None or not housed.is_ready or isinstance(housed.style, Stateless):
            return  # it has moved, and whoever waits asks again
        execution = housed.style.execution
        held = execution and held_up(
            execution, housed.member.committed, message.request, has_room=housed.replica.has_room
        )
        if not held:
            return
        if isinstance(message, GiveWay):
            is_behind = any(_link(housed, each).is_same(message.behind) for each in held.by)
            if held.is_in_line and is_behind:
                self._refuse(housed, message)
            return
        path = (*message.path[:-1], structs.replace(message.path[-1], is_in_line=held.is_in_line))
        for outgoing in held.by:
            self._follow(housed, outgoing, path)

    def _refuse(self, housed: HostedGroup, message: GiveWay) -> None:
        with suppress(Rejected, Unavailable):  # whoever waits asks again
            housed.replica.withdraw(message.request, in_circle(message.circle[0], message.circle))
            housed.chronicle.note("circle", group=housed.group, circle=message.circle)
        housed.ask_turn()


def _link(housed: HostedGroup, outgoing: Outgoing) -> Waits:
    return Waits(housed.group, housed.record.name, *outgoing.caller, outgoing.call, outgoing.root)
