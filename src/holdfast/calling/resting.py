"""The pause after nobody could serve: longer each time, and jittered, so that callers do not come as one."""

from collections.abc import Hashable

from holdfast.calling.config import ClientConfig
from holdfast.calling.deadline import Alarm
from holdfast.calling.ports import InvocationPorts
from holdfast.model.ports import Timers


class Rest:
    """Whether the requests to one group rest now. Its timer goes off with *tag*."""

    def __init__(self, timers: Timers, ports: InvocationPorts, config: ClientConfig, tag: Hashable) -> None:
        self.is_on = False
        self._clock = ports.clock
        self._alarm = Alarm(timers, ports.clock, tag)
        self._rng = ports.random.stream("rest")
        self._shortest_ns = config.rest_ns
        self._longest_ns = config.rest_most_ns
        self._deaths_ns = config.rest_deaths_ns
        self._deaths_until_ns = 0
        self._taken = 0

    @property
    def is_after_deaths(self) -> bool:
        return self.is_on and self._clock.now() < self._deaths_until_ns

    def begin_after_deaths(self) -> None:
        """Two hosts are gone that had a call: it may be what ended them, and who is asked next must have
        heard of both deaths by then (E4). A new primary ends this rest, as any; a connection does not."""
        self.is_on = True
        self._deaths_until_ns = self._clock.now() + self._deaths_ns
        self._alarm.cancel()
        self._alarm.by(self._deaths_until_ns)

    def begin(self) -> None:
        if self.is_after_deaths:
            return
        most_ns = min(self._longest_ns, self._shortest_ns << min(self._taken, 20))
        self._taken += 1
        self.is_on = True
        self._alarm.by(self._clock.now() + most_ns // 2 + self._rng.randrange(most_ns // 2 + 1))

    def end(self) -> None:
        self.is_on = False
        self._alarm.cancel()

    def rang(self) -> None:
        """To be called when the timer has fired: the rest is over."""
        self.is_on = False
        self._alarm.rang()

    def on_answered(self) -> None:
        """Somebody serves: the next rest is as short as the first."""
        self._taken = 0
