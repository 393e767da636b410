"""Faults of every kind on a domain of this machine, one after the other, drawn from a seed."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from holdfast.demo.domain import LocalDomain
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.host_orders import Deafen, Deafened
from holdfast.model.ids import HostId
from holdfast.model.orders import HandedOver, SetPrimary

MEND_S: Final = 120.0
"""How long a cut is tried to be healed: the hosts may be on their way up, and the machine busy."""
MEND_EACH_S: Final = 0.5
CUT_S: Final = (0.2, 4.0)
PAUSE_S: Final = (0.2, 3.0)
"""Shorter and longer than a lease."""


class Chaos:
    """What can be done to the groups *names* of *domain*; :meth:`strike` does one thing, drawn from *rng*."""

    def __init__(self, domain: LocalDomain, names: Sequence[str], rng: random.Random) -> None:
        self._domain = domain
        self._names = list(names)
        self._rng = rng
        self._hosts = [HostId(each) for each in domain.layout.read().hosts]
        self.tried: Counter[str] = Counter()
        """What took effect, by kind."""
        self.unmended: list[str] = []
        """What could not be undone, and why: whatever follows is no wonder."""
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
        """One fault, to its end: what was paused goes on, what was cut is mended. Its kind."""
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
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
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
        """Until it is done, or *host* has been started again, which mends it too."""
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
