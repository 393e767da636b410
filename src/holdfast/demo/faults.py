"""The faults of the demo and of the soak.

The demo kills the primary at every interval, and sometimes pauses it past its lease (:class:`PrimaryFaults`).
The soak causes faults of every kind, one after the other, drawn from a seed (:class:`Chaos`).
"""

import asyncio
import itertools
import random
import signal
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct

from holdfast.demo.domain import Ending, LocalDomain
from holdfast.model.admin.groups import HandedOver, SetPrimary, ViewInfo
from holdfast.model.admin.hosts import Deafen, Deafened
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import HostId

PAUSE_S: Final = 2.0
"""Three times a lease: another member takes over, and the paused one notices when it resumes."""
PAUSE_EACH: Final = 5
"""The second of every this many faults is a pause, the others are kills."""
LAST_WORDS_S: Final = 0.05
"""Answers that a process gave before it ended may arrive up to this much later."""
RECOVERY_S: Final = 30.0
"""How long the demo waits for the group to be whole before it breaks it again."""

Kind = Literal["kill", "pause", "cut", "cut_one_way"]


class Fault(Struct, frozen=True, kw_only=True):
    """One fault, and what followed from it."""

    kind: Kind
    host: HostId
    at_s: float
    """Seconds since the load began."""
    silent_ms: float | None = None
    """Milliseconds from the fault to the next answer that a caller got; None when none came."""
    took_over: HostId | None = None
    why: str = ""
    """Why the group has another primary, in the words of its history."""
    claimed_ms: float | None = None
    committed_ms: float | None = None
    ready_ms: float | None = None
    """The new primary's own measurement, from the moment it had reason to claim."""
    replayed: int | None = None


class PrimaryFaults:
    """Breaks the primary of a group at every interval.

    It does so as long as all members are in sync by then and *ending* is not requested.
    """

    def __init__(
        self,
        domain: LocalDomain,
        name: str,
        *,
        every_s: float,
        on_fault: Callable[[Fault], None],
        ending: Ending,
    ) -> None:
        self._domain = domain
        self._name = name
        self._every_s = every_s
        self._on_fault = on_fault
        self._ending = ending
        self._members = 0
        self.faults: list[tuple[float, int, Fault]] = []
        """The faults, each with its time by ``time.monotonic`` and by the wall clock, which histories use."""
        self._views: dict[int, ViewInfo] = {}

    async def run(self, began: float, until: float) -> None:
        """Cause faults from *began* until there is no time left to see the end of another."""
        self._members = len((await self._domain.group(self._name)).placed_on)
        for number in itertools.count(1):
            due = began + number * self._every_s
            if due + self._every_s / 2 > until:
                return
            await self._ending.rest(max(0.0, due - time.monotonic()))
            if self._ending.is_asked:
                return
            found = await self._domain.wait_in_sync(self._name, members=self._members, within_s=RECOVERY_S)
            if found is None or self._ending.is_asked or time.monotonic() + self._every_s / 2 > until:
                return
            await self._learn_views()
            await self._break(self._kind(number), found.primary, began)

    async def _break(self, kind: Kind, host: HostId, began: float) -> None:
        at, wall_ns = time.monotonic(), time.time_ns()
        if not await self._inflict(kind, host):
            return
        fault = Fault(kind=kind, host=host, at_s=round(at - began, 3))
        self.faults.append((at, wall_ns, fault))
        self._on_fault(fault)
        await self._relieve(kind, host)

    def _kind(self, number: int) -> Kind:
        """Which fault the next is; they count from 1."""
        return "pause" if number % PAUSE_EACH == 2 else "kill"

    async def _inflict(self, kind: Kind, host: HostId) -> bool:
        """Begin the fault; returns whether there was anything to break."""
        return self._domain.signal(host, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)

    async def _relieve(self, kind: Kind, host: HostId) -> None:
        """Wait as long as the fault lasts, and end it."""
        if kind == "pause":
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                self._domain.signal(host, signal.SIGCONT)

    async def explained(self, answered_at: "array[float]") -> list[Fault]:
        """Return the faults with what followed from them, once all is over."""
        await self._learn_views()
        claims = [view for _, view in sorted(self._views.items()) if view.why in ("dead", "silent")]
        ends = [*(wall_ns for _, wall_ns, _ in self.faults[1:]), time.time_ns()]
        return [
            _explained(
                fault,
                silence_after(at, answered_at),
                next(
                    (each for each in claims if each.host == fault.host and wall_ns <= each.at_ns < end), None
                ),
            )
            for (at, wall_ns, fault), end in zip(self.faults, ends, strict=True)
        ]

    async def _learn_views(self) -> None:
        """Read the views so far: a history is bounded, so a long demo must read it regularly."""
        try:
            views = (await self._domain.history(self._name)).views
        except (Unavailable, OutcomeUnknown):
            return  # it will be read again
        self._views.update((each.epoch, each) for each in views)


def silence_after(at: float, answered_at: "array[float]") -> float | None:
    """Return the milliseconds from *at* to the end of the silence that began with it.

    It is the longest of the silences that began within ``LAST_WORDS_S``.
    """
    first = bisect_right(answered_at, at)
    moments = [at, *itertools.takewhile(lambda each: each <= at + LAST_WORDS_S, answered_at[first:])]
    after = first + len(moments) - 1
    if after == len(answered_at):
        return None
    moments.append(answered_at[after])
    _, end = max(itertools.pairwise(moments), key=lambda pair: pair[1] - pair[0])
    return round((end - at) * 1000, 1)


