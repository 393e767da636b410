"""Heartbeats on a client's connections: a connection to a host that does not answer is closed (FTC
27.2.9)."""

from collections.abc import Callable, Hashable

from holdfast.model.calls import Ping
from holdfast.model.ids import HostId
from holdfast.model.pauses import PauseDetector
from holdfast.model.ports import Clock, Network, Timers


class ClientHeartbeats:
    """Pings every connected host at one interval, and calls *give_up* for one that was silent for the
    timeout. Any message of a host counts as an answer."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        give_up: Callable[[HostId], None],
        interval_ns: int,
        timeout_ns: int,
    ) -> None:
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._give_up = give_up
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._heard: dict[HostId, int] = {}
        self._number = 0
        self._is_ticking = False
        self._pauses = PauseDetector(clock, missed=2)

    def on_connected(self, host: HostId) -> None:
        self._heard[host] = self._clock.now()
        if not self._is_ticking:
            self._beat()

    def on_disconnected(self, host: HostId) -> None:
        self._heard.pop(host, None)

    def on_heard(self, host: HostId) -> None:
        if host in self._heard:
            self._heard[host] = self._clock.now()

    def _on_timer(self, tag: Hashable) -> None:
        now = self._clock.now()
        if self._pauses.look(self._interval_ns):
            # This process was paused: answers may wait unread, so silence proves nothing.
            self._heard = dict.fromkeys(self._heard, now)
        silent = [host for host, heard in self._heard.items() if now - heard > self._timeout_ns]
        for host in silent:
            self._heard.pop(host, None)
            self._give_up(host)
        self._beat()

    def _beat(self) -> None:
        self._is_ticking = bool(self._heard)
        if not self._is_ticking:
            return
        self._number += 1
        for host in list(self._heard):  # sending may end the connection
            self._network.send(host, Ping(self._number))
        self._pauses.look(self._interval_ns)
        self._timers.set(self._interval_ns, "beat")