def _explained(fault: Fault, silent_ms: float | None, claim: ViewInfo | None) -> Fault:
    return Fault(
        kind=fault.kind,
        host=fault.host,
        at_s=fault.at_s,
        silent_ms=silent_ms,
        took_over=claim.primary if claim is not None else None,
        why=claim.why if claim is not None else "",
        claimed_ms=claim.claimed_ms if claim is not None else None,
        committed_ms=claim.committed_ms if claim is not None else None,
        ready_ms=claim.ready_ms if claim is not None else None,
        replayed=claim.replayed if claim is not None else None,
    )


MEND_S: Final = 120.0
"""How long the demo tries to mend a cut: the hosts may be starting, and the machine may be busy."""
MEND_EACH_S: Final = 0.5
CUT_S: Final = (0.2, 4.0)
SOAK_PAUSE_S: Final = (0.2, 3.0)
"""From shorter to longer than a lease."""


class Chaos:
    """The faults that can hit the groups *names* of *domain*; :meth:`strike` causes one, drawn from *rng*."""

    def __init__(self, domain: LocalDomain, names: Sequence[str], rng: random.Random) -> None:
        self._domain = domain
        self._names = list(names)
        self._rng = rng
        self._hosts = [HostId(each) for each in domain.layout.read().hosts]
        self.tried: Counter[str] = Counter()
        """The faults that had an effect, by kind."""
        self.unmended: list[str] = []
        """What could not be undone, and why; problems after that are to be expected."""
        self._kinds: dict[str, tuple[int, Callable[[], Awaitable[bool]]]] = {
            "kill_primary": (5, self._kill_primary),
            "kill_host": (3, self._kill_host),
            "kill_all_hosts": (1, self._kill_all),
            "pause_host": (3, self._pause_host),
            "cut": (3, self._cut),
            "cut_one_way": (3, self._cut_one_way),
            "hand_over": (3, self._hand_over),
            "kill_authority": (2, self._kill_authority),
            "pause_authority": (1, self._pause_authority),
        }

    async def strike(self) -> str:
        """Cause one fault and end it: resume what was paused, mend what was cut. Returns its kind."""
        weights = [weight for weight, _ in self._kinds.values()]
        (kind,) = self._rng.choices(list(self._kinds), weights)
        with suppress(Unavailable, Rejected, OutcomeUnknown):
            if await self._kinds[kind][1]():
                self.tried[kind] += 1
        return kind

    async def _kill_primary(self) -> bool:
        return self._domain.signal(await self._primary(), signal.SIGKILL)

    async def _kill_host(self) -> bool:
        return self._domain.signal(self._rng.choice(self._hosts), signal.SIGKILL)

    async def _kill_all(self) -> bool:
        killed = [self._domain.signal(host, signal.SIGKILL) for host in self._hosts]
        return any(killed)

    async def _pause_host(self) -> bool:
        host = self._rng.choice(self._hosts)
        return await self._paused(lambda number: self._domain.signal(host, number))

    async def _cut(self) -> bool:
        one, other = self._rng.sample(self._hosts, 2)
        return await self._deafened([(one, other), (other, one)])

    async def _cut_one_way(self) -> bool:
        one, other = self._rng.sample(self._hosts, 2)
        return await self._deafened([(one, other)])

    async def _hand_over(self) -> bool:
        group = await self._domain.group(self._rng.choice(self._names))
        backups = [host for host in group.in_sync if host != group.primary]
        if not backups:
            return False
        order = SetPrimary(name=group.name, host=self._rng.choice(backups), is_any_style=True)
        await self._domain.ask(order, HandedOver, host=group.primary)
        return True

    async def _kill_authority(self) -> bool:
        return self._domain.signal_authority(signal.SIGKILL)

    async def _pause_authority(self) -> bool:
        return await self._paused(self._domain.signal_authority)

    async def _primary(self) -> HostId:
        return (await self._domain.group(self._rng.choice(self._names))).primary

    async def _paused(self, send: Callable[[signal.Signals], bool]) -> bool:
        if not send(signal.SIGSTOP):
            return False
        try:
            await asyncio.sleep(self._rng.uniform(*SOAK_PAUSE_S))
        finally:
            send(signal.SIGCONT)
        return True

    async def _deafened(self, pairs: list[tuple[HostId, HostId]]) -> bool:
        try:
            for host, to in pairs:
                await self._domain.ask(Deafen(hosts=(to,)), Deafened, host=host)
            await asyncio.sleep(self._rng.uniform(*CUT_S))
        finally:
            for host, to in pairs:
                await self._mended(host, to)
        return True

    async def _mended(self, host: HostId, to: HostId) -> None:
        """Mend a cut, unless *host* has been restarted, which mends it too."""
        why = ""
        try:
            async with asyncio.timeout(MEND_S):
                while True:
                    try:
                        await self._domain.ask(Deafen(hosts=(to,), is_deaf=False), Deafened, host=host)
                        return
                    except HoldfastError as error:
                        why = str(error)
                        await asyncio.sleep(MEND_EACH_S)
        except TimeoutError:
            self.unmended.append(f"{host} is still deaf to {to} after {MEND_S:g} s: {why or 'no answer'}")
